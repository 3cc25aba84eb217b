"""`Workers`: other processes in which the items of a batch are worked on, behind a `concurrent.futures.Executor`.

Nothing of a scheduler is here: which process takes which item, and on which machine, is the executor's affair.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import pickle
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.batch import heartbeat, recovery, shared_refusals
from rlm_jupyter.batch.attempt import Attempt
from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.recovery import FoundRun
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.worker import SpentBefore, Task, installed, work
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.detached import detached_or_here
from rlm_jupyter.types.errors import ConfigurationError, LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.values import Usage

_MOST_LOSSES = 3
"""Workers that may end over one item: then it is the item's doing."""
_END_SECONDS = 15.0
"""How long workers may take to put their runs away when the batch ends before them."""
_REASON_CHARS = 300
_LEAST_COST = 1e-9
"""US dollars: a share of nothing would be no limit."""


class Workers:
    """The workers of one batch; used with `async with`.

    Parameters
    ----------
    executor
        Anything that takes `submit(function, argument)` and returns a `concurrent.futures.Future`.
    settings
        Of each run.
    folder
        Of the batch; workers must see it.
    whole
        The account of all runs: each worker is given a share of what is left, and what it has not used comes back.
    concurrency
        How many items are handed out at once.

    Raises
    ------
    ConfigurationError
        It is no executor, or the settings can't be handed to another process.
    """

    def __init__(
        self, executor: Executor, settings: Settings, folder: Path, whole: Ledger, *, concurrency: int
    ) -> None:
        if not callable(getattr(executor, "submit", None)):
            raise ConfigurationError(
                f"executor is a concurrent.futures.Executor, as client.get_executor() of Dask gives, not "
                f"{quoted(executor)}."
            )
        self._executor, self._folder, self._whole, self._concurrency = executor, folder, whole, concurrency
        self._ready = Task(installed(), _pickled(settings), str(folder.absolute()))
        self._futures: set[concurrent.futures.Future[Attempt]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Ask a worker whether it can do it, before anything is spent.

        Raises
        ------
        ConfigurationError
            It can't; says why.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(shared_refusals.shared(self._folder))
            await stack.enter_async_context(heartbeat.beating(self._folder))
            try:
                unusable = (await self._send(self._ready)).unusable
            except Exception as error:  # noqa: BLE001  of any kind of executor
                unusable = _reason(error)
            if unusable:
                raise ConfigurationError(f"A worker can't do this batch: {unusable}.")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Have what still runs put away, to be resumed."""
        await self._stack.aclose()
        await detached_or_here(lambda: concurrent.futures.wait(list(self._futures), _END_SECONDS), "rlm_jupyter batch")

    async def attempt(self, item: Item, found: FoundRun | None, *, retries: bool) -> Attempt:
        """Have an item worked on; parameters and what is returned are those of `attempt`."""
        share, losses = self._first_share(), 0
        while True:
            task = replace(self._ready, item=_bare(item), share=share, spent=SpentBefore.of(found), retries=retries)
            try:
                async with self._whole.set_aside(share.max_tokens or 0, share.max_cost or 0.0) as bill:
                    done = await self._done(task, item.name)
                    bill.add(Usage(input_tokens=done.tokens), done.cost)
            except LimitReached as refusal:
                return Attempt(refusal=str(refusal))
            if done.failure and done.row is None:  # its worker is lost
                losses += 1
                if losses == _MOST_LOSSES:
                    return Attempt(ResultRow(key=item.key, error=f"{losses} workers ended over it: {done.failure}"))
            elif not done.refusal or (larger := self._larger(share)) is None:
                return done
            else:
                share = larger
            found = await asyncio.to_thread(recovery.find, self._folder, item.name)

    async def _done(self, task: Task, name: str) -> Attempt:
        """Return what came of a task; of one whose worker is lost, `failure` and what its record has cost."""
        try:
            return await self._send(task)
        except Exception as error:  # noqa: BLE001  of any kind of executor
            tokens, cost = task.spent.since(await asyncio.to_thread(recovery.find, self._folder, name))
            if isinstance(error, BrokenExecutor):
                return Attempt(unusable=f"the workers have ended ({_reason(error)})", tokens=tokens, cost=cost)
            return Attempt(failure=_reason(error), tokens=tokens, cost=cost)

    async def _send(self, task: Task) -> Attempt:
        future: concurrent.futures.Future[Attempt] = self._executor.submit(work, task)
        self._futures.add(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if future.done():
                self._futures.discard(future)

    def _first_share(self) -> Limits:
        """Return the part of what is left that each has where all that are handed out at once have the same."""
        tokens, money = self._whole.tokens_left(), self._whole.money_left()
        return Limits(
            max_tokens=None if tokens is None else max(tokens // self._concurrency, 1),
            max_cost=None if money is None else max(money / self._concurrency, _LEAST_COST),
        )

    def _larger(self, share: Limits) -> Limits | None:
        """Return twice as much, as far as there is that much; `None` where all there is was not enough."""
        tokens, money = self._whole.tokens_left(), self._whole.money_left()
        more_tokens = share.max_tokens and max(min(2 * share.max_tokens, tokens or 0), share.max_tokens)
        more_money = share.max_cost and max(min(2 * share.max_cost, money or 0.0), share.max_cost)
        larger = Limits(max_tokens=more_tokens, max_cost=more_money)
        return None if larger == share else larger


def _bare(item: Item) -> Item:
    """Return an item without its row, of which question and context are made already, and with a path from the root."""
    context = item.context
    return replace(item, row={}, context=context.absolute() if isinstance(context, Path) else context)


def _pickled(settings: Settings) -> bytes:
    """Return a configuration for another process: with cloudpickle also functions and types of a notebook."""
    dumps: Any = pickle.dumps
    with contextlib.suppress(ImportError):
        dumps = import_module("cloudpickle").dumps
    try:
        return bytes(dumps(settings))
    except Exception as error:  # noqa: BLE001  what the user has given may refuse in any way
        raise ConfigurationError(
            f"The configuration can't be handed to workers: {_reason(error)}. They take models by name, keys from "
            "their own environment, and functions and types of modules that they can import."
        ) from None


def _reason(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return shortened(f"{type(error).__name__}: {said}" if said else type(error).__name__, _REASON_CHARS).rstrip(".")
