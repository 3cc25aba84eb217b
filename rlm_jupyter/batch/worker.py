"""`work`: an item of a batch, worked on in another process than the batch's own.

Called by whatever `concurrent.futures.Executor` the batch was given. It takes what to do by pickle, models by name and
keys from the environment of its own process, and writes the run's record into the folder of the batch, which it must
see.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import pickle
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from rlm_jupyter.batch import heartbeat, parent, recovery
from rlm_jupyter.batch.attempt import Attempt, attempt
from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.shared_refusals import SharedRefusals
from rlm_jupyter.kernel.template_group import TemplateGroup
from rlm_jupyter.run import background
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.run.result import result_of
from rlm_jupyter.run.settings import Settings, refuse_absent
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage

_END_SECONDS = 10.0
_MOST_REQUESTS = 64
"""In flight from one process; a provider that refuses some lowers it."""
_OPEN_SECONDS = 60.0
"""How long the process that was at work on an item before may take to let go of its record."""


@dataclass(frozen=True, slots=True)
class SpentBefore:
    """What a run's record held as its item was handed out: what is beyond, an attempt since has left."""

    path: str = ""
    """Of its notebook; empty: there was no record."""
    tokens: int = 0
    cost: float | None = 0.0
    records: int = 0

    @classmethod
    def of(cls, found: recovery.FoundRun | None) -> SpentBefore:
        """Return it of a record."""
        if found is None:
            return cls()
        return cls(str(found.path), found.tokens, found.cost, len(found.saved.records))

    def since(self, found: recovery.FoundRun | None) -> tuple[int, float | None]:
        """Return the tokens and US dollars that a later look at the record shows beside this."""
        if found is None:
            return 0, 0.0
        if str(found.path) != self.path:  # begun anew
            return found.tokens, found.cost
        cost = None if found.cost is None or self.cost is None else found.cost - self.cost
        return found.tokens - self.tokens, cost


@dataclass(frozen=True, slots=True)
class Task:
    """An item, and what is needed to work on it."""

    version: str
    """Of the package that hands it out."""
    settings: bytes
    """Pickled."""
    folder: str
    """Of the batch."""
    item: Item | None = None
    """`None`: only look whether it could be worked on."""
    share: Limits = field(default_factory=Limits)
    """What it may use of the whole."""
    spent: SpentBefore = field(default_factory=SpentBefore)
    retries: bool = False
    """It has a row already."""


def installed() -> str:
    """Return the version of this package."""
    return version("rlm_jupyter")


def work(task: Task) -> Attempt:
    """Work on an item; return what came of it.

    Raises
    ------
    KeyboardInterrupt
        Its process was interrupted; the run can be resumed.
    """
    if task.version != installed():
        what = f"{task.version} hands it out, {installed()} is installed where it is worked on"
        return Attempt(unusable=f"rlm_jupyter {what}: install one version everywhere")
    folder = Path(task.folder)
    if not heartbeat.is_seen(folder):
        return Attempt(unusable=f"{folder} is not to be seen there: workers need a file system that all share")
    try:
        settings = _settings(task.settings)
    except ConfigurationError as error:  # no key
        return Attempt(unusable=str(error))
    except Exception as error:  # noqa: BLE001  code of the user's is imported, which may not be there
        return Attempt(unusable=f"what it is to do can't be read there ({type(error).__name__}: {error})")
    if task.item is None:
        return Attempt(unusable=_absent(settings))
    doing = background.submit(_until_silent(settings, task, task.item, folder))
    _under_way.add(doing)
    parent.end_with_it(_is_busy)
    try:
        return doing.result()
    except BaseException:
        doing.cancel()
        concurrent.futures.wait([doing], _END_SECONDS)
        raise
    finally:
        _under_way.discard(doing)


_under_way: set[concurrent.futures.Future[Attempt]] = set()
"""What the threads of this process are at work on."""


def _is_busy() -> bool:
    return bool(_under_way)


def _absent(settings: Settings) -> str:
    """Return why the model can't be asked from here; empty: it can, or its server is busy, or loads it."""
    try:
        background.submit(refuse_absent(settings)).result()
    except ModelError as error:
        return str(error).rstrip(".")
    return ""


@lru_cache(maxsize=8)
def _settings(pickled: bytes) -> Settings:
    """Return the configuration; one for all items, so that they share connections and what is learned of a server."""
    settings: Settings = pickle.loads(pickled)
    return settings


class _Share(Ledger):
    """The account of what an item may use of the whole; how fast a provider is asked is a matter of its process.

    Parameters
    ----------
    limits
        The share.
    refusals
        Has the rate limiters.
    """

    def __init__(self, limits: Limits, refusals: SharedRefusals) -> None:
        super().__init__(limits)
        self._refusals = refusals

    def rate_limiter(self, provider: str, slots: int | None = None) -> RateLimiter:
        """Return how fast a provider is asked, by all items of this process together."""
        return self._refusals.rate_limiter(provider, slots)


@lru_cache(maxsize=1)
def _rates(loop: asyncio.AbstractEventLoop) -> Ledger:
    return Ledger(Limits(concurrency=_MOST_REQUESTS))


@lru_cache(maxsize=8)
def _refusals(loop: asyncio.AbstractEventLoop, folder: Path) -> SharedRefusals:
    return SharedRefusals(folder, _rates(loop))


@lru_cache(maxsize=1)
def _group(loop: asyncio.AbstractEventLoop) -> TemplateGroup:
    return TemplateGroup()


@lru_cache(maxsize=1)
def _starts(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    return asyncio.Semaphore(os.cpu_count() or 1)


async def _until_silent(settings: Settings, task: Task, item: Item, folder: Path) -> Attempt:
    """Work on it as long as somebody waits for it."""
    doing = asyncio.create_task(_work(settings, task, item, folder))
    silence = asyncio.create_task(heartbeat.until_silent(folder))
    try:
        with _refusals(asyncio.get_running_loop(), folder).followed():
            await asyncio.wait([doing, silence], return_when="FIRST_COMPLETED")
        return doing.result() if doing.done() else Attempt(unusable="the batch has ended")
    finally:
        doing.cancel()
        silence.cancel()
        await asyncio.gather(doing, silence, return_exceptions=True)


async def _work(settings: Settings, task: Task, item: Item, folder: Path) -> Attempt:
    found = await _closed(folder, item.name)
    tokens, cost = task.spent.since(found)
    loop = asyncio.get_running_loop()
    whole = _Share(replace(task.share, concurrency=settings.limits.concurrency), _refusals(loop, folder))
    whole.carry_on(Usage(input_tokens=tokens), cost, 0, 0.0)
    is_newer = found is not None and SpentBefore.of(found) != task.spent
    if found is not None and found.has_ended and (is_newer or not task.retries):
        # an attempt before has ended it, and nobody has heard of that
        result = result_of(found.saved.trajectory, found.path, answer_type=settings.answer)
        return Attempt(ResultRow.of(item.key, result, folder.parent, settings.answer), tokens=tokens, cost=cost)
    done = await attempt(
        settings,
        item,
        folder,
        whole,
        found=found,
        retries=task.retries,
        starts=_starts(loop),
        group=_group(loop),
    )
    return replace(done, tokens=whole.usage.total_tokens, cost=whole.cost)


async def _closed(folder: Path, name: str) -> recovery.FoundRun | None:
    """Return the record of an item, once no other process is at work on it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_OPEN_SECONDS):
            while True:
                found = await asyncio.to_thread(recovery.find, folder, name)
                if found is None or not found.saved.is_open:
                    return found
                await asyncio.sleep(1)
    return found
