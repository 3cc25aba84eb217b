"""The record of a run that ended before it had begun: stopped before its turn, or while its kernel started."""

from __future__ import annotations

from collections.abc import Callable

from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import Event, RunEnded, RunStarted
from rlm_jupyter.types.values import StopReason, Usage


def never_begun(
    started: RunStarted,
    stop_reason: StopReason,
    message: str,
    *,
    tell: Callable[[Event], None],
    recorder: Recorder | None = None,
    seconds: float = 0.0,
) -> Trajectory:
    """Return what came of it: no answer, and no cost.

    Parameters
    ----------
    started
        How it would have begun.
    message
        Why it did not, in one line.
    tell
        Told both events.
    recorder
        Keeps them, where the run is kept.
    seconds
        How long it was waited for.
    """
    ended = RunEnded(stop_reason, None, None, False, 0, seconds, Usage(), 0.0, message)
    trajectory = Trajectory()
    for record in (started, ended):
        trajectory.apply(record)
        if recorder is not None:
            recorder.keep(record)
        tell(record)
    return trajectory
