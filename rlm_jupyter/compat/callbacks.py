"""`Callbacks`: the reference's `on_…` functions, told by our events."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rlm_jupyter.types.events import (
    ChildReported,
    Event,
    OutputsShown,
    ReplyReceived,
    ReplyStreamed,
    RunEnded,
    RunStarted,
)

log = logging.getLogger(__name__)
_PREVIEW_CHARS = 80

OnSubcallStart = Callable[[int, str, str], object]
"""Depth, model, and how its prompt begins."""
OnSubcallComplete = Callable[[int, str, float, str | None], object]
"""Depth, model, seconds, and what went wrong."""
OnIterationStart = Callable[[int, int], object]
"""Depth, and the number of the iteration, from 1."""
OnIterationComplete = Callable[[int, int, float], object]
"""The same, and seconds."""


@dataclass
class Callbacks:
    """Takes the events of a run, and calls what is interested in them; children are `rlm_query`, at any depth."""

    on_subcall_start: OnSubcallStart | None = None
    on_subcall_complete: OnSubcallComplete | None = None
    on_iteration_start: OnIterationStart | None = None
    on_iteration_complete: OnIterationComplete | None = None
    _children: dict[str, tuple[str, float]] = field(default_factory=dict)
    _iteration: int = 0
    _began: float = 0.0
    _failures: Counter[str] = field(default_factory=Counter)
    """How often each of them raised."""

    def __call__(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case ChildReported(event=RunStarted() as started, child=child, depth=depth):
                self._children[child] = started.model, time.monotonic()
                beginning = started.context.beginning[:_PREVIEW_CHARS]
                self._call("on_subcall_start", self.on_subcall_start, depth, started.model, beginning)
            case ChildReported(event=RunEnded() as ended, child=child, depth=depth) if child in self._children:
                model, began = self._children.pop(child)
                failed = None if ended.answer is not None else ended.message or ended.stop_reason
                took = time.monotonic() - began
                self._call("on_subcall_complete", self.on_subcall_complete, depth, model, took, failed)
            case RunStarted():
                self._iteration = 0
                self._begin(1)
            case ReplyStreamed(iteration=number) | ReplyReceived(iteration=number) if number > self._iteration:
                self._begin(number)
            case OutputsShown(iteration=number):
                took = time.monotonic() - self._began
                self._call("on_iteration_complete", self.on_iteration_complete, 0, number, took)
            case RunEnded():
                for name, times in self._failures.items():
                    if times > 1:
                        log.error("%s raised %d times during this run; the first traceback is above", name, times)

    def _begin(self, number: int) -> None:
        self._iteration, self._began = number, time.monotonic()
        self._call("on_iteration_start", self.on_iteration_start, 0, number)

    def _call(self, name: str, callback: Callable[..., object] | None, *args: object) -> None:
        """Call what the user gave under this name; what it raises is logged, once with its traceback."""
        if callback is None:
            return
        try:
            callback(*args)
        except Exception as error:
            self._failures[name] += 1
            if self._failures[name] == 1:
                log.exception("%s raised %s: %s", name, type(error).__name__, error)
