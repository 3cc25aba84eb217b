"""`TerminalProgress`: a run as it goes on, told on standard error."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rlm_jupyter.frontends.cli import lines, terminal
from rlm_jupyter.frontends.display.clock import Clock
from rlm_jupyter.frontends.display.running_children import RunningChildren
from rlm_jupyter.frontends.display.status import Speed
from rlm_jupyter.record import attempts
from rlm_jupyter.record.notice import compacted_line
from rlm_jupyter.types.events import (
    CallDecided,
    CallProposed,
    CellFinished,
    CellReplayed,
    CellStarted,
    ChildReported,
    ConversationCompacted,
    DirectReplied,
    Event,
    IterationRated,
    NoticeGiven,
    OutputsShown,
    RemarkMade,
    ReplyReceived,
    ReplyStreamed,
    RequestDelayed,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import Usage

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FRAMES_PER_SECOND = 8
_PLAIN_WIDTH = 110
"""Of a line where no terminal says how wide it is."""
_PLAIN_SECONDS = 5.0
"""Between two lines about sub-calls that go on."""
_WAITING = "waiting for a reply"


@dataclass
class TerminalProgress:
    """Tells a run's events: what is done stays as a line each, what goes on is drawn anew below.

    On anything but a terminal there are only the lines; with `quiet` there is nothing. Events may come
    from any thread.
    """

    quiet: bool = False
    run_id: str | None = None
    """Of the run that was told of."""
    ended: RunEnded | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    _clock: Clock = field(default_factory=Clock)
    _iteration: int = 0
    _most_iterations: int = 0
    _limits: dict[str, Any] = field(default_factory=dict)
    """Of the run: what is left of them is shown all the time."""
    _doing: str = "starting a kernel"
    _delay: str = ""
    """Why a request waits to be sent again."""
    _written: int = 0
    """Characters of the reply that is being received."""
    _reward: float | None = None
    _has_reward: bool = False
    """Whether the user has named a reward policy: nobody else wants to know."""
    _started: int = 0
    """Sub-calls of the running cell."""
    _tools: int = 0
    """Those of them that are calls of tools."""
    _settled: int = 0
    _failed: int = 0
    _children: RunningChildren = field(default_factory=RunningChildren)
    _speed: Speed = field(default_factory=Speed)
    _told: float = 0.0
    _delay_told: float = -math.inf
    _cell_began: float = 0.0
    _console: Console | None = None
    _unicode: bool = True
    _live: Any = None

    def __enter__(self) -> Self:
        if not self.quiet:
            self._console = terminal.console(stderr=True)
            self._unicode = self._console.encoding.startswith("utf")
            if terminal.is_live():
                from rich.live import Live
                from rich.spinner import Spinner

                self._spinner = Spinner("dots" if self._unicode else "line")
                # what the display draws over must not be written past it: warnings, log lines
                self._live = Live(
                    get_renderable=self._now,
                    console=self._console,
                    refresh_per_second=_FRAMES_PER_SECOND,
                    transient=True,
                    redirect_stdout=False,
                )
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_event(self, event: Event) -> None:
        """Tell an event."""
        if isinstance(event, ChildReported):
            self._children.apply(event)
        told = event.event if isinstance(event, ChildReported) else event
        if isinstance(told, CallProposed | CallDecided) and self._live is not None:
            # somebody is asked at the prompt, which the display would overwrite
            self._live.stop() if isinstance(told, CallProposed) else self._live.start()
        if isinstance(event, ChildReported):
            return
        self._speed.apply(event)
        self._clock.apply(event)
        try:
            if isinstance(event, CellReplayed | RunResumed):
                self._tell_again(event)
            elif isinstance(event, SampleSettled | DirectReplied):
                self._spend(event.usage, event.cost)
                self.say(f"    {terminal.one_line(attempts.line(event), self._width - 4)}", "dim")
            elif isinstance(event, ConversationCompacted):
                self._spend(event.usage, event.cost)
                self.say(f"    {compacted_line(event)}", "dim")
            elif isinstance(event, RequestDelayed):
                self._tell_delay(terminal.printable(event.text))
            elif isinstance(event, RemarkMade):
                self.say(f"    {terminal.printable(event.text)}", "yellow")
                self._doing = "waiting for the model's server" if event.passes else self._doing
            else:
                self._on_event(event)
        except OSError:
            # standard error is gone, such as a pipe that was closed: the run goes on without it
            self._console = None

    def say(self, text: str, style: str = "") -> None:
        """Leave a line."""
        if self._console is None:
            return
        from rich.text import Text

        if self._live is not None:
            self._console.print(Text(text, style, no_wrap=True, overflow="ellipsis"))
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def _start(self, event: RunStarted) -> None:
        self.run_id, self._limits = event.run_id, event.limits
        self._has_reward = event.options.get("reward") is not None
        self._most_iterations = int(event.limits.get("max_iterations") or 0)
        for line in lines.of_start(event):
            self.say(*line)
        self._begin(1)

    def _on_event(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._start(event)
            case ReplyStreamed():
                self._begin(event.iteration)
                self._written += len(event.text)
                self._doing = f"a reply arrives, {terminal.count(self._written, 'character')}"
            case ReplyReceived():
                self._spend(event.usage, event.cost)
                self._begin(event.iteration)
                self._written = 0
                self.say(*lines.of_reply(event, self._width))
            case CellStarted():
                self._doing = lines.gist(event.source, self._width)
                self._cell_began = time.monotonic()
                self._started = self._tools = self._settled = self._failed = 0
            case SubcallStarted():
                self._started += 1
                self._tools += event.kind == "tool"
            case SubcallSettled():
                self._spend(event.usage, event.cost)
                self._settled += 1
                self._failed += event.failed
                self._tell_subcalls()
            case CellFinished():
                self._tell_cell(event)
            case NoticeGiven():
                self.say(f"    to the model: {terminal.one_line(event.text, self._width - 16)}", "yellow")
            case IterationRated():
                self._reward = event.reward if self._has_reward else None
            case OutputsShown():
                self._begin(event.iteration + 1)
            case RunEnded():
                self.ended, self._delay, self._iteration = event, "", 0  # with the last outputs none was begun
                self._doing = "closing the kernel"
            case _:
                pass

    def _tell_again(self, event: CellReplayed | RunResumed) -> None:
        if isinstance(event, RunResumed):
            self._most_iterations = int(event.limits.get("max_iterations") or 0)
            self.say("    the run is resumed", "dim")
            return
        for line in event.difference.splitlines():
            self.say(f"      {terminal.printable(line)}", "yellow")

    def _begin(self, iteration: int) -> None:
        if iteration != self._iteration:
            self._iteration = iteration
            self._written = 0
            self._doing = _WAITING

    def _spend(self, usage: Usage, cost: float | None) -> None:
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def _tell_cell(self, cell: CellFinished) -> None:
        # of a cell that was cut short nobody has taken the time
        seconds = cell.seconds or time.monotonic() - self._cell_began
        facts = "not executed" if cell.status == "skipped" else terminal.duration(seconds)
        if self._started:
            facts += f" · {', '.join(terminal.calls(self._started - self._tools, self._tools))}"
            facts += f", {self._failed} failed" if self._failed else ""
        self.say(*lines.of_cell(cell, facts, self._width, is_unicode=self._unicode))
        self._started = self._tools = self._settled = self._failed = 0
        self._children.clear()
        self._doing = "looking at what came out"

    def _tell_subcalls(self) -> None:
        """Tell of sub-calls now and then where no line is drawn anew."""
        if self._live is None and time.monotonic() - self._told > _PLAIN_SECONDS and self._settled < self._started:
            if self._told:
                self.say(f"      {self._subcalls()} · {self._facts()}")
            self._told = time.monotonic()

    def _tell_delay(self, text: str) -> None:
        """Show it for as long as it lasts; where no line is drawn anew, leave one now and then."""
        self._delay = text
        now = time.monotonic()
        if text and self._live is None and now - self._delay_told > _PLAIN_SECONDS:
            self._delay_told = now
            self.say(f"    {text}")

    def _subcalls(self) -> str:
        failed = f", {self._failed:,} failed" if self._failed else ""
        children = f", {words}" if (words := self._children.words) else ""
        kinds = (("sub-calls", self._started - self._tools), ("tool calls", self._tools))
        names = " and ".join(name for name, number in kinds if number)
        return f"{names}: {self._settled:,} done{failed}, {self._started - self._settled:,} in flight{children}"

    def _facts(self) -> str:
        seconds = self._limits.get("max_seconds")
        of = f" of {terminal.duration(seconds)}" if seconds else ""
        limits = {"of_tokens": self._limits.get("max_tokens"), "of_cost": self._limits.get("max_cost")}
        facts = [
            terminal.spent(self.usage, self.cost, **limits),
            terminal.duration(self._clock.seconds) + of,
        ]
        return " · ".join(facts + ([] if self._reward is None else [f"last reward {self._reward:+.2f}"]))

    def _now(self) -> RenderableType:
        """Return what goes on, for the live display."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        of = f" of {self._most_iterations}" if self._most_iterations else ""
        where = f"iteration {self._iteration}{of} · " if self._iteration else ""
        top = Table.grid(padding=(0, 1))
        top.add_row(self._spinner, Text(f"{where}{self._at_work()}", no_wrap=True, overflow="ellipsis"))
        subcalls = f"{self._subcalls()} · " if self._started else ""
        return Group(top, Text(f"  {subcalls}{self._facts()}", "dim", no_wrap=True, overflow="ellipsis"))

    def _at_work(self) -> str:
        """Return what is done now; a slow model is seen to be at work."""
        if self._delay:
            return self._delay
        if (waiting := self._speed.waiting) is not None and self._doing == _WAITING:
            return f"{self._doing}, {terminal.duration(waiting)}"
        return " · ".join([self._doing, *([] if self._speed.waiting is not None else self._speed.words)])

    @property
    def _width(self) -> int:
        return self._console.width if self._console is not None and self._live is not None else _PLAIN_WIDTH
