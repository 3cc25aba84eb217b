"""`Timeline`: when each step of a run was, as far as its record tells.

A record says when the run began and how long each request, cell and sub-call took: they are laid end to end. What a run
waited for in between (a person, a limit of the provider's) is therefore at its end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    Record,
    ReplyReceived,
    RunResumed,
    SampleSettled,
    SubcallSettled,
)

if TYPE_CHECKING:
    from rlm_jupyter.record.trajectory import Trajectory

Interval = tuple[float, float]
"""Begin and end, in seconds since 1970."""


class Timeline:
    """The times of a run's records, derived from their durations.

    Parameters
    ----------
    trajectory
        The run.

    Attributes
    ----------
    begun, over
        Of the whole run, in seconds since 1970.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._intervals: dict[int, Interval] = {}
        self._calls: list[SubcallSettled] = []
        self.begun = self._clock = _seconds(trajectory.started.started)
        for record in trajectory.records:
            self._take(record)
        self._lay_calls(self._clock, self._clock)
        ended = trajectory.ended
        self.over = max(self._clock, self.begun + (0.0 if ended is None else ended.seconds))

    def of(self, record: Record) -> Interval:
        """Return when a request, a cell or a sub-call began and ended."""
        return self._intervals[id(record)]

    def _take(self, record: Record) -> None:
        if isinstance(record, RunResumed):
            self._clock = max(self._clock, _seconds(record.resumed))
        elif isinstance(record, SubcallSettled):
            self._calls.append(record)
        elif isinstance(record, SampleSettled):
            self._intervals[id(record)] = self.begun, self.begun + record.seconds
        elif isinstance(record, ReplyReceived | DirectReplied | ConversationCompacted | CellFinished):
            begun, self._clock = self._clock, self._clock + record.seconds
            self._intervals[id(record)] = begun, self._clock
            if isinstance(record, CellFinished):
                self._lay_calls(begun, self._clock)

    def _lay_calls(self, begun: float, over: float) -> None:
        """Lay the sub-calls of a cell end to end where they fit so; else they were made at once."""
        calls = sorted(self._calls, key=lambda call: call.ordinal)
        in_turn = sum(call.seconds for call in calls) <= over - begun
        clock = begun
        for call in calls:
            self._intervals[id(call)] = clock, clock + call.seconds
            clock += call.seconds if in_turn else 0.0
        self._calls.clear()


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def iso(seconds: float) -> str:
    """Return a moment as ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
