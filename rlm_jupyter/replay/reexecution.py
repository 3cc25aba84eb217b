"""`Reexecution`: recorded cells executed again, for what they leave in the kernel."""

from __future__ import annotations

from dataclasses import replace

from rlm_jupyter.prompts import notices
from rlm_jupyter.replay.diff import difference
from rlm_jupyter.replay.recording import Recording
from rlm_jupyter.run.cells import inspect_kernel, restart_kernel
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import CellFinished, NoticeGiven
from rlm_jupyter.types.values import CellPosition, CellRun, Inspection

_COUNTED = "pass"
"""Executed in place of a cell that is passed over, so that the kernel's numbers stay those of the record."""


class Reexecution:
    """Re-executes the cells of a recording in a run's kernel; what differs is noted in the recording.

    Where the recording's options say that no cell is re-executed, the kernel stays empty.

    Parameters
    ----------
    run
        Whose kernel it is.
    recording
        Has the cells.
    """

    def __init__(self, run: Run, recording: Recording) -> None:
        self.run = run
        self._recording = recording
        self._is_first = True
        """No cell was re-executed yet."""

    async def begin_cell(self) -> None:
        """Keep a fork from before the first cell, where a recorded death needs it."""
        if self._is_first and self._recording.revival_position == (0, 0):
            await self._keep_variables((0, 0))
        self._is_first = False

    async def execute(self, cell: CellFinished, recorded: CellRun) -> str:
        """Bring a cell's effect on the kernel back; return how its outputs differ, empty where they don't.

        Parameters
        ----------
        cell
            As recorded.
        recorded
            What came of it then.
        """
        recording, run = self._recording, self.run
        if not recording.options.reexecutes:
            return ""
        position = cell.iteration, cell.block
        if position in recording.undone:
            return ""
        await run.kernel.forks.insurance.settled()
        if cell.status == "died":
            await self.restart(recording.revival())
            return ""
        if cell.status == "interrupted":
            await run.kernel.execute(_COUNTED)
            if position not in recording.stopped_in or recording.options.only:  # else its own notice says it
                recording.passed_over.append(cell.iteration)
            return ""
        recording.calls.begin(position)
        again = await run.kernel.execute(cell.code, cell_seconds=run.limits.cell_seconds)
        run.subcalls.cut = 0
        differs = difference(recorded, again, f"iteration {cell.iteration}, cell {cell.block + 1}")
        if differs:
            recording.note(*position, differs)
        if again.status == "died" or not run.kernel.is_alive:
            await self.restart(None)
        return differs

    async def inspect(self, cell: CellFinished) -> Inspection:
        """Return what the kernel says of itself after a cell, less an answer that the record does not have."""
        recording, run = self._recording, self.run
        inspection = Inspection()
        if recording.options.reexecutes and run.kernel.is_alive:
            inspection = await inspect_kernel(run)
            if cell.status == "ok":
                await self._keep_variables((cell.iteration, cell.block))
        inspection = replace(inspection, exited=recording.exited(cell))
        if not recording.went_on(run.iteration) or recording.was_sent_back(cell.iteration):
            return inspection
        if inspection.answer_state == "declared":
            recording.note(cell.iteration, cell.block, "The cell declares an answer, which it had not.")
            await run.kernel.reopen()
        return replace(inspection, answer_state="none", problem="", draft_ready=False)

    async def restart(self, notice: NoticeGiven | None) -> None:
        """Bring the kernel back, with the variables that came back in the recorded run.

        Parameters
        ----------
        notice
            What was said of the restart, and names the variables; `None`: none comes back.
        """
        cells, kernel = self.run.cell_state, self.run.kernel
        cells.restarts += 1
        if self._recording.options.is_live:
            return
        cells.variables = ()
        if not self._recording.options.reexecutes:
            return
        wanted: list[str] = notice.restored.get("names", []) if notice is not None else []
        if not wanted or await kernel.forks.revive() is None:
            await restart_kernel(self.run)
        if not wanted:
            return
        cells.variables = (await kernel.inspect()).variables
        back = {variable.name for variable in cells.variables}
        if missing := [name for name in wanted if name not in back]:
            self._recording.note(self.run.iteration, None, notices.NOT_RESTORED.format(names=", ".join(missing)))

    async def _keep_variables(self, position: CellPosition) -> None:
        """Keep the fork that a recorded death needs, and no other before that; then as a run does."""
        needed = self._recording.revival_position
        if needed is None or needed == position:
            self.run.kernel.forks.insure(position)
        if needed == position:
            await self.run.kernel.forks.insurance.settled()
