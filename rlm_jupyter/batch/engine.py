"""`Engine`: works through the items of a batch, many at once, in one process."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.batch import recovery
from rlm_jupyter.batch.attempt import Attempt, attempt
from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.journal import BatchJournal
from rlm_jupyter.batch.judging import Judging
from rlm_jupyter.batch.outcome import BatchProgress, OnProgress
from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.scoring import Scoring
from rlm_jupyter.kernel.template_group import TemplateGroup
from rlm_jupyter.record import atomic
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.result import Result, result_of
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.values import Usage

if TYPE_CHECKING:
    from rlm_jupyter.batch.workers import Workers

_MOST_FAILURES = 10
_REST_SECONDS = 1.0
"""Between two writes of the results, at least."""
_SHARE_OF_WRITING = 10
"""And so many times as long as the last one took."""


class Engine:
    """One batch under way.

    Parameters
    ----------
    settings
        Of each run.
    items
        In their order.
    journal, results
        Open, and checked to be this batch's.
    whole
        The account of all runs.
    concurrency
        How many runs go on at once, each with a kernel.
    retries
        Do those again that came to no answer.
    judging
        Asks the judge that gives the scores. Default: there is none.
    workers
        Other processes, where the items are worked on. Default: here.
    """

    def __init__(
        self,
        settings: Settings,
        items: list[Item],
        journal: BatchJournal,
        results: ResultsFile,
        whole: Ledger,
        *,
        concurrency: int,
        retries: bool,
        scoring: Scoring | None,
        judging: Judging | None = None,
        on_progress: OnProgress | None,
        workers: Workers | None = None,
    ) -> None:
        self._settings, self._items, self._journal, self._results = settings, items, journal, results
        self._concurrency, self._retries, self._scoring = concurrency, retries, scoring
        self.whole, self._on_progress, self._workers = whole, on_progress, workers
        self.stopped = ""
        """Why no further items are begun."""
        self.progress = BatchProgress(len(items))
        self._todo: deque[Item] = deque()
        self._unjudged: deque[Item] = deque()
        """Items that have a row, and no verdict on it yet."""
        self._judging = judging
        self._failures = self._judge_failures = 0
        """Items in a row that the model or the kernel, or the judge, has failed."""
        self._found: dict[str, recovery.FoundRun] = {}
        self._starts = asyncio.Semaphore(os.cpu_count() or 1)
        self._group = TemplateGroup()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work through all items that `take_up` has found; what was begun and is cancelled can be resumed."""
        self._tell()
        writing = asyncio.create_task(self._keep_written())
        timeout = asyncio.timeout(self.whole.limits.max_seconds)
        try:
            async with timeout:
                await self._work_on_all()
        except TimeoutError:
            if not timeout.expired():
                raise
            self.stopped = "the time of the batch is up"
        finally:
            writing.cancel()
            self._group.close()
            await asyncio.gather(writing, return_exceptions=True)
            self._write()
            atomic.remove_staging(self._results.folder / atomic.STAGING)

    def rows(self) -> list[ResultRow]:
        """Return the rows so far: of the items in their order, then those of items that were given earlier."""
        past = self._journal.past.rows
        mine = [(item, past[item.identity]) for item in self._items if item.identity in past]
        rows = [replace(self._scored(item, row), key=item.key, row=item.number) for item, row in mine]
        given, keys = {item.identity for item in self._items}, {item.key for item in self._items}
        others = (row for identity, row in past.items() if identity not in given and row.key not in keys)
        return [*rows, *(replace(row, row=None) for row in others)]

    def _scored(self, item: Item, row: ResultRow) -> ResultRow:
        if self._scoring is None:
            return row
        row = replace(row, scored_by=self._scoring.measure)
        if self._judging is not None:
            return self._judging.scored(item, row)
        return replace(row, score=0.0 if row.error is not None else self._scoring.score(row.answer, item.row))

    @property
    def asks_model(self) -> bool:
        """Whether the model has to be asked about an item."""
        return any(not item.error for item in self._todo)

    @property
    def asks_judge(self) -> bool:
        """Whether the judge has to be asked about an answer, or will be about one that is still to come."""
        return self._judging is not None and (self.asks_model or bool(self._unjudged))

    async def take_up(self) -> None:
        """Find out what there is to do, and what has been spent."""
        past = self._journal.past
        spent = dict(past.spent)
        for identity, name in list(past.begun.items()):
            found = await asyncio.to_thread(recovery.find, self._results.folder, name)
            if found is not None:
                self._found[identity] = found
                spent[self._relative(found.path)] = found.tokens, found.cost
        for tokens, cost in spent.values():
            self.whole.carry_on(Usage(input_tokens=tokens), cost, 0, 0.0)
        for item in self._items:
            row, found = past.rows.get(item.identity), self._found.get(item.identity)
            if item.identity in past.begun and found is not None and found.has_ended:
                self._settle(item, self._row_of(item, self._result_of(found)))
                self._look_at(item)
            elif item.identity in past.begun or row is None or (row.error is not None and self._retries):
                self._todo.append(item)
            else:
                self._count(row)
                self._look_at(item)

    def _look_at(self, item: Item) -> None:
        """Have an item that has a row judged, where that is still to be done."""
        if self._judging is not None and self._judging.lacks(item, self._journal.past.rows[item.identity]):
            self._unjudged.append(item)

    def _result_of(self, found: recovery.FoundRun) -> Result:
        return result_of(found.saved.trajectory, found.path, answer_type=self._settings.answer)

    async def _work_on_all(self) -> None:
        todo = len(self._todo) + len(self._unjudged)
        workers = [asyncio.create_task(self._work()) for _ in range(min(self._concurrency, todo))]
        try:
            await asyncio.gather(*workers)
        finally:
            self.stopped = self.stopped or ("it was stopped" if self._todo or self._unjudged else "")
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while (self._todo or self._unjudged) and not self.stopped:
            if (reached := self.whole.reached) is not None:
                self.stopped = f"the batch's max_{reached} is reached"
                return
            if self._unjudged:
                await self._judge(self._unjudged.popleft())
            else:
                await self._settle_one(self._todo.popleft())

    async def _settle_one(self, item: Item) -> None:
        """Work on one item; without a row where a limit of the whole leaves no room for it."""
        self.progress.running += 1
        self._tell()
        try:
            self._take(item, await self._attempt(item))
        finally:
            self.progress.running -= 1
            self._tell()
        if item.identity in self._journal.past.rows:
            self._look_at(item)

    async def _judge(self, item: Item) -> None:
        """Have the answer of an item judged; without a verdict where a limit of the whole leaves no room for it."""
        assert self._judging is not None  # only then there is anything unjudged
        self.progress.running += 1
        self._tell()
        try:
            verdict = await self._judging.judge(item, self._journal.past.rows[item.identity])
        except LimitReached as refusal:
            self._refuse(str(refusal))
            return
        finally:
            self.progress.running -= 1
            self._tell()
        self._judge_failures = 0 if verdict.score is not None else self._judge_failures + 1
        if self._judge_failures >= max(_MOST_FAILURES, 2 * self._concurrency) and not self.stopped:
            self.stopped = f"the judge failed {self._judge_failures} answers in a row: {verdict.reason}"
        self._changed.set()

    def _take(self, item: Item, attempt: Attempt) -> None:
        """Write down what came of an item, and whether to go on after it."""
        if attempt.refusal:
            self._refuse(attempt.refusal)
        elif attempt.unusable:
            self.stopped = self.stopped or attempt.unusable
        elif attempt.row is not None:
            self._settle(item, attempt.row)
            if attempt.failure:
                self._failures += 1
            elif attempt.row.stop_reason != "failed":
                self._failures = 0
        # a key that has expired, or a machine on which no kernel starts, is no fault of ten thousand rows
        if self._failures >= max(_MOST_FAILURES, 2 * self._concurrency) and not self.stopped:
            self.stopped = f"{self._failures} items in a row failed: {attempt.failure}"

    async def _attempt(self, item: Item) -> Attempt:
        found, is_retried = self._found.get(item.identity), item.identity in self._journal.past.rows
        if found is None and is_retried:
            found = await asyncio.to_thread(recovery.find, self._results.folder, item.name)

        def begin() -> None:
            self._journal.begin(item)

        if self._workers is not None and not item.error:
            begin()
            return await self._workers.attempt(item, found, retries=is_retried)
        return await attempt(
            self._settings,
            item,
            self._results.folder,
            self.whole,
            found=found,
            retries=is_retried,
            starts=self._starts,
            group=self._group,
            on_begin=begin,
            on_refused=lambda refusal: self._refuse(str(refusal)),
        )

    def _refuse(self, refusal: str) -> None:
        self.stopped = self.stopped or f"a limit of the batch is reached: {refusal}"

    def _row_of(self, item: Item, result: Result) -> ResultRow:
        return ResultRow.of(item.key, result, self._results.path.parent, self._settings.answer)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._results.path.parent).as_posix()

    def _settle(self, item: Item, row: ResultRow) -> None:
        self._journal.settle(item, row)
        self._count(row)
        self.progress.last = row
        self._changed.set()

    def _count(self, row: ResultRow) -> None:
        self.progress.done += 1
        self.progress.failed += row.error is not None

    def _tell(self) -> None:
        self.progress.tokens, self.progress.cost = self.whole.usage.total_tokens, self.whole.cost
        if self._on_progress is not None:
            self._on_progress(self.progress)

    async def _keep_written(self) -> None:
        """Write the results whenever there are more, but not all the time."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = time.monotonic()
            self._write()
            await asyncio.sleep(max(_REST_SECONDS, _SHARE_OF_WRITING * (time.monotonic() - began)))

    def _write(self) -> None:
        self._results.write(self.rows(), self._journal.write)
