"""`Forks`: the sleeping forks of one kernel.

| kept by | which | used by | when |
|---|---|---|---|
| `insure` | of the newest cell | `revive` | the kernel has died |
| `mark` | one, of before a cell | `go_back` | a person has that cell undone |
| `keep` | the last few that were chosen | `branch` | another run begins where it was |
"""

from __future__ import annotations

import contextlib
from typing import Generic, Protocol, Self, TypeVar

from rlm_jupyter.kernel.insurance import Insurance, SleepingFork, shortage
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.types.errors import ForkRefusedError, KernelError, KernelStartError
from rlm_jupyter.types.values import AnswerSubcall, CellPosition, Value

_MOST_KEPT = 3
"""How many forks that `keep` has made stay."""


class Forkable(Protocol):
    """What `Forks` needs of a kernel."""

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""

    @property
    def pid(self) -> int | None:
        """Process id, where that is known."""

    @property
    def declared(self) -> Value | None:
        """The answer that it has declared."""

    async def fork_process(self, *, sleeps: bool) -> KernelProcess:
        """Fork it as it is now; whoever connects to a fork that sleeps calls `SleepingFork.wake` first."""

    async def kernel_in_fork(self, process: KernelProcess, answer_subcall: AnswerSubcall) -> Self:
        """Return another kernel, whose process is this fork."""

    async def switch_to_fork(self, process: KernelProcess, why: str) -> None:
        """Leave the process that it has for this fork; raise `KernelStartError` where the fork does not come up."""

    async def end_process(self) -> None:
        """Cancel what is open and end the process."""

    async def close(self) -> None:
        """Close the kernel."""


K = TypeVar("K", bound=Forkable)


class Forks(Generic[K]):
    """The sleeping forks of one kernel.

    Parameters
    ----------
    kernel
        The kernel.
    insurance
        Whether `insure` keeps any.
    """

    def __init__(self, kernel: K, *, insurance: bool) -> None:
        self._kernel = kernel
        self.insurance = Insurance(is_wanted=insurance)
        """The fork that replaces the kernel when it dies."""
        self._kept: list[SleepingFork] = []
        """Forks that `keep` has made in this prompt, the oldest first."""
        self._marked: SleepingFork | None = None
        """The fork that `mark` has made."""

    async def keep(self, position: CellPosition | None) -> None:
        """Make it possible to `branch` from this moment, after this cell; the last few such moments stay.

        Raises
        ------
        ForkRefusedError, KernelDiedError
            As `Kernel.fork`.
        """
        self._kept.append(SleepingFork(await self._kernel.fork_process(sleeps=True), position))
        while len(self._kept) > _MOST_KEPT:
            await run_to_completion(self._kept.pop(0).process.kill)

    def has_kept(self, position: CellPosition | None) -> bool:
        """Return whether there is a fork of it as it was after this cell of the current prompt."""
        return any(kept.position == position for kept in self._kept)

    async def branch(self, position: CellPosition | None, answer_subcall: AnswerSubcall) -> K:
        """Return another kernel, in the fork that was kept after this cell; a new one is kept for the next branch.

        Raises
        ------
        ForkRefusedError
            There is none any more.
        """
        kept = next((kept for kept in self._kept if kept.position == position), None)
        if kept is None:
            raise ForkRefusedError("nothing was kept of that moment")
        self._kept.remove(kept)
        kept.wake()
        try:
            other = await self._kernel.kernel_in_fork(kept.process, answer_subcall)
        except KernelStartError:
            raise ForkRefusedError("the copy from that moment is gone") from None
        try:
            with contextlib.suppress(KernelError, OSError):
                self._kept.append(SleepingFork(await other.fork_process(sleeps=True), position))
        except BaseException:  # cancelled: the new kernel has no other owner yet
            await run_to_completion(other.close)
            raise
        return other

    async def drop_kept(self) -> None:
        """End those that `keep` has made."""
        kept, self._kept = self._kept, []
        for one in kept:
            await one.process.kill()

    def insure(self, position: CellPosition | None) -> None:
        """Begin to make the fork that `revive` uses, of this moment; `insurance.settled` waits for it.

        Parameters
        ----------
        position
            The cell that it is after; `None`: none of this prompt has run.
        """
        kernel = self._kernel
        if self.insurance.is_wanted and kernel.is_alive and kernel.declared is None:
            self.insurance.renew(lambda: kernel.fork_process(sleeps=True), position, kernel.pid)

    async def revive(self) -> SleepingFork | None:
        """Replace the dead process by the fork of `insure`, with all its variables, and insure the kernel again.

        Returns
        -------
        SleepingFork or None
            The fork that was used; `None`: there is none, or it does not come up, and `Kernel.restart` is what is left.
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
            await self._kernel.switch_to_fork(fork.process, "it was dead")
        except KernelStartError:
            return None
        self.insure(fork.position)
        await self.insurance.settled()
        return fork

    async def mark(self, position: CellPosition | None) -> str:
        """Make it possible to `go_back` to this moment, after this cell, in place of the one before.

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
            return error.reason if isinstance(error, ForkRefusedError) else str(error).removesuffix(".")
        return ""

    async def unmark(self) -> None:
        """End the fork that was kept by `mark`, if there is one."""
        fork, self._marked = self._marked, None
        if fork is not None:
            await run_to_completion(fork.process.kill)

    async def go_back(self) -> bool:
        """Replace the process, dead or alive, by the fork of `mark`; what was done since is gone.

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
            await self._kernel.switch_to_fork(fork.process, "its last cell was undone")
        except KernelStartError:
            return False
        # the insured fork has the effect of the cell that was undone
        await run_to_completion(self.insurance.drop)
        self.insure(fork.position)
        return True

    async def drop_all(self) -> None:
        """End all of them."""
        await self.insurance.drop()
        await self.unmark()
        await self.drop_kept()
