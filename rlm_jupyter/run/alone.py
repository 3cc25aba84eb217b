"""`answer_alone`: one prompt, answered in a kernel that is its own."""

from __future__ import annotations

from contextlib import AsyncExitStack

from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.run.approval import check_attended
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.opening import open_in_time, unopened
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.question import check_readable
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.settings import Settings


async def answer_alone(
    settings: Settings,
    prompt: str,
    context: Context,
    on_event: OnEvent | None = None,
    control: Control | None = None,
    *,
    ledger: Ledger | None = None,
    templates: Templates | None = None,
) -> Result:
    """Answer a prompt about a context, and end the kernel.

    Parameters
    ----------
    on_event, control
        As for `RLM.acompletion`.
    ledger
        Holds the run to its limits. Default: one of its own.
    templates
        What its kernels are forked from, closed by whoever gives it. Default: templates of its own.

    Raises
    ------
    RLMError
        As of `RLM.acompletion`.
    """
    check_attended(settings, control)
    check_readable(context, settings.routing.root)
    control, on_event = control or Control(), guarded(on_event)
    control.attach()
    ledger = ledger or Ledger(settings.limits)
    recording = recorded_outcome(prompt, context, settings.save, answer_type=settings.answer)
    async with recording as outcome, AsyncExitStack() as stack:
        recorder = outcome.recorder
        session = await open_in_time(stack, settings, context, ledger, control, on_event, templates=templates)
        if session is None:
            trajectory = unopened(settings, context, prompt, ledger, control, recorder=recorder, emit=on_event)
        else:
            trajectory = await session.answer(prompt, ledger=ledger, recorder=recorder, emit=on_event, control=control)
    return outcome.result(trajectory)
