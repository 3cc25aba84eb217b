"""`Callbacks`: the reference's `on_…` functions, told by our events."""

from __future__ import annotations

import time
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

    def __call__(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case ChildReported(event=RunStarted() as started, child=child, depth=depth):
                self._children[child] = started.model, time.monotonic()
                if self.on_subcall_start is not None:
                    self.on_subcall_start(depth, started.model, started.context.beginning[:_PREVIEW_CHARS])
            case ChildReported(event=RunEnded() as ended, child=child, depth=depth) if child in self._children:
                model, began = self._children.pop(child)
                if self.on_subcall_complete is not None:
                    failed = None if ended.answer is not None else ended.message or ended.stop_reason
                    self.on_subcall_complete(depth, model, time.monotonic() - began, failed)
            case RunStarted():
                self._iteration = 0
                self._begin(1)
            case ReplyStreamed(iteration=number) | ReplyReceived(iteration=number) if number > self._iteration:
                self._begin(number)
            case OutputsShown(iteration=number):
                if self.on_iteration_complete is not None:
                    self.on_iteration_complete(0, number, time.monotonic() - self._began)

    def _begin(self, number: int) -> None:
        self._iteration, self._began = number, time.monotonic()
        if self.on_iteration_start is not None:
            self.on_iteration_start(0, number)
