"""`replay`: does again what a recorded run did to the notebook's variables: its cells, without a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlm_jupyter.kernel.guest.attached import AttachedGuest
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.recorded_calls import KernelCalls, saved_outputs
from rlm_jupyter.types.errors import RecordError

_ENDED = frozenset({"ok", "error"})
"""How a cell must have ended to be executed again: others took too long, or never ran."""


async def replay(shell: Any, trajectory: Trajectory, context: Any, is_shown: Callable[[], bool]) -> str:
    """Execute a run's cells once more in this kernel; sub-calls are answered from the record.

    Parameters
    ----------
    is_shown
        Whether the page shows the recorded cells, with their outputs.

    Returns
    -------
    str
        What was done, for people.

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
    done = 0
    try:
        with guest.cells.serving(lambda: stopped.append(True)):
            guest.begin(saved_outputs(trajectory))
            for iteration in trajectory.iterations:
                for cell in iteration.cells:
                    if cell.status not in _ENDED:
                        continue
                    calls.begin((iteration.index, cell.block))
                    succeeded = await guest.execute("replay", cell.executed or cell.source)
                    done += 1
                    if stopped:
                        raise KeyboardInterrupt("the recorded cells were stopped; not all were executed")
                    if cell.status == "ok" and not succeeded:
                        raise RecordError(
                            f"Cell {done} of the recorded run succeeded then and fails now ({guest.cells.error}), so "
                            "the variables are not what it made of them. --rerun runs it again."
                        )
    finally:
        guest.leave()
    return f"its {done:,} cell{' was' if done == 1 else 's were'} executed again"
