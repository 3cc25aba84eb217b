"""How slow the machine is just now, so that a promised bound is held to on a loaded one, too."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEPS = 200_000
_USUAL_SECONDS = 0.012
"""That the steps take on a machine of the usual speed, with nothing else to do."""


def _slowness(clock: Callable[[], float]) -> float:
    """Return how many times slower than usual the same steps are by this clock; 1 at least."""
    began, count = clock(), 0
    for step in range(_STEPS):
        count += step & 7
    return max((clock() - began) / _USUAL_SECONDS, 1.0)


class Pace:
    """A span of time that is measured on this machine as it is: made where the span begins.

    Parameters
    ----------
    clock
        `time.monotonic` for what waits as well, `time.process_time` for what only computes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slowness = _slowness(clock)
        self._began = clock()

    def within(self, seconds: float) -> bool:
        """Whether no more has passed since than these seconds are on a machine that is as slow as this one."""
        took = self._clock() - self._began
        allowed = seconds * max(self._slowness, _slowness(self._clock))
        print(f"{took:.2f} s of {allowed:.2f} s")
        return took <= allowed
