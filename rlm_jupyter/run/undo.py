"""A person who approves cells can have the last one undone: the kernel goes back to a fork from before it."""

from __future__ import annotations

import contextlib

from rlm_jupyter.prompts import notices
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.substates import UndoPoint
from rlm_jupyter.types.errors import KernelDiedError
from rlm_jupyter.types.events import NoticeGiven
from rlm_jupyter.types.values import CellPosition

_GONE = "the copy of the kernel from before it is gone"
_NONE = "none was executed that could be"


async def mark(run: Run) -> None:
    """Keep what the next cell can be undone by, where a person is asked about cells; the point before it is left."""
    cells, kernel = run.cell_state, run.kernel
    if not run.control.approving or not kernel.can_fork:
        await forget(run)
        return
    cells.undo_point, cells.no_undo = None, await kernel.forks.mark(_last_executed(run))
    if not cells.no_undo:
        cells.undo_point = UndoPoint((run.iteration, cells.block), cells.draft, cells.sent_back, cells.confidence)


async def forget(run: Run, why: str = "") -> None:
    """Let no cell so far be undone any more.

    Parameters
    ----------
    why
        As the end of a sentence, where a person is to hear of it.
    """
    run.cell_state.undo_point, run.cell_state.no_undo = None, why
    await run.kernel.forks.unmark()


async def go_back(run: Run) -> str:
    """Undo the cell that was executed last; return why that can't be, in a line, and change nothing then."""
    cells, kernel = run.cell_state, run.kernel
    point, cells.undo_point = cells.undo_point, None
    if point is None or not await kernel.forks.go_back():
        cells.no_undo = _GONE if point is not None else cells.no_undo or _NONE
        return f"The last cell can't be undone: {cells.no_undo}."
    cells.draft, cells.sent_back, cells.confidence = point.draft, point.sent_back, point.confidence
    cells.variables = ()
    with contextlib.suppress(KernelDiedError):  # the next cell revives it
        cells.variables = (await kernel.inspect()).variables
    return ""


def tell(run: Run, said: str) -> None:
    """Record that the last cell was undone, and tell the model; also while a record is played.

    Parameters
    ----------
    said
        The person's message, as it stands in a notice.
    """
    undone = _last_executed(run) or (0, 0)
    names = ", ".join(variable.name for variable in run.cell_state.variables) or "none"
    text = notices.UNDONE.format(iteration=undone[0], block=undone[1] + 1, names=names, message=said)
    run.record(NoticeGiven(run.iteration, text, undoes=undone))


def _last_executed(run: Run) -> CellPosition | None:
    """Return the last cell whose effect the kernel has, or had until it died."""
    for iteration in reversed(run.trajectory.iterations):
        for cell in reversed(iteration.cells):
            position = iteration.index, cell.block
            if cell.status != "skipped" and position not in run.trajectory.undone:
                return position
    return None
