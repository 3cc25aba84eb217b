"""`run_to_completion`: what must come to its end, however often whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rlm_jupyter.types.detached import detached_or_here

_T = TypeVar("_T")


async def in_a_thread(do: Callable[[], None]) -> None:
    """Do what may take long beside the event loop; while Python exits, when no thread begins, in it."""
    await detached_or_here(do, "rlm_jupyter kernel")


_TIMES = 5
"""How often it is begun: an event loop that is closed cancels every task of it once, this one too."""


async def run_to_completion(begin: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Await this to its end; a cancellation that came meanwhile goes on afterwards.

    Parameters
    ----------
    begin
        Begins it. Where the task that this is done in is itself cancelled, perhaps before its first step, it is begun
        again: a second time does no harm, and ends what the first has left.
    """
    cancelled: asyncio.CancelledError | None = None
    times = 0
    while True:
        times += 1
        task = asyncio.create_task(begin())
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if times == _TIMES or not task.cancelled():
            break
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # told of here, or nowhere
        raise cancelled
    return task.result()
