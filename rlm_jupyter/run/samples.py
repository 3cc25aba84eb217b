"""`best_of`: several runs of one question at once, and the answer that they agree on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rlm_jupyter.run.loop import Ending, solve, until_stopped
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.vote import Ballot, Count, count
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.events import SampleSettled
from rlm_jupyter.types.values import Value

StartSample = Callable[[Run, int], Awaitable[SampleSettled]]
"""Runs the question of this run once more, as the sample with this number."""


async def best_of(run: Run, samples: int, start: StartSample, *, require_agreement: bool) -> Ending:
    """Solve the run beside others of the same question; it is the first sample itself.

    The others are its children: with kernels of their own, on the same ledger. All end as soon as those that go on
    can't change the answer, or this one is stopped.

    Parameters
    ----------
    samples
        How many, this one included.
    require_agreement
        Without agreement there is no answer.

    Returns
    -------
    Ending
        With the answer that most give, and the share that gives it as `confidence` (self-consistency, arXiv
        2203.11171).

    Raises
    ------
    RLMError
        All samples failed; the error is that of the run itself.
    """
    recorded = {} if run.playback is None else run.playback.samples()
    earlier = [_ballot(settled) for settled in recorded.values()]
    own: list[Ending | Exception] = []

    async def solve_own() -> Ballot:
        try:
            ending = await until_stopped(run, solve)
        except Exception as error:
            if run.playback is None and not isinstance(error, RLMError):
                raise
            own.append(error)
            return Ballot(1)
        own.append(ending)
        return Ballot(1, ending.answer, ending.stop_reason, run.confidence)

    async def solve_other(number: int) -> Ballot:
        try:
            return _ballot(await start(run, number))
        except RLMError:
            return Ballot(number)

    tasks = [asyncio.create_task(solve_own())]
    if run.playback is None or run.playback.asks_models:
        run.ledger.roots = samples
        missing = (number for number in range(2, samples + 1) if number not in recorded)
        tasks += [asyncio.create_task(solve_other(number)) for number in missing]

    def counted() -> Count:
        return count([*earlier, *(task.result() for task in tasks if task.done() and not task.cancelled())])

    pending = set(tasks)
    try:
        while pending and not _is_stopped(own) and not counted().is_settled(len(pending)):
            _, pending = await asyncio.wait(pending, return_when="FIRST_COMPLETED")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # also those that ended while they were being cancelled
    return _ending(own[0] if own else None, counted(), require_agreement)


def _is_stopped(own: list[Ending | Exception]) -> bool:
    """Return whether a person has stopped the run."""
    return bool(own) and isinstance(own[0], Ending) and own[0].stop_reason == "cancelled"


def _ending(own: Ending | Exception | None, counted: Count, require_agreement: bool) -> Ending:
    best = counted.best
    if isinstance(own, Ending) and own.stop_reason == "cancelled":
        return replace(own, answer=None if best is None else best.answer, confidence=counted.share)
    if best is None:
        if isinstance(own, Exception):
            raise own
        return own or Ending("failed", message=counted.words)
    if require_agreement and not counted.agrees:
        return Ending("no_agreement", message=counted.words, confidence=counted.share)
    said = own.message if isinstance(own, Ending) and best.sample == 1 else ""
    return Ending(best.stop_reason, best.answer, "; ".join(filter(None, [counted.words, said])), counted.share)


def _ballot(settled: SampleSettled) -> Ballot:
    answer = None if settled.answer is None else Value(settled.answer, settled.value, settled.is_json)
    return Ballot(settled.sample, answer, settled.stop_reason, settled.confidence)
