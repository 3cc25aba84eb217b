"""`Closings`: what is closed when its answer is there already, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial

from rlm_jupyter.kernel.shield import run_to_completion

log = logging.getLogger(__name__)

_TIMES = 5
"""How often it is begun: an event loop that is closed cancels every task of it, also before its first step."""


class Closings:
    """The kernels of a run's children that have answered, while they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, stack: AsyncExitStack) -> None:
        """Close this in the background, for `finish` to wait for."""
        self._begin(stack, _TIMES)

    async def finish(self) -> None:
        """Wait until all is closed."""
        await run_to_completion(self._finish)

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, stack: AsyncExitStack, times: int) -> None:
        task = asyncio.create_task(stack.aclose())
        self._tasks.add(task)
        task.add_done_callback(partial(self._closed, stack, times - 1))

    def _closed(self, stack: AsyncExitStack, times: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            if times:
                self._begin(stack, times)
        elif (error := task.exception()) is not None:
            log.error("the kernel of a child could not be closed", exc_info=error)
