"""Ctrl-C that comes between two steps, and never in the middle of one.

Python raises KeyboardInterrupt wherever the main thread is just then. Where that has taken a lock, nobody gets it any
more; where it is asyncio's loop, or what puts a kernel away, a step is lost and somebody waits for it for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_WAIT_SECONDS = 0.1
"""Never longer: on Windows, Ctrl-C is seen between two waits."""
_LOOK_SECONDS = 0.5
"""How often whoever waits looks up: where a lock can't be interrupted (Windows), Ctrl-C is heard then."""
_END_SECONDS = 1.0
"""How long a cell may take to end; on a machine that is very busy this is tenths of a second."""


@contextlib.contextmanager
def deferring_second_ctrl_c() -> Iterator[None]:
    """Raise the second Ctrl-C between two steps, while a run goes on in the main thread under `asyncio.run`.

    The first cancels the main task, as ever. A third does not wait for anything any more. Does nothing elsewhere:
    who has a handler of their own knows what they do.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if isinstance(handler, _InOrder):
        ours = handler
    else:
        runner = getattr(handler.func, "__self__", None) if isinstance(handler, functools.partial) else None
        if not isinstance(runner, asyncio.Runner):
            yield
            return
        ours = _InOrder(handler)
        signal.signal(signal.SIGINT, ours)
    ours.users += 1
    try:
        yield
    finally:
        ours.users -= 1
        is_last = not ours.users and signal.getsignal(signal.SIGINT) is ours
        if is_last:
            signal.signal(signal.SIGINT, ours.then)


class _InOrder:
    """Asks asyncio's own handler what to do, and does it in order."""

    def __init__(self, asyncios: Any) -> None:
        self.users = 0
        self.then = asyncios
        """What handles SIGINT afterwards."""
        self._asyncios = asyncios
        self._loop = asyncio.get_running_loop()

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        try:
            self._asyncios(signum, frame)
        except KeyboardInterrupt:
            if self.then is signal.default_int_handler:
                raise
            # it ends the runner, which finds a handler that is not its own and leaves it there
            self.then = signal.default_int_handler
            self._loop.call_soon_threadsafe(_interrupt)


def _interrupt() -> None:
    raise KeyboardInterrupt


def let_cell_end(shell: Any) -> None:
    """Hear no further Ctrl-C while a cell that one has ended is ending.

    ipykernel sends the cell's reply in the same breath; raised there, KeyboardInterrupt takes the reply away, and the
    front end waits for it, and with it all cells after this one. The kernel puts its own handler back after each cell.

    Parameters
    ----------
    shell
        IPython's shell. Nothing is done where it is not in a kernel, or where the handler is somebody else's.
    """
    if getattr(shell, "kernel", None) is None or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        return
    until = time.monotonic() + _END_SECONDS

    def on_sigint(signum: int, frame: FrameType | None) -> None:
        if time.monotonic() > until:  # it goes on: somebody has caught the error
            signal.signal(signal.SIGINT, before)
            signal.default_int_handler(signum, frame)

    signal.signal(signal.SIGINT, on_sigint)


def wait(look: Callable[[float], _T | None], on_interrupt: Callable[[int], None]) -> _T:
    """Wait in the main thread for what other threads do, and hear each Ctrl-C.

    Parameters
    ----------
    look
        Waits, for at most so many seconds; what it returns ends the wait, `None` excepted.
    on_interrupt
        Called with the number of each Ctrl-C, from 1; what it raises ends the wait.
    """
    interrupts = 0
    while True:
        try:
            # the loop is in here: an interrupt that another thread was woken by is seen where it goes round
            while True:
                if (found := look(_WAIT_SECONDS)) is not None:
                    return found
        except KeyboardInterrupt:
            interrupts += 1
            on_interrupt(interrupts)


class Wait:
    """Waits in the main thread for what another thread does; used with `with`, around all that is not to be broken off.

    Parameters
    ----------
    future
        Done when the other thread is.
    """

    def __init__(self, future: concurrent.futures.Future[Any]) -> None:
        self._future = future
        self._interrupts = 0
        self._before: Any = None
        self._woken = threading.Lock()
        self._woken.acquire()
        future.add_done_callback(lambda _: self._wake())

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if before is signal.default_int_handler:
                self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def until_done(self, look: Callable[[], None] | None = None) -> None:
        """Wait until the future is done.

        Parameters
        ----------
        look
            Called now and then; it may ask a person, whom Ctrl-C interrupts.

        Raises
        ------
        KeyboardInterrupt
            Once for each Ctrl-C, also for one that came before this was called.
        """
        while not self._interrupts and not self._future.done():
            self._woken.acquire(timeout=_LOOK_SECONDS)
            if look is not None:
                self._look(look)
        if self._interrupts:
            self._interrupts -= 1
            raise KeyboardInterrupt

    def _look(self, look: Callable[[], None]) -> None:
        if self._before is None:
            look()
            return
        ours = signal.signal(signal.SIGINT, self._before)
        try:
            look()
        finally:
            signal.signal(signal.SIGINT, ours)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # twice
            self._woken.release()
