"""`IdleTimer`: calls back once something was not used for so long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class IdleTimer:
    """A timer of the loop, no thread; its methods are called there, `use` from any thread.

    Parameters
    ----------
    in_use
        Whether it is used now, so that no time passes.
    expire
        Called with the limit, in words, once it is reached.
    """

    def __init__(self, in_use: Callable[[], bool], expire: Callable[[str], None]) -> None:
        self._in_use, self._expire = in_use, expire
        self.seconds: float | None = None
        """The limit; `None`: there is none."""
        self.used = time.monotonic()
        """When it was used last."""
        self._timer: asyncio.TimerHandle | None = None

    def use(self) -> None:
        """Take note that it was used until now."""
        self.used = time.monotonic()

    def look(self) -> None:
        """Look whether the limit is reached, and again when it will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.seconds is None or self._in_use():
            return
        left = self.seconds - (time.monotonic() - self.used)
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self.look)
        else:
            self._expire(f"after {_span(self.seconds)} without use")


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.3g} s"
