"""Who watches a run: told its events, and those of its children; what fails in a watcher costs nobody the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from rlm_jupyter.events import ChildReported, Event, SubcallStarted
from rlm_jupyter.run import Run

log = logging.getLogger(__name__)


def guarded(emit: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """What tells the events: a watcher that fails must cost nobody the run."""
    if emit is None:
        return nobody

    def tell(event: Event) -> None:
        try:
            emit(event)
        except Exception:
            log.exception("on_event failed")

    return tell


def reporting(
    parent: Run, asked: SubcallStarted, child: str, depth: int, path: Path | None
) -> Callable[[Event], None] | None:
    """What tells a child's events to whoever watches the root; `None` where nobody does."""
    if parent.emit is nobody:
        return None
    run_id = parent.trajectory.run_id

    def report(event: Event) -> None:
        if not isinstance(event, ChildReported):  # a child's child has said already whose it is
            event = ChildReported(child, run_id, depth, asked.iteration, asked.block, asked.ordinal, event, path)
        parent.emit(event)

    return report


def nobody(_: Event) -> None:
    """Nobody watches."""
