"""`KernelSlots`: how many kernels of children there are at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rlm_jupyter.run.budget.closings import Closings
from rlm_jupyter.run.budget.deadline import Deadline
from rlm_jupyter.types.limits import Limits


class KernelSlots:
    """Slots for the kernels of a tree of runs, counted per depth.

    A kernel is held while its own children run, so a common pool could fill up with parents that wait. With one pool
    for each depth the deepest can always go on, and so can everybody above.
    """

    def __init__(self, limits: Limits, deadline: Deadline) -> None:
        self.limits = limits
        self.closings = Closings()
        """Of kernels whose slots are still held: their runs have answered."""
        self.roots = 1
        """Runs of the question itself: each has a kernel that is not a child's."""
        self._deadline = deadline
        self._at: dict[int, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def hold(self, depth: int) -> AsyncIterator[None]:
        """Hold a slot for a child's kernel.

        Raises
        ------
        LimitReached
            The time is up, and there was none.
        """
        most = max(1, (self.limits.max_kernels - self.roots) // max(1, self.limits.max_depth - 1))
        async with AsyncExitStack() as stack:
            async with self._deadline.in_time():
                await stack.enter_async_context(self._at.setdefault(depth, asyncio.Semaphore(most)))
            yield
