"""`child_of`: how the runs of `rlm_query` are started, each in a session of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace

from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.record.recorder import Recorder, recording
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.context import AnyContext
from rlm_jupyter.run.observers import reporting
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.run.state import Playback, Run
from rlm_jupyter.run.subcalls import ChildAnswer, StartChild
from rlm_jupyter.types.events import SubcallStarted

CHILD_PROMPT = "Your task stands at the beginning of `context`, and so does what it is about. Do it."
"""What a child run is asked: the text that `rlm_query` was given is its context."""
Opens = Callable[..., AbstractAsyncContextManager[Session]]
"""`open_session`."""


def child_of(
    opens: Opens,
    settings: Settings,
    depth: int,
    templates: Templates | None = None,
) -> StartChild | None:
    """Return what starts the children of a run at `depth`; `None`: it may have none.

    Parameters
    ----------
    templates
        As for `open_session`.
    """
    if depth + 1 >= settings.limits.max_depth:
        return None
    # the form is that of the root's answer, and so are the files
    settings = replace(settings, answer=None, outputs=None, tools=settings.sub_tools, mcp=())

    async def start_child(parent: Run, context: AnyContext, asked: SubcallStarted, bill: Bill) -> ChildAnswer:
        saved_in = parent.event_log.recorder
        unclaimed = parent.playback.unclaimed_child(context.info.sha256) if parent.playback is not None else None
        saved, playback = unclaimed or (None, None)
        if saved is not None and saved.has_answer:
            bill.add(*saved.trajectory.bill)
            return _answered(saved.trajectory)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(parent.ledger.kernels.hold(depth + 1))
            async with recording(CHILD_PROMPT, context, saved_in is not None, saved_in, saved) as recorder:
                session = await stack.enter_async_context(
                    opens(settings, context, depth=depth + 1, templates=templates)
                )
                try:
                    trajectory = await _answer(session, parent, asked, recorder, depth + 1, playback)
                finally:
                    if session.records and (last := session.records[-1].ended) is not None:
                        bill.add(last.usage, last.cost)
            parent.ledger.kernels.closings.begin(stack.pop_all())
        return _answered(trajectory)

    return start_child


async def _answer(
    session: Session,
    parent: Run,
    asked: SubcallStarted,
    recorder: Recorder | None,
    depth: int,
    playback: Playback | None,
) -> Trajectory:
    run_id = recorder.run_id if recorder else f"unsaved-{secrets.token_hex(3)}"
    notebook = recorder.files.notebook if recorder else None
    return await session.answer(
        CHILD_PROMPT,
        ledger=parent.ledger,
        recorder=recorder,
        control=parent.control.for_child(),
        emit=reporting(parent, (asked.iteration, asked.block, asked.ordinal), run_id, depth, notebook),
        parent=parent.trajectory.run_id,
        run_id=run_id,
        playback=playback,
        above=parent.requests.held_back,
    )


def _answered(trajectory: Trajectory) -> ChildAnswer:
    last = trajectory.ended
    reason = last.stop_reason if last else "failed"
    return ChildAnswer(trajectory.answer, reason, trajectory.run_id)
