"""`run_started`: the first record of a run, with the messages that its model begins with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.prompts import texts as prompts
from rlm_jupyter.prompts.outputs import shown_chars
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.settings import Settings, recorded_options, request_digest
from rlm_jupyter.types.events import RunStarted
from rlm_jupyter.types.tokens import fitting_chars
from rlm_jupyter.types.values import ContextInfo, PackedContext


def run_started(
    settings: Settings,
    context: Context | PackedContext,
    prompt: str,
    ledger: Ledger,
    run_id: str,
    *,
    depth: int = 0,
    parent: str | None = None,
    surroundings: str = "",
    sandbox: Sandbox = NO_SANDBOX,
    history: int = 0,
    after: Sequence[str] = (),
    restarted: str = "",
    remark: str = "",
) -> RunStarted:
    """Return the first record of a run; parameters as for `Workspace` and `first_messages`.

    Parameters
    ----------
    after
        The ids of the runs in this kernel so far.
    """
    routing = settings.routing
    system, opening = first_messages(
        settings, context.info, prompt, ledger, depth=depth, history=history, restarted=restarted
    )
    return RunStarted(
        run_id=run_id,
        prompt=prompt,
        system=system,
        opening=surroundings + sandbox.told() + remark + opening,
        context=context.info,
        model=routing.model_for(depth).name,
        sub_model=routing.model_for(depth + 1).name,
        depth=depth,
        limits=dataclasses.asdict(settings.limits),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        request=""
        if history and not after  # the prompts before it have no ids, so the same request cannot be recognised
        else request_digest(settings, prompt, context, lent=bool(surroundings), after=after),
        parent=parent,
        version=version("rlm_jupyter"),
        options=recorded_options(settings, sandbox, lent=bool(surroundings)),
    )


def first_messages(
    settings: Settings,
    context: ContextInfo,
    prompt: str,
    ledger: Ledger,
    *,
    depth: int = 0,
    history: int = 0,
    restarted: str = "",
) -> tuple[str, str]:
    """Return the system message and the first user message of a run; further parameters as for `texts.opening`."""
    limits = settings.limits
    sub_model = settings.routing.model_for(depth + 1)
    system = prompts.system(
        output_chars=shown_chars(limits, settings.routing.model_for(depth).window),
        sub_chars=fitting_chars(sub_model.window, min(limits.max_output_tokens, sub_model.window // 4)),
        recursive=depth + 1 < limits.max_depth,
        extra=settings.system_prompt_extra,
    )
    opening = prompts.opening(
        prompt,
        context,
        max_iterations=limits.max_iterations,
        left=ledger.left(at_start=True),
        history=history,
        restarted=restarted,
    )
    return system, opening
