"""`InBatches`: the ways in which `RLM` asks one question about many items."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rlm_jupyter.batch import display
from rlm_jupyter.batch.engine import Engine
from rlm_jupyter.batch.items import Item, Question
from rlm_jupyter.batch.journal import BatchJournal
from rlm_jupyter.batch.outcome import BatchResult, OnProgress
from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.rows import read_rows
from rlm_jupyter.batch.scoring import Accuracy, Expected, Score, Scoring
from rlm_jupyter.record import atomic
from rlm_jupyter.run import background, ctrl_c
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.approval import check_attended
from rlm_jupyter.run.arguments import check_models
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

CONCURRENCY = 16
"""Runs at once, where nothing else is said: each has a kernel, of some 20 MB on Linux."""


class InBatches(ABC):
    """What asks a question about many items."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The configuration, resolved."""

    def batch(
        self,
        items: Iterable[Mapping[str, Any] | str] | str | Path,
        *,
        prompt: str,
        out: str | Path,
        context: str | None = None,
        key: str | None = None,
        answer: object = None,
        retry: Literal["failed"] | None = None,
        concurrency: int = CONCURRENCY,
        batch_max_cost: float | None = None,
        batch_max_tokens: int | None = None,
        batch_max_seconds: float | None = None,
        expected: Expected | None = None,
        score: Score = "exact",
        on_progress: OnProgress | None = None,
    ) -> BatchResult:
        """Ask one question about each of many items; works in a script and in a running notebook.

        The same call again does only what is missing. What was paid for is not paid for again: a run that had ended is
        taken from its record, one that was broken off is resumed. Ctrl-C ends the runs, to be resumed.

        Parameters
        ----------
        items
            Dicts, or texts (their column is `text`); a pandas or polars frame; the path of a file of JSON lines, CSV
            or Parquet.
        prompt
            The question, with columns in braces: `"Is {name} about food?"`.
        out
            The file of results: `.jsonl`, `.csv` or `.parquet`, a row for each item that is done, whole at every
            moment. The notebooks of the runs are in the folder `OUT.batch` beside it.
        context
            What the question is about: a column, whatever it holds; a template; `@` before either: the path of a file
            or folder. Default: nothing but the question.
        key
            The column that names an item in the results. Default: a digest of what is asked.
        answer
            As for `RLM`; default: what that says.
        retry
            `failed`: do those again that came to no answer.
        concurrency
            How many runs go on at once, each with a kernel.
        batch_max_cost, batch_max_tokens
            What all runs may use together, in US dollars and tokens, earlier calls included. A request that might
            overshoot is not sent: its run is stopped, and resumed by a call with more. The limits of `RLM` hold for
            each run.
        batch_max_seconds
            How long this call may take.
        expected
            The column with the right answer, or a function of the row that gives it: each answer is scored.
        score
            How: `exact` (but for letter case, spaces and full stops), `number`, `set`, or a function
            `(answer, expected) -> float` from 0 to 1.
        on_progress
            Told how far it is, on a thread of ours. Default: after `%load_ext rlm_jupyter` a table in the notebook.

        Raises
        ------
        ConfigurationError
            Something is wrong or missing; found before anything is started or spent.
        """
        background.refuse_inside()
        prepared = self._prepared(items, prompt, out, context, key, answer, retry, concurrency,
                                  (batch_max_cost, batch_max_tokens, batch_max_seconds), expected, score)  # fmt: skip
        task: asyncio.Task[BatchResult] | None = None

        async def run() -> BatchResult:
            nonlocal task
            task = asyncio.current_task()
            return await _run(prepared, on_progress)

        future = background.submit(run())
        with ctrl_c.Wait(future) as wait:
            try:
                wait.until_done()
            except KeyboardInterrupt:
                background.loop().call_soon_threadsafe(lambda: task.cancel() if task else None)
                wait.until_done()
                raise
            return future.result()

    async def abatch(
        self,
        items: Iterable[Mapping[str, Any] | str] | str | Path,
        *,
        prompt: str,
        out: str | Path,
        context: str | None = None,
        key: str | None = None,
        answer: object = None,
        retry: Literal["failed"] | None = None,
        concurrency: int = CONCURRENCY,
        batch_max_cost: float | None = None,
        batch_max_tokens: int | None = None,
        batch_max_seconds: float | None = None,
        expected: Expected | None = None,
        score: Score = "exact",
        on_progress: OnProgress | None = None,
    ) -> BatchResult:
        """Do what `batch` does, to be awaited; cancelling it ends the runs, to be resumed."""
        prepared = self._prepared(items, prompt, out, context, key, answer, retry, concurrency,
                                  (batch_max_cost, batch_max_tokens, batch_max_seconds), expected, score)  # fmt: skip
        with ctrl_c.in_order():
            return await _run(prepared, on_progress)

    def _prepared(
        self,
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
    ) -> _Prepared:
        """Check all that can be checked before anything is made."""
        settings = self.settings
        if answer is not None:
            settings = replace(settings, answer=AnswerType.of(answer))
        if settings.outputs is not None:
            raise ConfigurationError("The runs of a batch make no files: leave outputs out.")
        if retry not in {None, "failed"}:
            raise ConfigurationError(f"retry is 'failed' or nothing, not {quoted(retry)}.")
        if concurrency < 1:
            raise ConfigurationError(f"concurrency is a whole number from 1 on, not {quoted(concurrency)}.")
        cost, tokens, seconds = limits
        at_once = max(settings.limits.concurrency, concurrency)
        whole = Limits(max_cost=cost, max_tokens=tokens, max_seconds=seconds, concurrency=at_once)
        check_models(settings.routing, whole, settings.samples)
        check_attended(settings, None)
        question, scoring = Question(prompt, context, key), None if expected is None else Scoring(expected, score)
        results = ResultsFile(out, settings.answer)
        prepared = question.items(read_rows(items), [] if scoring is None else scoring.columns)
        digest = question.digest(settings)
        return _Prepared(settings, prepared, results, whole, digest, prompt, concurrency, retry == "failed", scoring)


@dataclass(frozen=True)
class _Prepared:
    """A batch that may begin."""

    settings: Settings
    items: list[Item]
    results: ResultsFile
    limits: Limits
    digest: str
    prompt: str
    concurrency: int
    retries: bool
    scoring: Scoring | None


async def _run(batch: _Prepared, on_progress: OnProgress | None) -> BatchResult:
    results, folder = batch.results, batch.results.folder
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder} can't be made: {error.strerror}.") from None
    atomic.sweep_once(folder.parent)
    journal = BatchJournal.open(folder, batch.digest, batch.prompt[:200])
    try:
        results.check_ours(journal.past.written)
        engine = Engine(
            batch.settings,
            batch.items,
            journal,
            results,
            batch.limits,
            concurrency=batch.concurrency,
            retries=batch.retries,
            scoring=batch.scoring,
            on_progress=on_progress or display.usual(),
        )
        await engine.run()
    finally:
        journal.close()
    rows = [row for row in engine.rows() if row.row is not None]
    scores = [row.score for row in rows if row.score is not None]
    return BatchResult(
        rows=rows,
        path=results.path,
        total=len(batch.items),
        tokens=engine.whole.usage.total_tokens,
        cost=engine.whole.cost,
        stopped=engine.stopped,
        unsaved=results.fault,
        accuracy=None if batch.scoring is None else Accuracy.of(scores),
    )
