"""`replay`: does again what a recorded run did to the notebook's variables: its cells, without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rlm_jupyter.frontends.here.put_out import watched
from rlm_jupyter.kernel.guest.attached_guest import AttachedGuest
from rlm_jupyter.record.iteration import Cell
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.diff import difference, text_difference
from rlm_jupyter.replay.recorded_calls import KernelCalls, saved_outputs
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import CellFinished, Record
from rlm_jupyter.types.json_schema import takes_none
from rlm_jupyter.types.values import CellRun

_ENDED = frozenset({"ok", "error"})
"""How a cell must have ended to be executed again: others took too long, or never ran."""


@dataclass
class ReplayReport:
    """What came of it."""

    cells: int = 0
    """That were executed again."""
    others: int = 0
    """Of these, how many gave another output than is recorded."""
    differences: list[str] = field(default_factory=list)
    """Unified diffs, of the outputs and of the answer."""
    runs: dict[tuple[int, int], CellRun] = field(default_factory=dict)
    """What came of each, by its iteration and its place in that."""

    def now(self, record: Record) -> Record:
        """Return a record of the run as it is shown: a cell with what it put out now, and its number in this kernel."""
        if not isinstance(record, CellFinished) or (run := self.runs.get((record.iteration, record.block))) is None:
            return record
        return replace(record, outputs=run.outputs, execution_count=run.execution_count)

    def __str__(self) -> str:
        cells = self.cells
        said = f"its {cells:,} cell{' was' if cells == 1 else 's were'} executed again without a model"
        if self.others:
            said += f", and {self.others:,} gave another output than the recorded one"
        elif self.differences:
            said += ", and came to another answer than the recorded one that is shown"
        return said


async def replay(shell: Any, trajectory: Trajectory, context: Any, is_shown: Callable[[], bool]) -> ReplayReport:
    """Execute a run's cells once more in this kernel; sub-calls are answered from the record.

    Parameters
    ----------
    is_shown
        Whether the page shows the recorded cells, with their outputs.

    Returns
    -------
    Replayed
        What was done, and what went otherwise than recorded.

    Raises
    ------
    RecordError
        A cell that had succeeded fails now.
    KeyboardInterrupt
        The user's interrupt.
    """
    calls = KernelCalls(trajectory)
    guest = AttachedGuest(shell.kernel, context, answers=calls, is_shown=is_shown)
    stopped: list[bool] = []
    replayed = ReplayReport()
    try:
        with guest.cells.serving(lambda: stopped.append(True)), watched(shell.kernel.session) as put_out:
            form = trajectory.started.options.get("answer")
            guest.begin(saved_outputs(trajectory), takes_none=takes_none(form))
            for iteration in trajectory.iterations:
                for cell in iteration.cells:
                    if cell.status not in _ENDED:
                        continue
                    calls.begin((iteration.index, cell.block))
                    put_out.empty()
                    count = shell.execution_count
                    succeeded = await guest.execute("replay", cell.code)
                    now = CellRun("ok" if succeeded else "error", put_out.cell.snapshot(), count, 0.0)
                    replayed.cells += 1
                    replayed.runs[iteration.index, cell.block] = now
                    if stopped:
                        raise KeyboardInterrupt("the recorded cells were stopped; not all were executed")
                    if cell.status == "ok" and not succeeded:
                        raise RecordError(
                            f"Cell {replayed.cells} of the recorded run succeeded then and fails now "
                            f"({guest.cells.error}), so the variables are not what it made of them. "
                            "--rerun runs it again."
                        )
                    _compare(replayed, cell, now)
        recorded = "" if trajectory.ended is None else trajectory.ended.answer or ""
        if guest.answer is not None and (other := text_difference(recorded, guest.answer, "answer")):
            replayed.differences.append(other)
    finally:
        guest.leave()
    return replayed


def _compare(replayed: ReplayReport, cell: Cell, now: CellRun) -> None:
    """Note where a cell gave another output than is recorded."""
    then = CellRun(cell.status, cell.outputs, None, 0.0)
    if other := difference(then, now, f"cell {replayed.cells}"):
        replayed.others += 1
        replayed.differences.append(other)
