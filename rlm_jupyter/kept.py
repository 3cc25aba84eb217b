"""`Kept`: what the variables of a session hold of runs, and the kernels that are kept with it for more.

A kernel belongs to the variable that its result stands in. It is closed when that is given another result, when it
was not used for long enough, when too many are kept, or with the session; the result keeps all that it has.
"""

from __future__ import annotations

import contextlib
import time

from rlm_jupyter.running import BackgroundWorkspace
from rlm_jupyter.shown import BackgroundRun, ShownResult, kernel_of

Holds = ShownResult | BackgroundRun


class Kept:
    """By variable. From any thread.

    Parameters
    ----------
    most
        Kernels at once.
    idle_seconds
        Without use, after which one is closed; `None`: never.
    """

    def __init__(self, most: int, idle_seconds: float | None) -> None:
        self.most = most
        self._idle_seconds = idle_seconds
        self._held: dict[str, Holds] = {}

    def put(self, variable: str, value: Holds) -> None:
        """Note what the variable holds from now on."""
        self._held[variable] = value
        if (kernel := kernel_of(value)) is not None:
            kernel.owner = variable
            kernel.close_after(self._idle_seconds)

    def has(self, variable: str, value: Holds) -> bool:
        """Whether this variable was given nothing else meanwhile."""
        return self._held.get(variable) is value

    def drop(self, variable: str, why: str = "") -> bool:
        """Close what the variable held; whether it held something. `why` it is; by default another run takes it."""
        held = self._held.pop(variable, None)
        if held is not None:
            _close(held, why or f"another run took {variable}")
        return held is not None

    def make_room(self, places: int = 0) -> list[str]:
        """Close the kernels that were not used for longest until `places` more fit; a line for each, for people.

        One that is in use is never closed: then there are more for a while.
        """
        said = []
        while len(kernels := self._kernels()) + places > self.most:
            idle = [(kernel.used, variable) for variable, kernel in kernels.items() if not kernel.in_use]
            if not idle:
                break
            used, variable = min(idle)
            why = f"to make room: at most {self.most} are kept"
            kernels[variable].close(why)
            minutes = (time.monotonic() - used) / 60
            said.append(
                f"The kernel of {variable}, unused for {minutes:.0f} min, was closed {why} "
                f"(RLMMagics.max_kept_kernels). {variable} keeps its answer."
            )
        return said

    def close_after(self, idle_seconds: float | None) -> None:
        """Set the idle limit anew, of those that are kept too."""
        self._idle_seconds = idle_seconds
        for kernel in self._kernels().values():
            kernel.close_after(idle_seconds)

    def close(self) -> None:
        """Close every kernel: the session ends."""
        for variable in list(self._held):
            # while the interpreter exits, no thread can be started to see the killed process off
            with contextlib.suppress(RuntimeError):
                self.drop(variable, "the session ended")

    def _kernels(self) -> dict[str, BackgroundWorkspace]:
        """Those that live."""
        held = [(variable, kernel_of(value)) for variable, value in list(self._held.items())]
        return {variable: kernel for variable, kernel in held if kernel is not None and kernel.is_alive}


def _close(held: Holds, why: str) -> None:
    kernel = kernel_of(held)
    if kernel is not None:
        kernel.given_up = why
    if isinstance(held, BackgroundRun):
        held.stop(why)
    elif kernel is not None:
        kernel.close(why)
