"""A run's kernel is opened: no longer than the run has, and only until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.lifecycle import never_begun, run_started
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.recorded_options import RecordedOptions
from rlm_jupyter.types.values import PackedContext


async def open_in_time(
    stack: AsyncExitStack,
    settings: Settings,
    context: Context | PackedContext,
    ledger: Ledger,
    control: Control,
    emit: Callable[[Event], None] | None,
    *,
    bring_back: Callable[[Session], Awaitable[None]] | None = None,
    templates: Templates | None = None,
    is_kept: bool = False,
) -> Session | None:
    """Open a session, to be closed by `stack`; `None`: the run was stopped, or its time was up, before it was there.

    Parameters
    ----------
    bring_back
        Re-executes the earlier runs of this kernel; that takes nothing from the time of the new one.
    templates, is_kept
        As for `open_session`.

    Raises
    ------
    ModelError, ContextError, KernelStartError
        As of `open_session`.
    """

    async def opened() -> Session:
        session = await stack.enter_async_context(
            open_session(settings, context, emit=emit, templates=templates, is_kept=is_kept)
        )
        if bring_back is not None:
            with ledger.deadline.held():
                await bring_back(session)
        return session

    opening = asyncio.create_task(opened())
    waiting: list[asyncio.Task[Any]] = [
        asyncio.create_task(control.stopping.wait()),
        asyncio.create_task(ledger.deadline.expired()),
    ]
    try:
        await asyncio.wait([opening, *waiting], return_when="FIRST_COMPLETED")
    finally:
        for task in (opening, *waiting):
            task.cancel()
        # its kernel is put away here, or given to the stack
        await run_to_completion(lambda: asyncio.wait([opening, *waiting]))
        if not opening.cancelled():
            opening.exception()  # told of below, or nowhere
    return None if opening.cancelled() else opening.result()


def unopened(
    settings: Settings,
    context: Context | PackedContext,
    prompt: str,
    ledger: Ledger,
    control: Control,
    *,
    recorder: Recorder | None,
    emit: Callable[[Event], None] | None,
    before: RecordedOptions | None = None,
) -> Trajectory:
    """Return the record of a run whose kernel was not there in time.

    Parameters
    ----------
    before
        The options that name the earlier runs of this kernel, for a follow-up prompt.
    """
    run_id = recorder.run_id if recorder else "unsaved"
    started = run_started(settings, context, prompt, ledger, run_id, sandbox=settings.chosen_sandbox())
    started = replace(started, options=started.options | (before or {}))
    stopped = control.stopping.is_set()
    return never_begun(
        started,
        "cancelled" if stopped else "seconds",
        (control.why_stopped if stopped else "")
        or f"{'It was stopped' if stopped else 'The time was up'} before its kernel had started",
        tell=guarded(emit),
        recorder=recorder,
        seconds=ledger.deadline.seconds,
    )
