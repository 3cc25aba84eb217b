"""`LiveBranch`: a new run in a fork of another's kernel, which is as the record of that one leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.diff import Difference
from rlm_jupyter.run import living
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings, recorded_options
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError
from rlm_jupyter.types.events import Record
from rlm_jupyter.types.values import AnswerSubcall, Subcall, SubcallFailure

AT_ONCE = "branched from the run's living kernel: no cell was executed again"

_OF_THE_KERNEL = {
    ("kernel_name", "kernel_url", "preload"): "the kernel",
    ("cwd",): "the kernel's folder",
    ("sandbox",): "the sandbox",
    ("tools", "mcp"): "what its cells may call",
}
"""Recorded options, and what they are about."""
_SHARED = "it is to make files, and would share their folder with the run"


class LiveBranch:
    """A kernel for a branch.

    Parameters
    ----------
    session
        Whose kernel was forked.
    """

    def __init__(self, session: living.Living) -> None:
        self.session = session
        self._kernel: Kernel
        self._answer: asyncio.Future[AnswerSubcall] = asyncio.get_running_loop().create_future()

    @classmethod
    async def of(cls, saved: SavedRun, records: Sequence[Record], settings: Settings) -> LiveBranch | str:
        """Fork the kernel of a saved run as it is after these records of it.

        Returns
        -------
        LiveBranch or str
            Why that can't be, in a few words; empty where the kernel does not live in this process.
        """
        session = living.session_of(saved.trajectory.run_id)
        if isinstance(session, str):
            return session
        if other := _difference(session, settings):
            return other
        wanted, kernel = living.moment(records), session.kernel
        branch = cls(session)
        try:
            if kernel.forks.has_kept(wanted):
                branch._kernel = await kernel.forks.branch(wanted, branch._answer_subcall)
            elif living.moment(session.records[-1].records) == wanted:
                branch._kernel = await kernel.fork(branch._answer_subcall)
            else:
                return "its kernel has gone on since"
        except (ForkRefusedError, KernelDiedError) as error:
            return error.reason if isinstance(error, ForkRefusedError) else str(error)
        return branch

    async def close(self) -> None:
        """End the kernel; also where no session has taken it. A second time does nothing."""
        await self._kernel.close()

    async def join(self, answer_subcall: AnswerSubcall) -> Kernel:
        """Give the kernel to its session, which answers its sub-calls from now on."""
        self._answer.set_result(answer_subcall)
        return self._kernel

    def adopt(self, session: Session, earlier: Sequence[tuple[SavedRun, bool]]) -> list[Difference]:
        """Tell a session what its kernel has: contexts, and the prompts before; none differs from its record."""
        session.is_branch = True
        session.earlier, session.context = list(self.session.earlier), self.session.context
        for run, is_told in earlier:
            if is_told:
                session.history.add(run.trajectory)
            session.runs_before.append({"run_id": run.trajectory.run_id, "told": is_told})
        return []

    async def _answer_subcall(self, call: Subcall) -> list[str | SubcallFailure]:
        return await (await asyncio.shield(self._answer))(call)


def _difference(session: living.Living, settings: Settings) -> str:
    """Return what of a kernel is to be otherwise than it is; empty: nothing."""
    before = session.records[-1].started.options
    now = recorded_options(settings, settings.chosen_sandbox(), attached=False)
    for names, said in _OF_THE_KERNEL.items():
        if any(before.get(name) != now.get(name) for name in names):
            return f"{said} is to be another"
    return _SHARED if before.get("outputs") or now.get("outputs") else ""
