"""A run's cells: executed, entered into the record, and shown to the model; a kernel that dies is restarted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlm_jupyter.kernel.guest.codec import DRAFT
from rlm_jupyter.kernel.insurance import SleepingFork
from rlm_jupyter.prompts import cues, notices, outputs
from rlm_jupyter.run import undo
from rlm_jupyter.run.figures import Figures
from rlm_jupyter.run.state import INTERRUPT_MARGIN, Run
from rlm_jupyter.types.errors import KernelDiedError, KernelError, KernelStartError
from rlm_jupyter.types.events import CellFinished, CellStarted, NoticeGiven, NoticeKind, OutputChanged, OutputsShown
from rlm_jupyter.types.values import CellRun, Inspection, Output, Value, Variable

MOST_RESTARTS = 3
"""How often a kernel that died is restarted in one run."""
_STOP_SECONDS = 5.0
"""How long a run that is being stopped looks for a draft."""
_REST_SECONDS = 0.25
"""Before the second restart, and so much longer before each one after that."""


async def execute(run: Run, source: str, executed: str | None = None) -> tuple[CellRun, Inspection]:
    """Execute a block as the next cell, and inspect the kernel afterwards.

    Parameters
    ----------
    source
        As the model wrote it, for the record.
    executed
        What is executed, where that differs.

    Raises
    ------
    KernelDiedError
        The kernel has died too often.
    """
    if run.playback is not None and (replayed := await run.playback.execute()) is not None:
        return replayed
    cells, kernel = run.cell_state, run.kernel
    latest: tuple[Output, ...] = ()

    def changed(now: tuple[Output, ...]) -> None:
        nonlocal latest
        latest = now
        run.emit(OutputChanged(run.iteration, cells.block, now))

    early, cells.early = cells.early, None
    await kernel.forks.insurance.settled()
    if kernel.forks.insurance.shortage:
        run.ledger.remarks["insurance"] = kernel.forks.insurance.shortage
    if early is None and not kernel.is_alive:
        await _revive(run, notices.DIED_BETWEEN, "died_between")
    await undo.mark(run)
    run.emit(CellStarted(run.iteration, cells.block, source))
    begun = time.monotonic() if early is None else early.begun
    cell = CellRun("interrupted")
    try:
        code = source if executed is None else executed
        cell = await (in_kernel(run, code, changed) if early is None else early.take_over(changed))
    except BaseException:
        cell = replace(cell, seconds=time.monotonic() - begun)
        raise
    finally:
        # also when the run is being stopped: what the cell had shown is kept
        finish(run, source, executed, cell if cell.outputs else replace(cell, outputs=latest))
    try:
        inspection = await inspect_kernel(run)
    except KernelDiedError:
        if kernel.declared is not None:
            # the answer was fetched while FINAL was called: nobody needs this kernel any more
            cells.confidence = kernel.declared_confidence
            return cell, Inspection(answer_state="declared", confidence=cells.confidence)
        await _revive(run, notices.DIED_WITHIN)
        return cell, Inspection(variables=cells.variables)
    if cell.status == "ok":
        kernel.forks.insure((run.iteration, cells.block - 1))
    return cell, inspection


async def in_kernel(run: Run, code: str, on_outputs: Callable[[tuple[Output, ...]], None]) -> CellRun:
    """Execute this code; nothing of it is recorded or told."""

    def left_over() -> float | None:
        # asked again and again: the clock stands still while a person is asked about a call
        margin = run.requests.held_back.seconds + INTERRUPT_MARGIN
        return None if (left := run.ledger.deadline.left) is None else left - margin

    run.subcalls.begin(code)
    return await run.kernel.execute(code, cell_seconds=run.limits.cell_seconds, left=left_over, on_outputs=on_outputs)


async def inspect_kernel(run: Run) -> Inspection:
    """Inspect the kernel after a cell: its variables, a draft of the answer, the stated confidence."""
    cells = run.cell_state
    inspection = await run.kernel.inspect()
    if inspection.draft:
        cells.draft = await _read_draft(run)
    elif not cells.restarts:
        cells.draft = None  # taken back
    cells.variables, cells.confidence = inspection.variables, inspection.confidence
    return inspection


def finish(run: Run, source: str, executed: str | None, cell: CellRun) -> None:
    """Record a cell, executed or skipped, and count it; while a run is played back, take the recorded one instead."""
    if run.playback is not None and run.playback.finished():
        return
    run.record(
        CellFinished(
            run.iteration,
            run.cell_state.block,
            source,
            executed if executed != source else None,
            cell.status,
            cell.outputs,
            cell.execution_count,
            cell.seconds,
        )
    )
    run.cell_state.block += 1


async def send_back(run: Run, answer: Value) -> None:
    """Keep a declared answer that does not end the run; the next FINAL counts again."""
    run.cell_state.sent_back = answer
    await reopen(run)


async def reopen(run: Run) -> None:
    """Let the next FINAL count again, and the one before no more."""
    run.replies.withdraw()
    with contextlib.suppress(KernelDiedError):  # the next cell revives it
        await run.kernel.reopen()


async def show(run: Run) -> None:
    """Record what the model is shown of this iteration: its outputs, truncated to the limit, and what is left.

    What was cut off is put into a variable of the kernel, which the text names.
    """
    iteration = run.trajectory.iterations[-1]
    executed = [cell for cell in iteration.cells if cell.status != "skipped"]
    taken = {variable.name for variable in run.cell_state.variables}
    pieces, whole = [], []
    budget = outputs.shown_chars(run.limits, run.model.window)
    figures = Figures(
        (output for cell in executed for output in cell.outputs),
        None if run.is_replaying else run.requests.conversation.image_tokens,
        run.model.window,
    )
    for index, cell in enumerate(executed):
        text = outputs.render(cell.outputs, figures.number)
        whole.append(text)
        name = f"output_{cell.execution_count}" if cell.execution_count else None
        if name in taken:
            name = f"_{name}"
        shown = outputs.cut(text, max(budget // (len(executed) - index), 200), variable=name)
        kept = run.playback is not None and not run.playback.puts_output(run.iteration, cell.block)
        if shown.cut and name is not None and run.kernel.is_alive and not kept:
            with contextlib.suppress(KernelDiedError):  # the next cell revives it
                await run.kernel.put(name, text)
        budget -= len(shown.text)
        label = f"Outputs of block {index + 1}:\n" if len(executed) > 1 else "Outputs:\n"
        pieces.append(label + (shown.text or "(none)"))
    skipped = len(iteration.cells) - len(executed)
    if skipped:
        pieces.append(f"{skipped} more block{'s were' if skipped > 1 else ' was'} not executed.")
    run.cell_state.rendered = "\n".join(whole)
    statuses = [] if run.kernel.declared is not None else [cell.status for cell in executed]
    cue = cues.cue(statuses, run.cell_state.rendered)
    pieces.append(cues.status(run.iteration, run.limits.max_iterations, run.ledger.left(), cue))
    run.record(OutputsShown(run.iteration, "\n\n".join(pieces), figures.images))


async def latest_best(run: Run, seconds: float = _STOP_SECONDS) -> Value | None:
    """Return the best answer as it is now, also in a cell that was stopped: an answer just recorded goes first.

    Parameters
    ----------
    seconds
        How long the kernel is asked for it.
    """
    if run.kernel.declared is not None:
        return run.kernel.declared
    with contextlib.suppress(KernelError, TimeoutError):
        async with asyncio.timeout(seconds):
            inspection = await run.kernel.inspect()
            if inspection.answer_state == "declared":
                return await run.kernel.get()
            if inspection.draft:
                run.cell_state.draft = await _read_draft(run) or run.cell_state.draft
    return run.best


async def _read_draft(run: Run) -> Value | None:
    try:
        return await run.kernel.get(DRAFT)
    except KernelDiedError:
        raise
    except KernelError:
        return None  # it can't become text


async def _revive(run: Run, what: str, kind: NoticeKind = "") -> None:
    """Bring the kernel back, and tell the model exactly what is gone: what this cell did, or all variables."""
    cells = run.cell_state
    before = cells.variables
    # a thread may have called FINAL between two cells
    cells.sent_back = run.kernel.declared or cells.sent_back
    fork = await _restart(run)
    if fork is None:
        text = notices.restarted(what, before)
        text += notices.OUTPUTS_GONE if run.replies.outputs is not None else ""
    else:
        text = notices.revived(what, fork.position, before, cells.variables)
    run.record(NoticeGiven(run.iteration, text, restoration(cells.variables, fork), kind))


async def _restart(run: Run) -> SleepingFork | None:
    """Go on in the fork that was kept of the kernel, or restart it; where it dies over that, after a rest once more.

    Raises
    ------
    KernelDiedError
        It has died too often.
    """
    cells, kernel = run.cell_state, run.kernel
    while True:
        cells.restarts += 1
        if cells.restarts > MOST_RESTARTS:
            raise KernelDiedError(f"the kernel died {cells.restarts} times")
        await asyncio.sleep(_REST_SECONDS * (cells.restarts - 1))
        try:
            fork = await kernel.forks.revive()
            if fork is None:
                await restart_kernel(run)
            cells.variables = () if fork is None else (await kernel.inspect()).variables
            return fork
        except KernelStartError as error:
            raise KernelDiedError(f"the kernel died, and another did not come up: {error}") from error
        except KernelDiedError:
            if not kernel.can_restart:
                raise


async def restart_kernel(run: Run) -> None:
    """Start a new kernel in place of the one that died, with the earlier prompts in `history`."""
    await run.kernel.restart()
    await run.kernel.begin()
    await run.cell_state.history.put(run.kernel)


def restoration(variables: Sequence[Variable], fork: SleepingFork | None) -> dict[str, Any]:
    """Return what a fork has brought back, for the record; empty where there was none, or it had nothing."""
    names = [variable.name for variable in variables]
    if fork is None or not names:
        return {}
    iteration, block = fork.position or (0, 0)
    return {"names": names, "iteration": iteration, "block": block}
