"""A call in a thread that nobody has to wait for: neither a cancelled run nor the interpreter's end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(call: Callable[[], T], name: str) -> concurrent.futures.Future[T]:
    """Make the call in a daemon thread of this name; its result, or what it raises, is the future's."""
    return started(call, name)[0]


def started(call: Callable[[], T], name: str) -> tuple[concurrent.futures.Future[T], threading.Thread]:
    """Do as `in_thread`; return the thread, too, for who wants to know whether it still runs."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def work() -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            if future.set_running_or_notify_cancel():
                future.set_exception(_raisable(error))
        else:
            if future.set_running_or_notify_cancel():
                future.set_result(found)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return future, thread


async def detached(call: Callable[[], T], name: str) -> T:
    """Make the call in a daemon thread, and wait for it."""
    return await asyncio.wrap_future(in_thread(call, name))


async def detached_or_here(call: Callable[[], T], name: str) -> T:
    """Make the call in a daemon thread, and wait for it; here, where the interpreter exits and none begins."""
    try:
        doing = in_thread(call, name)  # of its own: those of the event loop take nothing on any more, at exit
    except RuntimeError:
        return call()
    return await asyncio.wrap_future(doing)


def _raisable(error: BaseException) -> BaseException:
    """Return an error that a coroutine may raise: asyncio refuses `StopIteration`, and who waits for it never wakes."""
    if not isinstance(error, StopIteration):
        return error
    instead = RuntimeError("StopIteration")
    instead.__cause__ = error
    return instead
