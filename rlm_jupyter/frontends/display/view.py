"""`View`: what there is to see of a run, folded from its events; it knows no front end.

Every event costs the same however long the run is; what was drawn once is kept, and only the newest
iterations are.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.display.clock import WAITS, Clock, Waits
from rlm_jupyter.frontends.display.iteration import OfIteration, SeenIteration, count
from rlm_jupyter.frontends.display.running_children import RunningChildren
from rlm_jupyter.frontends.display.spending import Spending
from rlm_jupyter.frontends.display.status import Speed
from rlm_jupyter.record.attempts import Attempt, line
from rlm_jupyter.record.notice import compacted_line
from rlm_jupyter.types.endings import WORDS, in_short
from rlm_jupyter.types.events import (
    CallDecided,
    CellDecided,
    CellFinished,
    CellReplayed,
    ChildReported,
    ConversationCompacted,
    DirectReplied,
    Event,
    IterationRated,
    OutputsElided,
    OutputsShown,
    RemarkMade,
    ReplyReceived,
    RequestDelayed,
    RunEnded,
    RunResumed,
    RunStarted,
    RunUnpaused,
    SampleSettled,
    SubcallSettled,
    SubcallStarted,
)

WAITING = "Waiting for the model"
SHOWN_LIVE = 8
"""Iterations that are drawn while the run goes on."""
SHOWN_AFTER = 30
"""Iterations that are drawn when it is over; all are in the run's notebook."""


class View:
    """What there is to see. Fed from the run's thread, drawn in another.

    Parameters
    ----------
    title
        Stands in the headline until the first event.
    shows_outputs
        `False`: of the cells' outputs, draw the errors alone.
    """

    def __init__(self, title: str = "Starting a kernel", *, shows_outputs: bool = True) -> None:
        self._shows_outputs = shows_outputs
        self._lock = threading.Lock()
        self._title = title
        self._started: RunStarted | None = None
        self._ended: RunEnded | None = None
        self._failed = False
        self._done: deque[SeenIteration] = deque(maxlen=SHOWN_AFTER)
        self._count = 0
        self._replies = 0
        """Iterations of which there is a reply: a notice or the beginning of a reply makes none."""
        self._person = ""
        """What a person is waited for."""
        self._now: SeenIteration | None = None
        self._spending = Spending()
        self._in_flight = 0
        self._children = RunningChildren()
        self._speed = Speed()
        self._limits: Mapping[str, Any] = {}
        self._attempts: list[Attempt] = []
        self._remark = ""
        self._delay = ""
        self._clock = Clock()

    def apply(self, event: Event) -> None:
        """Take in an event."""
        with self._lock:
            self._speed.apply(event)
            self._clock.apply(event)
            if isinstance(event, RunStarted):
                self._started, self._limits = event, event.limits
            elif isinstance(event, RunEnded):
                self._ended, self._delay = event, ""
                # that of requests that were stopped on the way, too
                self._spending.usage, self._spending.cost = event.usage, event.cost
                self._close()
            else:
                if isinstance(event, RunResumed):
                    self._limits = event.limits
                self._enter(event)

    @property
    def completed(self) -> int:
        """How many iterations are completed."""
        return self._count

    def fail(self) -> None:
        """Take note that nothing more will come: the host failed."""
        with self._lock:
            self._failed, self._delay = True, ""
            self._close()

    @property
    def never_began(self) -> bool:
        """Whether the host failed before the run began: its error says all there is to say."""
        return self._failed and self._started is None

    @property
    def summary(self) -> str:
        """The last completed iteration as one line of plain text."""
        with self._lock:
            if not self._done:
                return self._title
            last = self._done[-1]
            so_far = f"so far {', '.join(self._spent()) or 'nothing spent'}"
            return f"iteration {last.index}{self._of()}: {', '.join(last.facts())} ({so_far})"

    def status(self, path: Path | None = None, *, brief: bool = False) -> str:
        """Return the headline, and (unless it is to be `brief`) the iteration under way."""
        with self._lock:
            pieces = [self._headline(path)]
            pieces += [fragments.note(text) for text in (self._remark, *map(line, self._attempts), self._delay) if text]
            if self._now is not None and self._ended is None and not brief:
                body = self._now.html(done=False)
                pieces.append(
                    fragments.iteration(f"Iteration {self._now.index}", self._doing(), body, is_open=True, now=True)
                )
            return "".join(pieces)

    def iterations(self) -> str:
        """Return the newest completed iterations, newest first, while the run goes on; then all, folded, in order."""
        with self._lock:
            if self._ended is None and not self._failed:
                shown = list(self._done)[: -SHOWN_LIVE - 1 : -1]
                drawn = [self._iteration(seen, is_open=index == 0) for index, seen in enumerate(shown)]
                return "".join(drawn) + self._rest(self._count - len(shown))
            if not self._done:
                return ""
            drawn = [self._iteration(seen, is_open=len(self._done) == 1) for seen in self._done]
            return fragments.folded("Steps", self._rest(self._count - len(drawn)) + "".join(drawn))

    def text(self) -> str:
        """Return the headline as plain text."""
        with self._lock:
            title, facts = self._words()
            return " · ".join([*filter(None, [self._delay]), title, *facts, *self._unsafe()])

    def _enter(self, event: Event) -> None:
        if isinstance(event, RunStarted | RunResumed | RunEnded | OutputsElided | CellReplayed):
            return
        if isinstance(event, Waits):
            self._person = WAITS[type(event)]
        elif isinstance(event, CellDecided | CallDecided | RunUnpaused):
            self._person = ""
        elif isinstance(event, RemarkMade):
            # what passes stands in the headline until the run begins
            if event.passes:
                self._title = event.text.rstrip(".")
            else:
                self._remark = event.text
        elif isinstance(event, RequestDelayed):
            self._delay = event.text
        elif isinstance(event, IterationRated):
            self._rate(event)
        elif isinstance(event, ChildReported):
            self._children.apply(event)
        elif isinstance(event, SampleSettled | DirectReplied | ConversationCompacted):
            self._spend_beside(event)
        else:
            self._see(event)

    def _spend_beside(self, event: Attempt | ConversationCompacted) -> None:
        """Take in what was asked of a model beside the iterations."""
        self._spending.add(event.usage, event.cost)
        if not isinstance(event, ConversationCompacted):
            self._attempts.append(event)
        elif self._done:  # it comes after the last of them
            self._done[-1].note(compacted_line(event))

    def _rate(self, rated: IterationRated) -> None:
        # each run is rated; it means something to who has named a policy for it
        is_asked = self._started is None or "reward" in self._started.options
        # it comes when the iteration's outputs were shown: that one is done
        if is_asked and self._done and self._done[-1].index == rated.iteration:
            self._done[-1].reward = rated.reward

    def _see(self, event: OfIteration) -> None:
        if self._now is None or event.iteration > self._now.index:
            self._close()
            self._now = SeenIteration(event.iteration)
        now = self._now
        now.apply(event, shows_outputs=self._shows_outputs)
        match event:
            case ReplyReceived():
                self._spending.add(event.usage, event.cost)
                if not event.rejected:
                    self._replies = max(self._replies, event.iteration)
            case CellFinished():
                self._in_flight = 0  # what was cancelled with the cell never settles
                self._children.clear()
            case SubcallStarted():
                self._in_flight += event.kind != "tool"
            case SubcallSettled():
                is_tool = event.kind == "tool"
                self._in_flight = max(self._in_flight - (not is_tool), 0)
                self._spending.add(event.usage, event.cost, subcalls=not is_tool, tool_calls=is_tool)
            case OutputsShown():
                self._close()
            case _:
                pass

    def _close(self) -> None:
        if self._now is not None:
            self._done.append(self._now)
            self._count += 1
            if self._now.cells:
                self._replies = max(self._replies, self._now.index)
            self._now = None

    def _headline(self, path: Path | None) -> str:
        title, facts = self._words()
        facts += self._unsafe()
        if self._ended is None:
            return fragments.headline("bad" if self._failed else "running", title, facts, path=path)
        stop = self._ended.stop_reason
        tone: fragments.Tone = "good" if stop in {"answered", "terminated"} else "bad" if stop == "failed" else "warn"
        return fragments.headline(tone, title, facts, path=path)

    def _words(self) -> tuple[str, list[str]]:
        if (ended := self._ended) is not None:
            title = _title(ended)
            return title, [count(self._replies, "iteration"), *self._spent(), f"{ended.seconds:.1f} s"]
        most = None if self._started is None else self._started.limits.get("max_seconds")
        seconds = [f"{self._clock.seconds:.0f} s{f' of {most:.0f} s' if most else ''}"]
        if self._failed:
            return "Failed", self._spent() + seconds
        if self._now is None and not self._count:
            waiting = WAITING if self._started is not None else self._title
            return waiting, self._model() + seconds
        index = self._now.index if self._now is not None else self._count
        return f"Iteration {index}{self._of()}", self._spent() + seconds + self._model() + self._speed.words

    def _doing(self) -> list[str]:
        if self._person:
            return [self._person]
        now = self._now
        if now is None:
            return []
        if now.cells and now.cells[-1].status is None:
            waiting = [f"{count(self._in_flight, 'sub-call')} in flight"] if self._in_flight else []
            return ["running a cell", *waiting, *filter(None, [self._children.words])]
        return now.facts() if now.segments is not None else ["writing"]

    def _spent(self) -> list[str]:
        return self._spending.words(self._limits)

    def _unsafe(self) -> list[str]:
        """Say that the model's code has the user's rights, where it has."""
        kind = None if self._started is None else self._started.options.get("sandbox", {}).get("kind")
        return ["no sandbox: the model's code has your rights"] if kind == "none" else []

    def _of(self) -> str:
        most = self._limits.get("max_iterations")
        return f" of {most}" if most else ""

    def _model(self) -> list[str]:
        return [self._started.model] if self._started is not None else []

    def _iteration(self, seen: SeenIteration, *, is_open: bool) -> str:
        title = "Last call" if seen.is_last_call else f"Iteration {seen.index}"
        return fragments.iteration(title, seen.facts(), seen.html(done=True), is_open=is_open)

    def _rest(self, number: int) -> str:
        return fragments.note(f"{count(number, 'earlier iteration')}: in the run's notebook") if number > 0 else ""


def _title(ended: RunEnded) -> str:
    words = in_short(ended.stop_reason, ended.message)
    if words != WORDS[ended.stop_reason]:
        return f"Stopped: {words}"
    if ended.stop_reason == "failed":
        return "Failed"  # the error stands below
    if ended.stop_reason in {"answered", "terminated", "cancelled"}:
        return words[:1].upper() + words[1:]
    return f"Stopped: {words}"
