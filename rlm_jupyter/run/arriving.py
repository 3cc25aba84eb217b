"""A reply that arrives: its first cell is executed while the model still writes the rest.

That cell begins where nothing that may follow can change whether it is executed, or how; else it waits for the whole
reply. From its beginning on the reply counts: where the rest of it does not come, it ends with the block of this cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rlm_jupyter import parsing
from rlm_jupyter.run import cells, reply_checks
from rlm_jupyter.run.early_cell import EarlyCell
from rlm_jupyter.run.iteration import mended
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.values import CellRun


def listener(run: Run) -> Callable[[str], bool]:
    """Return what hears a reply arrive and says when the rest is not needed; it begins the first cell when that may."""
    reading, is_decided = parsing.Reading(), False

    def hear(text: str) -> bool:
        nonlocal is_decided
        is_over = reading.is_over(text)
        if reading.opening and not is_decided:
            is_decided = True
            source = parsing.parse(reading.opening).blocks[0]
            if may_begin(run, source):
                executed = mended(run, source)
                execute = partial(cells.in_kernel, run, source if executed is None else executed)
                run.cell_state.early = EarlyCell(reading.opening, source, executed, execute)
        return is_over

    return hear


def may_begin(run: Run, source: str) -> bool:
    """Return whether a cell is executed, with this run as it is, in whatever reply it is the first."""
    kernel = run.kernel
    return (
        not run.control.approving
        and kernel.is_alive
        and kernel.forks.insurance.is_settled
        and not parsing.only_constant_final(source)  # may be questioned, where there is nothing else
        and not reply_checks.may_reject(run, source)
    )


async def give_up(run: Run) -> None:
    """Stop the cell that is early, for the run has ended before its turn; it is recorded behind its reply."""
    early, run.cell_state.early = run.cell_state.early, None
    if early is not None:
        cell = CellRun("interrupted")
        try:
            cell = await early.stop()
        except BaseException:
            cell = replace(cell, seconds=time.monotonic() - early.begun)
            raise
        finally:
            cells.finish(run, early.source, early.executed, cell)
