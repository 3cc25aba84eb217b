"""Interrupts that work at any moment: in pure Python, blocked in a sub-call, in pool workers, in `await`.

Stock ipykernel fails on the last two: `await gather(...)` never sees the interrupt, because its handler
wakes no event loop; and pool workers that wait for something keep the main thread in their `join`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_OURS = __name__.rpartition(".")[0]
_LATE_SECONDS = 5.0
"""How long after its cell was interrupted a signal may come: the host sends a second where the first seems lost."""
Handler = Callable[[int, FrameType | None], Any]


def end_in_the_cell(error: BaseException | None) -> None:
    """Let the traceback of an interrupt end where the cell was: the handler that raised it is nobody's business."""
    traceback = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    while traceback is not None and traceback.tb_next is not None:
        name = str(traceback.tb_next.tb_frame.f_globals.get("__name__", ""))
        if traceback.tb_next.tb_next is None and name.startswith(_OURS):
            traceback.tb_next = None
        traceback = traceback.tb_next


class Interrupts:
    """Serves SIGINT while a cell runs.

    Parameters
    ----------
    namespace
        The kernel's `user_ns`: a frame with these globals is the model's code.
    fail_calls
        Fails the sub-calls of a cell that wait, so that whoever waits for them can be interrupted.
    """

    def __init__(self, namespace: dict[str, Any], fail_calls: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._fail_calls = fail_calls
        self._cell = ""
        self._expected: tuple[str, float] = ("", 0.0)
        self._early: dict[str, float] = {}
        """Cells that a signal came for before the host's word of it did, and when; whoever pops one sees to it."""
        self.raised = 0
        """How often the model's code was ended by an exception: whoever calls it may swallow that."""

    def expect(self, cell: str) -> None:
        """Expect an interrupt: the host is about to interrupt this cell, or has just done so (control thread)."""
        self._expected = (cell, time.monotonic())
        if self._early.pop(cell, -_LATE_SECONDS) > time.monotonic() - _LATE_SECONDS:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def serve(self, cell: str) -> Any:
        """Serve SIGINT from now on, while this cell runs; gives the handler before."""
        self._cell = cell  # a handler can't ask for it: it may run outside of the cell's context
        return signal.signal(signal.SIGINT, self.on_sigint)

    def on_sigint(self, signum: int, frame: FrameType | None) -> None:
        """End the model's code, never the kernel's own, while a synchronous cell runs."""
        if self._is_late():
            return
        self._fail_calls(self._cell)
        if self.in_model_code(frame):
            self.raised += 1
            raise KeyboardInterrupt

    @contextmanager
    def awaiting(self, cell: asyncio.Future[Any]) -> Iterator[None]:
        """Cancel an asynchronous cell while it runs, or end the synchronous code that blocks it."""
        loop = asyncio.get_running_loop()

        def on_sigint(signum: int, frame: FrameType | None) -> None:
            if self._is_late():
                return
            self._fail_calls(self._cell)
            if not self.in_model_code(frame):
                loop.call_soon_threadsafe(cell.cancel)
            elif asyncio.current_task(loop) is cell:
                self.raised += 1
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

    def _is_late(self) -> bool:
        """Return whether a signal is meant for the cell before; of one for this cell, the host's word follows."""
        self._early[self._cell] = time.monotonic()  # before looking: the word may come while we look
        cell, at = self._expected
        if cell in {"", self._cell} or time.monotonic() - at > _LATE_SECONDS:
            return self._early.pop(self._cell, None) is None
        return True

    def in_model_code(self, frame: FrameType | None = None) -> bool:
        """Return whether code of the model's is below this frame, or the caller's."""
        frame = frame or sys._getframe()
        while frame is not None:
            if frame.f_globals is self._namespace:
                return True
            frame = frame.f_back
        return False
