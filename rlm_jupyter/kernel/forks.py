"""`Forks`: sleeping forks of one kernel, which it goes on in when it dies, is taken back, or is branched from."""

from __future__ import annotations

import contextlib
from typing import Generic, Protocol, Self, TypeVar

from rlm_jupyter.kernel.insurance import Insurance, SleepingFork, shortage
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.types.errors import ForkRefusedError, KernelError, KernelStartError
from rlm_jupyter.types.values import AnswerSubcall, CellPosition, Value

_MOST_KEPT = 3
"""Forks of chosen moments that sleep."""
_REFUSED = "The kernel can't be forked: "


class Forkable(Protocol):
    """What a kernel does for its forks."""

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""

    @property
    def pid(self) -> int | None:
        """Of its process, where that is known."""

    @property
    def recorded(self) -> Value | None:
        """The answer that it has recorded."""

    async def fork_process(self, *, sleeps: bool) -> KernelProcess:
        """Fork it as it is now; a fork that sleeps is woken before anything connects to it."""

    async def another_in(self, process: KernelProcess, answer_subcall: AnswerSubcall) -> Self:
        """Return another kernel, in this fork."""

    async def continue_in(self, process: KernelProcess, why: str) -> None:
        """Leave the process that it has for this fork; raise `KernelStartError` where the fork does not come up."""

    async def end_process(self) -> None:
        """Give up what is open and end the process."""

    async def close(self) -> None:
        """End all of it."""


K = TypeVar("K", bound=Forkable)


class Forks(Generic[K]):
    """The forks.

    Parameters
    ----------
    kernel
        Whose they are.
    insurance
        Keep one of the newest cell (`insure`), for `revive`.
    """

    def __init__(self, kernel: K, *, insurance: bool) -> None:
        self._kernel = kernel
        self.insurance = Insurance(is_wanted=insurance)
        """What goes on in the kernel's place when it dies."""
        self._kept: list[SleepingFork] = []
        """Of moments that somebody has chosen, the oldest first; of one prompt."""
        self._marked: SleepingFork | None = None
        """What `go_back` goes on in."""

    async def keep(self, position: CellPosition | None) -> None:
        """Keep a fork of it as it is now, after this cell, for `branch`; of those that are kept, the newest ones stay.

        Raises
        ------
        ForkRefusedError, KernelDiedError
            As `Kernel.fork`.
        """
        self._kept.append(SleepingFork(await self._kernel.fork_process(sleeps=True), position))
        while len(self._kept) > _MOST_KEPT:
            await run_to_completion(self._kept.pop(0).process.kill)

    def has_kept(self, position: CellPosition | None) -> bool:
        """Return whether there is a fork of it as it was after this cell of the prompt that it was begun for."""
        return any(kept.position == position for kept in self._kept)

    async def branch(self, position: CellPosition | None, answer_subcall: AnswerSubcall) -> K:
        """Go on, in another kernel, in the fork that was kept after this cell; one stays for the next time.

        Raises
        ------
        ForkRefusedError
            There is none any more.
        """
        kept = next((kept for kept in self._kept if kept.position == position), None)
        if kept is None:
            raise ForkRefusedError(f"{_REFUSED}nothing was kept of that moment.")
        self._kept.remove(kept)
        kept.wake()
        try:
            other = await self._kernel.another_in(kept.process, answer_subcall)
        except KernelStartError:
            raise ForkRefusedError(f"{_REFUSED}the copy from that moment is gone.") from None
        try:
            with contextlib.suppress(KernelError, OSError):
                self._kept.append(SleepingFork(await other.fork_process(sleeps=True), position))
        except BaseException:  # cancelled: nobody else knows of it yet
            await run_to_completion(other.close)
            raise
        return other

    async def forget(self) -> None:
        """End those of chosen moments."""
        kept, self._kept = self._kept, []
        for one in kept:
            await one.process.kill()

    def insure(self, position: CellPosition | None) -> None:
        """Keep a fork of it as it is now, after this cell; returns at once. Does nothing where none is wanted.

        Parameters
        ----------
        position
            The cell; `None`: none of this prompt has run.
        """
        kernel = self._kernel
        if self.insurance.is_wanted and kernel.is_alive and kernel.recorded is None:
            self.insurance.renew(lambda: kernel.fork_process(sleeps=True), position, kernel.pid)

    async def revive(self) -> SleepingFork | None:
        """Continue, after its death, in the fork of `insure`, with all that it has; it is insured again.

        Returns
        -------
        SleepingFork or None
            What it goes on from; `None`: there is no fork, or it does not come up, and `Kernel.restart` is what is
            left.
        """
        fork = await self.insurance.take_over()
        if fork is None:
            return None
        try:
            await run_to_completion(self._kernel.end_process)
        except BaseException:
            await fork.process.kill()
            raise
        fork.wake()
        try:
            await self._kernel.continue_in(fork.process, "it was dead")
        except KernelStartError:
            return None
        self.insure(fork.position)
        await self.insurance.settled()
        return fork

    async def mark(self, position: CellPosition | None) -> str:
        """Keep a fork of it as it is now, after this cell, for `go_back`; the one before is ended.

        Returns
        -------
        str
            Why there is none, as the end of a sentence; empty where there is one.
        """
        await self.unmark()
        pid = self._kernel.pid
        if pid is not None and (lack := shortage(pid)):
            return lack
        try:
            self._marked = SleepingFork(await self._kernel.fork_process(sleeps=True), position)
        except (KernelError, OSError) as error:
            return str(error).removeprefix(_REFUSED).removesuffix(".")
        return ""

    async def unmark(self) -> None:
        """End the fork that was kept by `mark`, if there is one."""
        fork, self._marked = self._marked, None
        if fork is not None:
            await run_to_completion(fork.process.kill)

    async def go_back(self) -> bool:
        """Continue in the fork that `mark` kept, also where the kernel has died; what was done since is gone.

        Returns
        -------
        bool
            Whether it did: the fork may have been killed meanwhile, and then the kernel is as it was.
        """
        fork, self._marked = self._marked, None
        if fork is None:
            return False
        fork.wake()
        try:
            await self._kernel.continue_in(fork.process, "its last cell was undone")
        except KernelStartError:
            return False
        # what is kept of it after that cell is no longer what it goes on from
        await run_to_completion(self.insurance.drop)
        self.insure(fork.position)
        return True

    async def end(self) -> None:
        """End all of them."""
        await self.insurance.drop()
        await self.unmark()
        await self.forget()
