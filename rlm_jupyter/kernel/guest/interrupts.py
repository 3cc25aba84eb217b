"""Interrupts that work at any moment: in pure Python, blocked in a sub-call, in pool workers, in `await`.

Stock ipykernel fails on the last two: `await gather(...)` never sees the interrupt, because its handler
wakes no event loop; and pool workers that wait for something keep the main thread in their `join`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class Interrupts:
    """Serves SIGINT while a cell runs.

    Parameters
    ----------
    namespace
        The kernel's `user_ns`: a frame with these globals is the model's code.
    fail_calls
        Fails the sub-calls that wait, so that whoever waits for them can be interrupted.
    """

    def __init__(self, namespace: dict[str, Any], fail_calls: Callable[[], None]) -> None:
        self._namespace = namespace
        self._fail_calls = fail_calls

    def on_sigint(self, signum: int, frame: FrameType | None) -> None:
        """While a synchronous cell runs: end the model's code, never the kernel's own."""
        self._fail_calls()
        if self._in_model_code(frame):
            raise KeyboardInterrupt

    @contextmanager
    def awaiting(self, cell: asyncio.Future[Any]) -> Iterator[None]:
        """While an asynchronous cell runs: cancel it, or end the synchronous code that blocks it."""
        loop = asyncio.get_running_loop()

        def on_sigint(signum: int, frame: FrameType | None) -> None:
            self._fail_calls()
            if not self._in_model_code(frame):
                loop.call_soon_threadsafe(cell.cancel)
            elif asyncio.current_task(loop) is cell:
                raise KeyboardInterrupt
            else:
                # KeyboardInterrupt in any other task would end the kernel's own loop
                loop.call_soon_threadsafe(cell.cancel)
                raise asyncio.CancelledError

        before = signal.signal(signal.SIGINT, on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _in_model_code(self, frame: FrameType | None) -> bool:
        frame = frame or sys._getframe()
        while frame is not None:
            if frame.f_globals is self._namespace:
                return True
            frame = frame.f_back
        return False
