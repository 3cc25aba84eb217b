"""`Closings`: what is closed when its answer is there already, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

from rlm_jupyter.kernel.shield import run_to_completion

log = logging.getLogger(__name__)


class Closings:
    """The kernels of a run's children that have answered, while they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, stack: AsyncExitStack) -> None:
        """Close this in the background, for `finish` to wait for."""
        task = asyncio.create_task(stack.aclose())
        self._tasks.add(task)
        task.add_done_callback(self._closed)

    async def finish(self) -> None:
        """Wait until all is closed."""
        await run_to_completion(self._finish)

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _closed(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the kernel of a child could not be closed", exc_info=error)
