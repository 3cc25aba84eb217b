"""`Clock`: the seconds of a run as they are shown: it stands still while a person is waited for, as its limit does."""

from __future__ import annotations

import time
from collections.abc import Callable

from rlm_jupyter.types.events import (
    CallDecided,
    CallProposed,
    CellDecided,
    CellProposed,
    Event,
    RunPaused,
    RunResumed,
    RunUnpaused,
)

Waits = CellProposed | CallProposed | RunPaused
WAITS: dict[type[Waits], str] = {
    CellProposed: "a cell waits for your approval",
    CallProposed: "a call of a tool waits for your approval",
    RunPaused: "paused",
}
"""What a person is waited for, from these events on."""


class Clock:
    """Counts from the moment at which it is made: the run was called.

    Parameters
    ----------
    clock
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._held: float | None = None

    @property
    def seconds(self) -> float:
        """So many by now."""
        return (self._clock() if self._held is None else self._held) - self._began

    def apply(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case CellProposed() | CallProposed() | RunPaused() if self._held is None:
                self._held = self._clock()
            case CellDecided() | CallDecided() | RunUnpaused() if self._held is not None:
                self._began += self._clock() - self._held
                self._held = None
            case RunResumed():
                self._began = self._clock() - event.seconds
            case _:
                pass
