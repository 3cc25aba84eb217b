"""`best_of`: several runs of one question at once, and the answer that they agree on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from rlm_jupyter.run.loop import Ending, solve, until_stopped
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.vote import SETTLED, Ballot, Count, count
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
    voting = _Voting(run, start, {} if run.playback is None else run.playback.samples())
    voting.begin(samples)
    pending, why = set(voting.tasks), None
    try:
        while pending and not voting.is_stopped and not voting.count().is_settled(len(pending)):
            _, pending = await asyncio.wait(pending, return_when="FIRST_COMPLETED")
        why = None if voting.is_stopped else SETTLED
    finally:
        for task in voting.tasks:
            task.cancel(why)
        await asyncio.gather(*voting.tasks, return_exceptions=True)
    # also those that ended while they were being cancelled
    return _ending(voting.own, voting.count(), require_agreement)


class _Voting:
    """The samples under way, and what those say that have ended."""

    def __init__(self, run: Run, start: StartSample, recorded: Mapping[int, SampleSettled]) -> None:
        self._run, self._start, self._recorded = run, start, recorded
        self.tasks: list[asyncio.Task[Ballot]] = []
        self.own: Ending | Exception | None = None
        """How the run itself ended, which is the first sample."""

    def begin(self, samples: int) -> None:
        """Start the run itself, and the samples that are not on record."""
        self.tasks = [asyncio.create_task(self._solve_own())]
        if self._run.playback is None or self._run.playback.asks_models:
            self._run.ledger.kernels.roots = samples
            missing = (number for number in range(2, samples + 1) if number not in self._recorded)
            self.tasks += [asyncio.create_task(self._solve_other(number)) for number in missing]

    @property
    def is_stopped(self) -> bool:
        """Whether a person has stopped the run."""
        return isinstance(self.own, Ending) and self.own.stop_reason == "cancelled"

    def count(self) -> Count:
        """Count what those say that have ended."""
        ended = (task.result() for task in self.tasks if task.done() and not task.cancelled())
        return count([*map(_ballot, self._recorded.values()), *ended])

    async def _solve_own(self) -> Ballot:
        try:
            self.own = await until_stopped(self._run, solve)
        except Exception as error:
            if self._run.playback is None and not isinstance(error, RLMError):
                raise
            self.own = error
            return Ballot(1)
        return Ballot(1, self.own.answer, self.own.stop_reason, self._run.confidence)

    async def _solve_other(self, number: int) -> Ballot:
        try:
            return _ballot(await self._start(self._run, number))
        except RLMError:
            return Ballot(number)


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
