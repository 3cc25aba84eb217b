"""`see_through`: what must come to its end, however often whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def see_through(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Await this to its end; a cancellation that came meanwhile goes on afterwards."""
    task = asyncio.create_task(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # told of here, or nowhere
        raise cancelled
    return task.result()
