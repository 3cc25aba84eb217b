"""The runs whose kernels live in this process, by their ids: a new run can branch from one at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from rlm_jupyter import parsing
from rlm_jupyter.run import background
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError
from rlm_jupyter.types.events import CellFinished, NoticeGiven, OutputsShown, Record
from rlm_jupyter.types.values import CellPosition

if TYPE_CHECKING:
    from rlm_jupyter.kernel.kernel import Kernel
    from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
    from rlm_jupyter.record.trajectory import Trajectory
    from rlm_jupyter.run.context import AnyContext
    from rlm_jupyter.types.values import ContextInfo


class Living(Protocol):
    """A session, as far as a branch needs it (`run.session.Session`)."""

    kernel: Kernel
    sandbox: Sandbox
    records: list[Trajectory]
    earlier: list[ContextInfo]
    context: AnyContext
    is_touched: bool
    loop: asyncio.AbstractEventLoop | None


_sessions: WeakValueDictionary[str, Living] = WeakValueDictionary()


def note(run_id: str, session: Living) -> None:
    """Note that a run begins in this session, on the running loop."""
    session.loop = asyncio.get_running_loop()
    _sessions[run_id] = session


def session_of(run_id: str) -> Living | str:
    """Return the session whose newest run this is; where there is none that could be forked, why, in a few words."""
    session = _sessions.get(run_id)
    if session is None or not session.kernel.is_alive:
        return ""
    if not session.records or session.records[-1].run_id != run_id:
        return "a further prompt was asked in its kernel"
    if session.loop is not asyncio.get_running_loop():
        return "its kernel is used by another event loop"
    if not session.kernel.can_fork:
        return "its kernel can't be forked here"
    if session.is_touched:
        return "a cell of yours was executed in its kernel"
    return session


def moment(records: Sequence[Record]) -> CellPosition | None:
    """Return the cell after which a kernel is as these records leave it; `None`: as before the first.

    A cell that only declares an answer changes nothing of what a branch goes on from.
    """
    cells: list[CellFinished] = []
    for record in records:
        if isinstance(record, CellFinished) and record.status != "skipped":
            cells.append(record)
        elif isinstance(record, NoticeGiven) and record.undoes:
            cells = [cell for cell in cells if (cell.iteration, cell.block) != record.undoes]
    while cells and cells[-1].status == "ok" and parsing.only_final(cells[-1].code):
        cells.pop()
    return (cells[-1].iteration, cells[-1].block) if cells else None


def keep(run_id: str, at: int) -> str:
    """Keep a run's kernel as it is, after the first `at` iterations, for a branch later on; from any thread.

    Returns
    -------
    str
        What a branch from there will be like, in a line.
    """
    return background.submit(_keep(run_id, at)).result()


async def _keep(run_id: str, at: int) -> str:
    session = session_of(run_id)
    if isinstance(session, str):
        return _from_record(at, session or "the kernel of its run is gone")
    trajectory = session.records[-1]
    if at not in [one.iteration for one in trajectory.records if isinstance(one, OutputsShown)]:
        return f"Nothing of the kernel was kept: iteration {at} is not over yet."
    wanted = moment([one for one in trajectory.records if getattr(one, "iteration", 0) <= at])
    if session.kernel.forks.has_kept(wanted):
        return _KEPT.format(at=at)
    if moment(trajectory.records) != wanted:
        return _from_record(at, "its kernel has gone on since")
    try:
        await session.kernel.forks.keep(wanted)
    except (ForkRefusedError, KernelDiedError) as error:
        return _from_record(at, (error.reason if isinstance(error, ForkRefusedError) else str(error)))
    return _KEPT.format(at=at)


_KEPT = "The kernel was kept as it is after iteration {at}: a branch from there begins at once."


def _from_record(at: int, why: str) -> str:
    return f"A branch after iteration {at} begins from the record: its cells are executed again ({why})."
