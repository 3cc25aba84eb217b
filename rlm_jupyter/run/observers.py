"""Who watches a run: told its events, and those of its children; what fails in a watcher costs nobody the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.types.events import ChildReported, Event, RunEnded

if TYPE_CHECKING:
    from rlm_jupyter.run.state import Run  # with it comes the kernel, and whoever only configures a run has none

log = logging.getLogger(__name__)


class Guarded:
    """A callback that can't fail: its first exception is logged with the traceback, the others as a count at the end.

    Parameters
    ----------
    emit
        The user's `on_event`.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._failures = 0

    def __call__(self, event: Event) -> None:
        """Pass an event to the callback."""
        try:
            self._emit(event)
        except Exception:
            self._failures += 1
            if self._failures == 1:
                log.exception("on_event failed; further failures are counted and reported when the run ends")
        if isinstance(event, RunEnded) and self._failures > 1:
            log.error("on_event failed %d times during this run; the first traceback is above", self._failures)


def guarded(emit: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """Return a callback that can't fail: a watcher must not cost anyone the run.

    One that is guarded already is returned as it is, so that its failures are counted once for the whole run.
    """
    if emit is None:
        return nobody
    return emit if isinstance(emit, Guarded) or emit is nobody else Guarded(emit)


def reporting(
    parent: Run, position: tuple[int, int, int], child: str, depth: int, path: Path | None
) -> Callable[[Event], None] | None:
    """Return what tells a child's events to whoever watches the root; `None` where nobody does.

    Parameters
    ----------
    position
        Iteration, block and ordinal of the sub-call that it answers.
    """
    if parent.emit is nobody:
        return None
    run_id = parent.trajectory.run_id

    def report(event: Event) -> None:
        if not isinstance(event, ChildReported):  # a child's child has said already whose it is
            event = ChildReported(child, run_id, depth, *position, event, path)
        parent.emit(event)

    return report


def nobody(_: Event) -> None:
    """Do nothing: nobody watches."""
