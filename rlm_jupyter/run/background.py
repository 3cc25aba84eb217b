"""One thread with one event loop, in which everything runs that is called without `await`.

So the sync face works the same in a script and in a notebook, whose own loop is busy running the cell.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeVar

from rlm_jupyter.types.errors import ConfigurationError

T = TypeVar("T")

_EXIT_SECONDS = 3.0
"""How long runs may take to put things away when the interpreter exits."""


class Closes(Protocol):
    """Something that is closed on the background loop."""

    async def aclose(self) -> None:
        """Close it; twice does no harm."""
        ...


_lock = threading.Lock()
_open: weakref.WeakSet[Closes] = weakref.WeakSet()
_started: tuple[int, asyncio.AbstractEventLoop] | None = None


def loop() -> asyncio.AbstractEventLoop:
    """Return the background loop; started on first use, and anew in a forked process."""
    global _started
    with _lock:
        if _started is None or _started[0] != os.getpid():
            fresh = asyncio.new_event_loop()
            threading.Thread(target=fresh.run_forever, name="rlm_jupyter", daemon=True).start()
            if _started is None:
                atexit.register(shut_down)
            _started = os.getpid(), fresh
        return _started[1]


def submit(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Run a coroutine in the background; the future is thread-safe and cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def refuse_inside() -> None:
    """Refuse to wait for the background loop in the background loop itself.

    Raises
    ------
    ConfigurationError
        This is an `on_event` callback, or another that runs on our thread.
    """
    with contextlib.suppress(RuntimeError):
        if _started is not None and asyncio.get_running_loop() is _started[1]:
            raise ConfigurationError(
                "A run can't be started, asked or closed inside on_event: it would wait for itself. "
                "Do it after the run, or await rlm.acompletion(...)."
            )


def close_at_exit(closes: Closes) -> None:
    """Close this when the interpreter exits, if it is still there."""
    _open.add(closes)


def close_when_dropped(owner: object, stack: AsyncExitStack) -> None:
    """Close this on the running loop when its owner is garbage, which nobody has closed.

    Else Python ends its generators one by one, in no order, and each finds what it stands on gone.
    """
    weakref.finalize(owner, _close, os.getpid(), asyncio.get_running_loop(), stack).atexit = False


def _close(pid: int, running: asyncio.AbstractEventLoop, stack: AsyncExitStack) -> None:
    # no lock is taken here: any line of any thread may be the one that collects garbage
    if pid == os.getpid() and not running.is_closed():
        asyncio.run_coroutine_threadsafe(stack.aclose(), running)


def shut_down() -> None:
    """Cancel what still runs, so that no kernel and no directory is left behind. Called at exit, or before."""
    if _started is None or _started[0] != os.getpid():
        return

    if (pool := sys.modules.get("rlm_jupyter.kernel.template_pool")) is not None:
        pool.expect_no_next_run()

    async def cancel_all() -> None:
        await asyncio.gather(*(closes.aclose() for closes in _open), return_exceptions=True)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_EXIT_SECONDS) if tasks else None

    with contextlib.suppress(concurrent.futures.TimeoutError):
        submit(cancel_all()).result(_EXIT_SECONDS + 1)
