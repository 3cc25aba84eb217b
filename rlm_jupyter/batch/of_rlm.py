"""`InBatches`: the ways in which `RLM` asks one question about many items."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlm_jupyter.run import background, ctrl_c
from rlm_jupyter.run.settings import Settings

if TYPE_CHECKING:  # a run of one question loads nothing of a batch
    from concurrent.futures import Executor

    from rlm_jupyter.batch.outcome import BatchResult, OnProgress
    from rlm_jupyter.batch.scoring import Expected, Score

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
        executor: Executor | None = None,
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
            Dicts, or texts (their column is `text`); a pandas or polars frame; the path of a file of JSON lines, CSV,
            Parquet or Excel (its one filled sheet). The separator and the encoding of CSV are found as for `load`.
        prompt
            The question, with columns in braces: `"Is {name} about food?"`.
        out
            The file of results: `.jsonl`, `.csv` or `.parquet`, a row for each item that is done, whole at every
            moment. The notebooks of the runs are in the folder `OUT.batch` beside it.
        context
            What the question is about: a column, whatever it holds; a template; `@` before either: the path of a file
            or folder. Default: nothing but the question, which then names a column.
        key
            The column that names an item in the results. Default: a digest of what is asked.
        answer
            As for `RLM`; default: what that says.
        retry
            `failed`: do those again that came to no answer.
        concurrency
            How many runs go on at once, each with a kernel.
        executor
            Other processes that do the work, on this machine or others: a `concurrent.futures.Executor`, such as
            `ProcessPoolExecutor()`, `client.get_executor()` of Dask, `view.executor` of ipyparallel. They take models
            by name and keys from their own environment, and need a file system that all share. Default: this process.
        batch_max_cost, batch_max_tokens
            What all runs may use together, in US dollars and tokens, earlier calls included. A request that might
            overshoot is not sent: its run is stopped, and resumed by a call with more. The limits of `RLM` hold for
            each run.
        batch_max_seconds
            How long this call may take.
        expected
            The column with the right answer, or a function of the row that gives it: each answer is scored.
        score
            How: `exact` (but for letter case, spaces and full stops), `number`, `set`, a function
            `(answer, expected) -> float` from 0 to 1, or a model, `Judge("openai/gpt-5-mini")`.
        on_progress
            Told how far it is, on a thread of ours. Default: after `%load_ext rlm_jupyter` a table in the notebook.

        Raises
        ------
        ConfigurationError
            Something is wrong or missing; found before anything is started or spent.
        """
        from rlm_jupyter.batch.prepared_batch import PreparedBatch

        background.refuse_inside()
        prepared = PreparedBatch.of(self.settings, items, prompt, out, context, key, answer, retry, concurrency,
                                  (batch_max_cost, batch_max_tokens, batch_max_seconds), expected, score,
                                  executor)  # fmt: skip
        task: asyncio.Task[BatchResult] | None = None

        async def run() -> BatchResult:
            nonlocal task
            task = asyncio.current_task()
            return await prepared.run(on_progress)

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
        executor: Executor | None = None,
        batch_max_cost: float | None = None,
        batch_max_tokens: int | None = None,
        batch_max_seconds: float | None = None,
        expected: Expected | None = None,
        score: Score = "exact",
        on_progress: OnProgress | None = None,
    ) -> BatchResult:
        """Do what `batch` does, to be awaited; cancelling it ends the runs, to be resumed."""
        from rlm_jupyter.batch.prepared_batch import PreparedBatch

        prepared = PreparedBatch.of(self.settings, items, prompt, out, context, key, answer, retry, concurrency,
                                  (batch_max_cost, batch_max_tokens, batch_max_seconds), expected, score,
                                  executor)  # fmt: skip
        with ctrl_c.deferring_second_ctrl_c():
            return await prepared.run(on_progress)
