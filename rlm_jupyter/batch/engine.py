"""`Engine`: works through the items of a batch, many at once, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlm_jupyter.batch import recovery
from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.journal import BatchJournal
from rlm_jupyter.batch.outcome import OnProgress, Progress
from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.scoring import Scoring
from rlm_jupyter.record import atomic
from rlm_jupyter.replay.resume import Resumption
from rlm_jupyter.run.alone import answer_alone
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.part_ledger import PartLedger
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.question import context_of
from rlm_jupyter.run.result import Result, result_of
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, LimitReached, ModelError, RLMError
from rlm_jupyter.types.events import Event, RunStarted
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage

OnRefused = Callable[[LimitReached], None]
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
    limits
        Of all runs together.
    concurrency
        How many runs go on at once, each with a kernel.
    retries
        Do those again that came to no answer.
    """

    def __init__(
        self,
        settings: Settings,
        items: list[Item],
        journal: BatchJournal,
        results: ResultsFile,
        limits: Limits,
        *,
        concurrency: int,
        retries: bool,
        scoring: Scoring | None,
        on_progress: OnProgress | None,
    ) -> None:
        self._settings, self._items, self._journal, self._results = settings, items, journal, results
        self._concurrency, self._retries, self._scoring = concurrency, retries, scoring
        self._limits, self._on_progress = limits, on_progress
        self.whole = Ledger(limits)
        """The account of all runs."""
        self.stopped = ""
        """Why no further items are begun."""
        self.progress = Progress(len(items))
        self._todo: deque[Item] = deque()
        self._failures = 0
        """Items in a row that the model has failed."""
        self._found: dict[str, recovery.Found] = {}
        self._starts = asyncio.Semaphore(os.cpu_count() or 1)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work through all items; what was begun and is cancelled can be resumed."""
        await self._take_up()
        writing = asyncio.create_task(self._keep_written())
        timeout = asyncio.timeout(self._limits.max_seconds)
        try:
            async with timeout:
                await self._work_on_all()
        except TimeoutError:
            if not timeout.expired():
                raise
            self.stopped = "the time of the batch is up"
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            self._write()
            atomic.remove_staging(self._results.folder / atomic.STAGING)

    def rows(self) -> list[ResultRow]:
        """Return the rows so far: of the items in their order, then those of items that were given earlier."""
        past = self._journal.past.rows
        mine = [(item, past[item.identity]) for item in self._items if item.identity in past]
        rows = [replace(row, key=item.key, row=item.number, score=self._score(item, row)) for item, row in mine]
        given, keys = {item.identity for item in self._items}, {item.key for item in self._items}
        others = (row for identity, row in past.items() if identity not in given and row.key not in keys)
        return [*rows, *(replace(row, row=None) for row in others)]

    def _score(self, item: Item, row: ResultRow) -> float | None:
        if self._scoring is None:
            return None
        return 0.0 if row.error is not None else self._scoring.score(row.answer, item.row)

    async def _take_up(self) -> None:
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
            elif item.identity in past.begun or row is None or (row.error is not None and self._retries):
                self._todo.append(item)
            else:
                self._count(row)
        self._tell()

    def _result_of(self, found: recovery.Found) -> Result:
        return result_of(found.saved.trajectory, found.path, answer_type=self._settings.answer)

    async def _work_on_all(self) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(min(self._concurrency, len(self._todo)))]
        try:
            await asyncio.gather(*workers)
        finally:
            self.stopped = self.stopped or ("it was stopped" if self._todo else "")
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while self._todo and not self.stopped:
            if (reached := self.whole.reached) is not None:
                self.stopped = f"the batch's max_{reached} is reached"
                return
            await self._settle_one(self._todo.popleft())

    async def _settle_one(self, item: Item) -> None:
        """Work on one item; without a row where a limit of the whole leaves no room for it."""
        task: asyncio.Task[ResultRow]
        refused = False

        def on_refused(refusal: LimitReached) -> None:
            nonlocal refused
            refused = True
            self.stopped = f"a limit of the batch is reached: {refusal}"
            task.cancel()

        task = asyncio.create_task(self._row(item, on_refused))
        self.progress.running += 1
        self._tell()
        try:
            row = await task
        except asyncio.CancelledError:
            if not refused or (current := asyncio.current_task()) is None or current.cancelling():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
        else:
            self._settle(item, row)
        finally:
            self.progress.running -= 1
            self._tell()

    async def _row(self, item: Item, on_refused: OnRefused) -> ResultRow:
        if item.error:
            return ResultRow(key=item.key, error=item.error)
        try:
            row = self._row_of(item, await self._answer(item, on_refused))
            self._failures = 0
            return row
        except RLMError as error:
            if isinstance(error, ModelError):
                self._count_failure(error)
            if error.result is None:
                return ResultRow(key=item.key, error=str(error))
            return replace(self._row_of(item, error.result), error=str(error))

    def _count_failure(self, error: ModelError) -> None:
        """Begin nothing more where each item fails: a key that has expired is no fault of ten thousand rows."""
        self._failures += 1
        if self._failures >= max(_MOST_FAILURES, 2 * self._concurrency) and not self.stopped:
            self.stopped = f"the model failed {self._failures} items in a row: {error}"

    async def _answer(self, item: Item, on_refused: OnRefused) -> Result:
        async with contextlib.AsyncExitStack() as stack:
            await self._starts.acquire()
            is_starting = True

            def started(event: Event | None = None) -> None:
                nonlocal is_starting
                if is_starting and (event is None or isinstance(event, RunStarted)):
                    is_starting = False
                    self._starts.release()

            stack.callback(started)
            ledger = PartLedger(self._settings.limits, self.whole, on_refused)  # its clock starts now
            if (going_on := await self._resumption(item, ledger)) is not None:
                self._journal.begin(item)
                return await going_on.answer(item.prompt, started, None)
            check_prompt(item.prompt)
            held = context_of(item.context)
            self._journal.begin(item)
            settings = replace(self._settings, save=self._results.folder / f"{item.name}.ipynb")
            return await answer_alone(settings, item.prompt, held, started, ledger=ledger)

    async def _resumption(self, item: Item, ledger: PartLedger) -> Resumption | None:
        """Return what resumes the run of an item, if there is one that can be resumed."""
        found, before = self._found.get(item.identity), self._journal.past.rows.get(item.identity)
        if found is None and before is not None:
            found = await asyncio.to_thread(recovery.find, self._results.folder, item.name)
        if found is None:
            return None
        try:
            return Resumption(found.saved, self._settings, ledger=ledger)
        except ConfigurationError:
            if before is None:
                raise
            return None  # it met a limit that has not been raised: the item is begun anew

    def _row_of(self, item: Item, result: Result) -> ResultRow:
        return ResultRow.of(item.key, result, self._results.path.parent)

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
