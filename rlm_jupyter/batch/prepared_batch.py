"""`PreparedBatch`: a batch that may begin, because all that can be checked before was found right."""

from __future__ import annotations

import contextlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlm_jupyter.batch import display
from rlm_jupyter.batch.asked import Asked
from rlm_jupyter.batch.engine import Engine
from rlm_jupyter.batch.items import Item, RowQuestion
from rlm_jupyter.batch.journal import BatchJournal
from rlm_jupyter.batch.judge import Judge, ReadyJudge
from rlm_jupyter.batch.judging import Judging
from rlm_jupyter.batch.outcome import BatchResult, OnProgress
from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.rows import read_rows
from rlm_jupyter.batch.scoring import Accuracy, Expected, Score, Scoring
from rlm_jupyter.record import atomic
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.approval import check_attended
from rlm_jupyter.run.arguments import check_models
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.settings import Settings, refuse_absent
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rlm_jupyter.batch.workers import Workers


@dataclass(frozen=True)
class PreparedBatch:
    """The items, where their results go, and what holds for all of them together."""

    settings: Settings
    items: list[Item]
    results: ResultsFile
    limits: Limits
    asked: Asked
    concurrency: int
    retries: bool
    scoring: Scoring | None
    executor: Executor | None = None
    judge: ReadyJudge | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        items: Any,
        prompt: str,
        out: str | Path,
        context: str | None,
        key: str | None,
        answer: object,
        retry: str | None,
        concurrency: int,
        limits: tuple[float | None, int | None, float | None],
        expected: Expected | None,
        score: Score,
        executor: Executor | None,
    ) -> Self:
        """Check all that can be checked before anything is made; parameters as for `InBatches.batch`.

        Raises
        ------
        ConfigurationError
            Something is wrong or missing.
        """
        if answer is not None:
            settings = replace(settings, answer=AnswerType.of(answer))
        if settings.outputs is not None:
            raise ConfigurationError("The runs of a batch make no files: leave outputs out.")
        if retry not in {None, "failed"}:
            raise ConfigurationError(f"retry is 'failed' or nothing, not {quoted(retry)}.")
        at_once: object = concurrency
        if not isinstance(at_once, int) or at_once < 1:
            raise ConfigurationError(f"concurrency is a whole number from 1 on, not {quoted(at_once)}.")
        whole = _whole(limits, max(settings.limits.concurrency, concurrency))
        check_models(settings.routing, whole, settings.samples)
        check_attended(settings, None)
        question, scoring = RowQuestion(prompt, context, key), None if expected is None else Scoring(expected, score)
        if scoring is None and score != "exact":  # which is what it is when nothing is said
            text = f"{'A judge' if isinstance(score, Judge) else 'A score'} compares answers with what is expected"
            raise ConfigurationError(
                f"{text}: name its column by expected.", command=f"{text}: name its column by --expected."
            )
        judge = None if scoring is None or scoring.judge is None else ReadyJudge(scoring.judge, settings, whole)
        results = ResultsFile(out, settings.answer)
        prepared = question.items(read_rows(items), [] if scoring is None else scoring.columns)
        asked, retries = question.asked(settings), retry == "failed"
        return cls(settings, prepared, results, whole, asked, concurrency, retries, scoring, executor, judge)

    async def run(self, on_progress: OnProgress | None) -> BatchResult:
        """Do what is missing of it; parameters as for `InBatches.batch`."""
        results, folder, whole = self.results, self.results.folder, Ledger(self.limits)
        workers = self._workers(whole)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{folder} can't be made: {error.strerror}.") from None
        atomic.sweep_once(folder.parent)
        journal = BatchJournal.open(folder, self.asked)
        try:
            results.check_ours(journal.past.written)
            judging = self._judging(journal, whole)
            engine = Engine(
                self.settings,
                self.items,
                journal,
                results,
                whole,
                concurrency=self.concurrency,
                retries=self.retries,
                scoring=self.scoring,
                judging=judging,
                on_progress=on_progress or display.usual(),
                workers=workers,
            )
            await engine.take_up()
            async with AsyncExitStack() as stack:
                await self._make_ready(engine, judging, workers, stack)
                await engine.run()
        finally:
            journal.close()
            with contextlib.suppress(OSError):
                folder.rmdir()  # it is empty where nothing was begun
        rows = [row for row in engine.rows() if row.row is not None]
        scores = [row.score for row in rows if row.score is not None]
        return BatchResult(
            rows=rows,
            path=results.path,
            total=len(self.items),
            tokens=engine.whole.usage.total_tokens,
            cost=engine.whole.cost,
            stopped=engine.stopped,
            unsaved=results.fault,
            accuracy=None if self.scoring is None else Accuracy.of(scores),
            judge=None if judging is None else judging.bill(rows),
        )

    async def _make_ready(
        self, engine: Engine, judging: Judging | None, workers: Workers | None, stack: AsyncExitStack
    ) -> None:
        """See to it that the models that have to be asked are there, before an item is begun.

        Raises
        ------
        ConfigurationError
            One's own server is not there, or has no such model; or a worker can't do it.
        """
        try:
            if workers is None and engine.asks_model:
                await refuse_absent(self.settings)
            if judging is not None and engine.asks_judge:
                await judging.prepare()
                await stack.enter_async_context(judging.lease())
        except ModelError as error:
            raise ConfigurationError(str(error)) from None
        if workers is not None and engine.asks_model:
            await stack.enter_async_context(workers)

    def _judging(self, journal: BatchJournal, whole: Ledger) -> Judging | None:
        """Return what asks a judge; `None`: there is none."""
        if self.judge is None or self.scoring is None:
            return None
        return Judging(self.judge, self.scoring, journal, whole, retries=self.retries)

    def _workers(self, whole: Ledger) -> Workers | None:
        """Return the processes that do the work; `None`: this one."""
        if self.executor is None:
            return None
        from rlm_jupyter.batch.workers import Workers  # here: most batches have none

        return Workers(self.executor, self.settings, self.results.folder, whole, concurrency=self.concurrency)


def _whole(limits: tuple[float | None, int | None, float | None], at_once: int) -> Limits:
    """Return the limits of all runs together.

    Raises
    ------
    ConfigurationError
        One is no limit; says so by the name that it has for a batch.
    """
    given: dict[str, Any] = dict(zip(("max_cost", "max_tokens", "max_seconds"), limits, strict=True))
    for name, value in given.items():
        try:
            Limits(**{name: value})
        except ConfigurationError as error:
            said, _, why = str(error).partition("): ")
            shown = said.partition("=")[2]
            option = f"--batch-{name.replace('_', '-')}"
            raise ConfigurationError(f"batch_{name}={shown}: {why}", command=f"{option} {shown}: {why}") from None
    return Limits(**given, concurrency=at_once)
