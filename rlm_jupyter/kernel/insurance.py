"""`Insurance`: a sleeping fork of a kernel, which goes on with all variables when the kernel dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.shield import see_through
from rlm_jupyter.types.errors import KernelError
from rlm_jupyter.types.values import CellPosition

log = logging.getLogger(__name__)

Fork = Callable[[], Awaitable[KernelProcess]]
"""Forks a kernel as it is now; the fork sleeps."""


@dataclass(frozen=True, slots=True)
class Spare:
    """A sleeping fork."""

    process: KernelProcess
    moment: CellPosition | None
    """It is as the kernel was after this cell; `None`: as it was before the prompt."""


class Insurance:
    """The latest fork of one kernel that could be made.

    Parameters
    ----------
    is_wanted
        Whether there is to be one at all.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._spare: Spare | None = None
        self._taking: asyncio.Task[None] | None = None

    def take(self, fork: Fork, moment: CellPosition | None) -> None:
        """Have a fork made in place of the one before, and return at once; no cell may begin before it is `settled`."""
        if self._is_wanted:
            before = self._taking
            self._taking = asyncio.create_task(self._take(before, fork, moment))

    async def settled(self) -> None:
        """Wait until what was asked for is made, or has failed."""
        while self._taking is not None and not self._taking.done():
            await asyncio.wait([self._taking])

    async def claim(self) -> Spare | None:
        """Return the fork, which is from now on whoever's that asks; `None`: there is none."""
        await self.settled()
        spare, self._spare = self._spare, None
        return spare

    async def drop(self) -> None:
        """End the fork, and make none."""
        if self._taking is not None:
            self._taking.cancel()
        if (spare := await self.claim()) is not None:
            await spare.process.kill()

    async def _take(self, before: asyncio.Task[None] | None, fork: Fork, moment: CellPosition | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            process = await fork()
        except (KernelError, OSError) as error:
            log.info("No fork was kept: %s", error)
            return
        spare, self._spare = self._spare, Spare(process, moment)
        if spare is not None:
            await see_through(spare.process.kill)
