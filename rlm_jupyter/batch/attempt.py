"""`attempt`: the run of one item, begun, or resumed from its record, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.recovery import FoundRun
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.kernel.template_group import TemplateGroup
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.replay.resume import Resumption
from rlm_jupyter.run.alone import answer_alone
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.part_ledger import PartLedger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.files.blank import is_blank
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.question import context_of
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, KernelStartError, LimitReached, ModelError, RLMError
from rlm_jupyter.types.events import Event, RunStarted


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of working on one item."""

    row: ResultRow | None = None
    """`None`: no row, for one of the reasons below."""
    refusal: str = ""
    """A limit of the whole left no room for a request: the run is stopped as it stands, to be resumed."""
    failure: str = ""
    """Why, where the fault is hardly the item's own: what the model's provider said, or why no kernel started."""
    unusable: str = ""
    """Why nothing can be worked on where this was tried."""
    tokens: int = 0
    """Used by an attempt elsewhere; here the whole's account has it."""
    cost: float | None = 0.0
    """US dollars, likewise."""


async def attempt(
    settings: Settings,
    item: Item,
    folder: Path,
    whole: Ledger,
    *,
    found: FoundRun | None = None,
    retries: bool = False,
    starts: asyncio.Semaphore,
    group: TemplateGroup,
    on_begin: Callable[[], None] = lambda: None,
    on_refused: Callable[[LimitReached], None] = lambda refusal: None,
) -> Attempt:
    """Work on one item until it has a row, or a limit of the whole leaves no room for it.

    Parameters
    ----------
    settings
        Of its run.
    folder
        Of the batch.
    whole
        The account of all runs.
    found
        Its record so far.
    retries
        It has a row already: where its record can't be resumed, it is begun anew.
    starts
        Held until its kernel is there: many that start at once take longer than one after the other.
    group
        Has the templates that its kernels are forked from, where these are inside sandboxes.
    on_begin
        Called before anything of it is spent.
    on_refused
        Called as soon as a limit of the whole leaves no room.
    """
    task: asyncio.Task[Attempt]
    refused: list[LimitReached] = []

    def refuse(refusal: LimitReached) -> None:
        refused.append(refusal)
        on_refused(refusal)
        task.cancel()

    async def answered() -> Result:
        async with contextlib.AsyncExitStack() as stack:
            started = await _turn(starts, stack)
            ledger = PartLedger(settings.limits, whole, refuse)  # its clock starts now
            return await _answer(settings, item, folder, ledger, found, retries, on_begin, started, group)

    task = asyncio.create_task(_attempt(item, folder, settings.answer, answered))
    try:
        return await task
    except asyncio.CancelledError:
        if not refused or (current := asyncio.current_task()) is None or current.cancelling():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        return Attempt(refusal=str(refused[0]))


async def _turn(starts: asyncio.Semaphore, stack: contextlib.AsyncExitStack) -> OnEvent:
    """Wait for a turn, which ends with the stack, or as soon as what is returned is told that the run has started."""
    await starts.acquire()
    is_starting = True

    def started(event: Event | None = None) -> None:
        nonlocal is_starting
        if is_starting and (event is None or isinstance(event, RunStarted)):
            is_starting = False
            starts.release()

    stack.callback(started)
    return started


async def _attempt(
    item: Item, folder: Path, answer_type: AnswerType | None, answer: Callable[[], Awaitable[Result]]
) -> Attempt:
    """Return what comes of its run, whatever that is."""
    if item.error:
        return Attempt(ResultRow(key=item.key, error=item.error))
    try:
        return Attempt(ResultRow.of(item.key, await answer(), folder.parent, answer_type))
    except RLMError as error:
        if isinstance(error, ModelError) and error.refuses_key:
            return Attempt(unusable=str(error))  # as every other item's would be
        row = ResultRow(key=item.key)
        if error.result is not None:
            row = ResultRow.of(item.key, error.result, folder.parent, None)
        failure = str(error) if isinstance(error, ModelError | KernelStartError) else ""
        return Attempt(replace(row, error=str(error)), failure=failure)


async def _answer(
    settings: Settings,
    item: Item,
    folder: Path,
    ledger: Ledger,
    found: FoundRun | None,
    retries: bool,
    on_begin: Callable[[], None],
    on_event: OnEvent,
    group: TemplateGroup,
) -> Result:
    """Resume its run, or begin one."""
    if found is not None and found.has_context:
        try:
            going_on = Resumption(found.saved, settings, reexecutes_stopped=True, ledger=ledger)
        except ConfigurationError:
            if not retries:
                raise
            # it met a limit that has not been raised: the item is begun anew
        else:
            on_begin()
            return await going_on.answer(item.prompt, on_event, None)
    check_prompt(item.prompt)
    held = _held(item.context)
    on_begin()
    settings = replace(settings, save=folder / f"{item.name}.ipynb")
    templates = Templates(settings.preload, are_used=settings.forks_kernels, group=group)
    try:
        return await answer_alone(settings, item.prompt, held, on_event, ledger=ledger, templates=templates)
    finally:
        await run_to_completion(templates.close)


def _held(context: object) -> Context:
    """Return a row's context, ready for a kernel: a text as it is, also where a file happens to have that name."""
    return Context(context) if isinstance(context, str) and not is_blank(context) else context_of(context)
