"""`Insurance`: a sleeping fork of a kernel, which goes on with all variables when the kernel dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.types.errors import KernelError
from rlm_jupyter.types.values import CellPosition

log = logging.getLogger(__name__)

_GB = 1e9
Fork = Callable[[], Awaitable[KernelProcess]]
"""Forks a kernel as it is now; the fork sleeps."""


@dataclass(frozen=True, slots=True)
class SleepingFork:
    """A sleeping fork."""

    process: KernelProcess
    position: CellPosition | None
    """It is as the kernel was after this cell; `None`: as it was before the prompt."""

    def wake(self) -> None:
        """Let it run; it can be connected to then."""
        if (supervised := self.process.supervised) is not None:
            supervised.wake()


class Insurance:
    """The latest fork of one kernel that could be made.

    Parameters
    ----------
    is_wanted
        Whether there is to be one at all.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self._fork: SleepingFork | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.shortage = ""
        """Why none is kept though one is wanted: there is too little memory; in a line."""

    def renew(self, fork: Fork, position: CellPosition | None, pid: int | None) -> None:
        """Have a fork made in place of the one before, and return at once; no cell may begin before it is `settled`.

        Parameters
        ----------
        fork
            Makes it.
        position
            After which cell it is.
        pid
            Of the kernel, where that is known: with less memory left than it has, none is made, and the one before is
            ended.
        """
        before = self._renewing
        self._renewing = asyncio.create_task(self._renew(before, fork, position, pid))

    @property
    def is_settled(self) -> bool:
        """Whether what was asked for is made, or has failed."""
        return self._renewing is None or self._renewing.done()

    async def settled(self) -> None:
        """Wait until what was asked for is made, or has failed."""
        while self._renewing is not None and not self._renewing.done():
            await asyncio.wait([self._renewing])

    async def take_over(self) -> SleepingFork | None:
        """Return the fork, which is from now on whoever's that asks; `None`: there is none."""
        await self.settled()
        fork_before, self._fork = self._fork, None
        return fork_before

    async def drop(self) -> None:
        """End the fork, and make none."""
        if self._renewing is not None:
            self._renewing.cancel()
        if (fork_before := await self.take_over()) is not None:
            await fork_before.process.kill()

    async def _renew(
        self, before: asyncio.Task[None] | None, fork: Fork, position: CellPosition | None, pid: int | None
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        if pid is not None and (lack := shortage(pid)):
            self.shortage = lack
            fork_before, self._fork = self._fork, None
            if fork_before is not None:
                await run_to_completion(fork_before.process.kill)
            return
        try:
            process = await fork()
        except (KernelError, OSError) as error:
            log.info("No fork was kept: %s", error)
            return
        fork_before, self._fork = self._fork, SleepingFork(process, position)
        if fork_before is not None:
            await run_to_completion(fork_before.process.kill)


def shortage(pid: int) -> str:
    """Say that a fork of this process may not find the memory that it needs once both write; empty where it will."""
    import psutil

    try:
        needed = psutil.Process(pid).memory_info().rss
    except psutil.Error:  # it is gone, and there is nothing to fork
        return ""
    left = psutil.virtual_memory().available
    if left >= needed:
        return ""
    return f"no copy of the kernel was kept: it has {needed / _GB:.1f} GB, and {left / _GB:.1f} GB of memory are left"
