"""How a run comes to its end, wherever it is when it has to, and its last record."""

from __future__ import annotations

import asyncio
import time

from rlm_jupyter.run import cells
from rlm_jupyter.run.loop import Ending, solve
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import RunEnded

_OVERTIME = 0.75
"""Seconds after its deadline at which a run that has not ended by itself is ended, wherever it is."""
_LAST_LOOK = 0.5
"""Seconds in which its kernel may then tell its best answer."""


async def until_stopped(run: Run) -> Ending:
    """Solve the run, or end it with what it has as soon as it is stopped, or its time is up wherever it is."""
    stop = run.control.stopping
    if stop.is_set():
        return Ending("cancelled", message=run.control.why_stopped)
    solving = asyncio.create_task(solve(run))
    stopping = asyncio.create_task(stop.wait())
    expiring = asyncio.create_task(_expired(run))
    try:
        await asyncio.wait([solving, stopping, expiring], return_when="FIRST_COMPLETED")
        if solving.done():
            return solving.result()
        solving.cancel()
        await asyncio.wait([solving])
        if stopping.done():
            return Ending("cancelled", await cells.latest_best(run), message=run.control.why_stopped)
        return Ending("seconds", await cells.latest_best(run, _LAST_LOOK))
    finally:
        for task in (solving, stopping, expiring):
            task.cancel()
        await asyncio.gather(solving, stopping, expiring, return_exceptions=True)


async def _expired(run: Run) -> None:
    """Until the time is up, and a moment more."""
    await run.ledger.expired(_OVERTIME)
    while run.is_replaying:  # nothing is spent meanwhile, and the clock will begin anew
        await asyncio.sleep(_OVERTIME)
        await run.ledger.expired(_OVERTIME)


def ended(run: Run, ending: Ending) -> RunEnded:
    """Return the last record of a run that has come to this ending."""
    answer = ending.answer
    if answer is None and run.playback is not None and (earlier := run.playback.earlier_answer) is not None:
        answer = earlier  # of a run that was taken up again: no worse off than before
    usage, cost = run.ledger.usage, run.ledger.cost
    if run.trajectory.started.depth:
        own = run.trajectory.cost
        usage = run.trajectory.usage + run.requests.lost.usage
        cost = None if own is None or run.requests.lost.cost is None else own + run.requests.lost.cost
    recorder = run.entries.recorder
    renamed = recorder.files.renamed if recorder is not None else ""
    remarks = [*run.ledger.overbilled.values(), *run.ledger.remarks.values(), *filter(None, [renamed])]
    return RunEnded(
        stop_reason=ending.stop_reason,
        answer=answer.text if answer else None,
        value=answer.json if answer else None,
        is_json=answer.is_json if answer else False,
        iteration=run.iteration,
        seconds=time.monotonic() - run.began,
        usage=usage,
        cost=cost,
        message=". ".join(filter(None, [ending.message.rstrip("."), "; ".join(remarks)]))
        if remarks
        else ending.message,
    )
