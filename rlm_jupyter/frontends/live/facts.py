"""`RunFacts`: the numbers of a run, folded from its events, as a page shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from rlm_jupyter.frontends.display.clock import Clock
from rlm_jupyter.frontends.display.status import Speed
from rlm_jupyter.frontends.live.page_requests import Asks
from rlm_jupyter.record.catalog import in_notebook
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run.control import ADJUSTABLE
from rlm_jupyter.types.events import (
    CallDecided,
    CallProposed,
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    ConversationCompacted,
    DirectReplied,
    Event,
    RemarkMade,
    ReplyReceived,
    ReplyStreamed,
    RequestDelayed,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    RunUnpaused,
    SampleSettled,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import Usage

Phase = Literal["starting", "writing", "running", "proposed", "paused", "ended"]
_PROMPT_CHARS = 120
_LIMITS = (*ADJUSTABLE, "max_depth")


class RunFacts:
    """What a run has used, and what it is at."""

    def __init__(self) -> None:
        self.outcome: str | None = None
        """The stop reason, once it is over."""
        self.asks = Asks()
        """What pages ask of it."""
        self.notebook: Path | None = None
        """Where it is kept, which names its files; `None`: it is not, or has not begun."""
        self.number: int | None = None
        """Of the cell that asked, where the model's cells take the numbers after it in the same kernel."""
        self._file: dict[str, str | None] | None = None
        self.call: CallProposed | None = None
        """The call of a tool that waits for a person."""
        self._limits: dict[str, float | None] = {}
        self._phase: Phase = "starting"
        self._started: RunStarted | None = None
        self._iteration = 0
        self._replied = 0
        """The last iteration of which there is a reply."""
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._models: dict[str, int] = {}
        """Tokens by the model's name; a child's are counted as the sub-model's."""
        self._subcalls = 0
        self._in_flight = 0
        self._clock = Clock()
        self._seconds: float | None = None
        self._message = ""
        self._remark = self._delay = ""
        self._passes = False
        self._speed = Speed()

    @property
    def elapsed(self) -> float | None:
        """Return the seconds of a run that goes on, less those in which a person was waited for; else `None`."""
        return None if self.outcome is not None else round(self._clock.seconds, 1)

    @property
    def iteration(self) -> int:
        """The iteration that the run is at, or ended with."""
        return self._iteration

    @property
    def run_id(self) -> str:
        """The run's id; empty until it has begun."""
        return "" if self._started is None else self._started.run_id

    def apply(self, event: Event) -> None:
        """Take in an event."""
        self._speed.apply(event)
        self._clock.apply(event)
        self.wait(event)
        if isinstance(event, RemarkMade):
            self._remark, self._passes = event.text, event.passes
        elif isinstance(event, RequestDelayed):
            self._delay = event.text
        elif isinstance(event, RunResumed):  # after the end that is on record
            self.outcome, self._phase, self._message, self._seconds = None, "writing", "", None
        elif isinstance(event, SampleSettled | DirectReplied | ConversationCompacted):
            self._spend(event.usage, event.cost, event.model)
        else:
            self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started, self._phase = event, "writing"
                self._remark = "" if self._passes else self._remark
            case ReplyStreamed(iteration=index):
                self._iteration, self._phase = index, "writing"
            case ReplyReceived(iteration=index):
                self._iteration = index
                self._replied = self._replied if event.rejected else index
                self._spend(event.usage, event.cost, event.model)
            case CellStarted():
                self._phase = "running"
            case CellFinished():
                self._phase, self._in_flight = "writing", 0
            case CellProposed():
                self._phase = "proposed"
            case CellDecided() | RunUnpaused():
                self._phase = "writing"
            case RunPaused():
                self._phase = "paused"
            case SubcallStarted():
                self._in_flight += event.kind != "tool"
            case SubcallSettled():
                is_subcall = event.kind != "tool"  # which has a limit of its own
                self._subcalls += is_subcall
                self._in_flight = max(self._in_flight - is_subcall, 0)
                sub_model = self._started.sub_model if self._started is not None else ""
                self._spend(event.usage, event.cost, event.model or sub_model)
            case RunEnded():
                self._end(event)
            case _:
                pass

    def wait(self, event: Event) -> None:
        """Take note that a call of a tool waits for a person, or no longer does; a child's is asked about here, too."""
        if isinstance(event, CallProposed):
            self.call = event
        elif isinstance(event, CallDecided | RunEnded):
            self.call = None

    def fail(self, message: str) -> None:
        """Take note that the host failed: no last record may have come."""
        if self.outcome is None:
            self.outcome, self._phase, self._message = "failed", "ended", message
            self._seconds = round(self._clock.seconds, 1)

    def keep(self, notebook: Path | None) -> None:
        """Say in which notebook the run stands."""
        if notebook is None:
            return
        run_id = self._started.run_id if self._started is not None else ""
        files = in_notebook(RunFiles(notebook).shown, run_id)
        if files.notebook != self.notebook:
            self.notebook, self._file = files.notebook, page_path(files.shown)

    def limit(self, name: str, value: float | None) -> None:
        """Set a limit anew."""
        self._limits[name] = value

    def told(self) -> dict[str, Any]:
        """Return them as the page gets them."""
        started = self._started
        is_waiting = self._phase == "writing" and self._speed.waiting is not None
        limits = {**(started.limits if started is not None else {}), **self._limits}
        return {
            "phase": self._phase,
            "iteration": self._iteration
            + (is_waiting and self._iteration == self._replied),  # the one that is asked for
            "input_tokens": self._usage.input_tokens,
            "output_tokens": self._usage.output_tokens,
            "models": self._models.copy(),
            "cost": self._cost,
            "subcalls": self._subcalls,
            "in_flight": self._in_flight,
            "is_waiting": is_waiting,
            "first": None if self._speed.first is None else round(self._speed.first, 1),
            "rate": None if self._speed.rate is None else float(f"{self._speed.rate:.2g}"),
            "remark": self._delay or self._remark,
            "model": started.model if started is not None else "",
            "prompt": " ".join(started.prompt.split())[:_PROMPT_CHARS] if started is not None else "",
            "run_id": self.run_id,
            "base_url": started.options.get("base_url") or "" if started is not None else "",
            "limits": {name: limits[name] for name in _LIMITS if limits.get(name) is not None},
            "outcome": self.outcome,
            "message": self._message,
            "seconds": self._seconds,
            **self.asks.told(),
            "number": self.number,
            "call": None
            if self.call is None
            else {"id": call_id(self.call), "tool": self.call.tool, "text": self.call.call},
            "file": self._file,
        }

    def _spend(self, usage: Usage, cost: float | None, model: str) -> None:
        self._usage += usage
        if model and usage.total_tokens:
            self._models[model] = self._models.get(model, 0) + usage.total_tokens
        self._cost = None if self._cost is None or cost is None else self._cost + cost

    def _end(self, event: RunEnded) -> None:
        self._delay = ""
        self._phase, self.outcome, self._message = "ended", event.stop_reason, event.message
        self._iteration = self._replied  # one whose reply was cut off is none
        self._usage, self._cost, self._seconds, self._in_flight = event.usage, event.cost, event.seconds, 0


def call_id(call: CallProposed) -> str:
    """Return what names a call that waits, between the kernel and a page."""
    return f"{call.iteration}-{call.block}-{call.ordinal}"


def home() -> Path:
    """Return the folder of the notebook that is worked in: a Jupyter Server says where it is."""
    folder = Path(os.environ.get("JPY_SESSION_NAME", "")).parent
    return folder if folder.is_absolute() and folder.is_dir() else Path.cwd()


def page_path(file: Path) -> dict[str, str | None]:
    """Return where a file is for a page, which knows its notebook's folder by another name than the kernel."""
    try:
        beside = Path(os.path.relpath(file, home())).as_posix()
    except ValueError:  # on another drive
        beside = None
    return {"path": str(file), "beside": beside}
