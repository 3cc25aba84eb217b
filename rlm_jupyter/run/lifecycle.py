"""The first and the last record of a run, also of one that was cancelled or timed out before its first iteration."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.prompts import initial
from rlm_jupyter.prompts.outputs import shown_chars
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.figures import image_counter
from rlm_jupyter.run.loop import Ending
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.run.settings import Settings, recorded_options
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.tool_calls import NOT_MADE, PERSON_REFUSED
from rlm_jupyter.types.endings import SAYS_ITSELF, WORDS
from rlm_jupyter.types.events import ConversationCompacted, Event, RunEnded, RunStarted
from rlm_jupyter.types.sentence import sentence
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.tokens import fitting_chars
from rlm_jupyter.types.values import ContextInfo, PackedContext, StopReason, Usage

_TOOL_CHARS = 200
_REASONS = {reason: WORDS[reason] for reason in SAYS_ITSELF} | {"cancelled": "you stopped it"}


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
    runs_before: Sequence[str] = (),
    earlier: Sequence[ContextInfo] = (),
    restarted: str = "",
    remark: str = "",
) -> RunStarted:
    """Return the first record of a run; parameters as for `Session` and `first_messages`.

    Parameters
    ----------
    runs_before
        The ids of the runs in this kernel so far.
    earlier
        The contexts that it was given before this one.
    """
    if history or runs_before:
        settings = dataclasses.replace(settings, answer=None, outputs=None)
    routing = settings.routing
    system, opening = first_messages(
        settings,
        context.info,
        prompt,
        ledger,
        depth=depth,
        history=history,
        earlier=earlier,
        restarted=restarted,
    )
    sandboxed = initial.sandboxed(sandbox.folders()) if sandbox.shuts_off else ""
    return RunStarted(
        run_id=run_id,
        prompt=prompt,
        system=system,
        opening=surroundings + sandboxed + remark + opening,
        context=context.info,
        model=routing.model_for(depth).name,
        sub_model=routing.model_for(depth + 1).name,
        depth=depth,
        limits=dataclasses.asdict(settings.limits),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        request=""
        if history and not runs_before  # the prompts before it have no ids, so the same request cannot be recognised
        else request_digest(
            settings, prompt, context, attached=bool(surroundings), runs_before=runs_before, earlier=earlier
        ),
        parent=parent,
        version=_version(),
        options=recorded_options(settings, sandbox, attached=bool(surroundings)),
    )


@functools.cache
def _version() -> str:
    """Return the version that is installed; looked up once, for that takes as long as all else in the record."""
    return version("rlm_jupyter")


def first_messages(
    settings: Settings,
    context: ContextInfo,
    prompt: str,
    ledger: Ledger,
    *,
    depth: int = 0,
    history: int = 0,
    earlier: Sequence[ContextInfo] = (),
    restarted: str = "",
) -> tuple[str, str]:
    """Return the system message and the first user message of a run; further parameters as for `initial.opening`."""
    limits = settings.limits
    model, sub_model = settings.routing.model_for(depth), settings.routing.model_for(depth + 1)
    reply_tokens = min(limits.max_output_tokens, sub_model.window // 4)
    system = initial.system(
        output_chars=shown_chars(limits, model.window),
        sub_chars=fitting_chars(sub_model.window, reply_tokens),
        reply_chars=3 * reply_tokens,
        at_once=limits.concurrency,
        recursive=depth + 1 < limits.max_depth,
        sees_figures=image_counter(model, settings.see_figures) is not None,
        sub_sees=abilities_of(sub_model).sees is True,
        tools=settings.tools.specs,
        extra=settings.system_prompt_extra,
    )
    opening = initial.opening(
        prompt,
        context,
        max_iterations=limits.max_iterations,
        left=ledger.left(at_start=True),
        form="" if settings.answer is None else settings.answer.form,
        files=() if settings.outputs is None else settings.outputs.specs,
        history=history,
        earlier=earlier,
        restarted=restarted,
        is_question=depth == 0,
    )
    return system, opening


def never_begun(
    started: RunStarted,
    stop_reason: StopReason,
    message: str,
    *,
    tell: Callable[[Event], None],
    recorder: Recorder | None = None,
    seconds: float = 0.0,
) -> Trajectory:
    """Return what came of it: no answer, and no cost.

    Parameters
    ----------
    started
        How it would have begun.
    message
        Why it did not, in one line.
    tell
        Told both events.
    recorder
        Keeps them, where the run is kept.
    seconds
        How long it was waited for.
    """
    ended = RunEnded(stop_reason, None, None, False, 0, seconds, Usage(), 0.0, message)
    trajectory = Trajectory()
    for record in (started, ended):
        trajectory.apply(record)
        if recorder is not None:
            recorder.keep(record)
        tell(record)
    return trajectory


def ended(run: Run, ending: Ending) -> RunEnded:
    """Return the last record of a run that has come to this ending."""
    answer = ending.answer
    if answer is None and run.playback is not None and (earlier := run.playback.earlier_answer) is not None:
        answer = earlier  # of a run that was resumed: no worse off than before
    usage, cost = run.ledger.usage, run.ledger.cost
    if run.trajectory.started.parent is not None:
        own = run.trajectory.cost
        usage = run.trajectory.usage + run.requests.lost.usage
        cost = None if own is None or run.requests.lost.cost is None else own + run.requests.lost.cost
    recorder = run.event_log.recorder
    renamed = recorder.files.renamed if recorder is not None else ""
    remarks = [*run.ledger.overbilling.found.values(), *run.ledger.remarks.values()]
    remarks += filter(None, [_failed_summaries(run.trajectory), *_failed_tools(run.trajectory), renamed])
    message = ending.message
    remarks = [remark for remark in remarks if remark != message.rstrip(".")]
    if remarks:
        # where a message is the reason itself, its first sentence is taken for it
        reason = message.rstrip(".") or _REASONS.get(ending.stop_reason, "")
        said = "; ".join(remarks)
        # the name of a model or file stays as it is
        is_word = said.partition(" ")[0].isalpha()
        message = f"{sentence(reason)} {said[:1].upper() if is_word else said[:1]}{said[1:]}" if reason else said
    return RunEnded(
        stop_reason=ending.stop_reason,
        answer=answer.text if answer else None,
        value=answer.json if answer else None,
        is_json=answer.is_json if answer else False,
        # one whose reply never came is none
        iteration=max((iteration.index for iteration in run.trajectory.iterations[-1:]), default=0),
        seconds=run.seconds,
        usage=usage,
        cost=cost,
        message=message,
        confidence=None if answer is None else run.confidence if ending.confidence is None else ending.confidence,
        declared=answer.declared if answer else None,
        files=run.replies.files,
        is_judged=ending.is_judged,
    )


def _failed_summaries(trajectory: Trajectory) -> str:
    """Say that older iterations could not be summarized, if so: the model went on with less than it was to have."""
    records = trajectory.records
    failed = [one for one in records if isinstance(one, ConversationCompacted) and one.rejected]
    if not failed:
        return ""
    count, last = ("a summary", "") if len(failed) == 1 else (f"{len(failed)} summaries", "the last ")
    where = f"{last}after iteration {failed[-1].iteration:,}: {failed[-1].rejected}"
    return f"{count} of older iterations failed ({where}): their outputs were left out instead"


def _failed_tools(trajectory: Trajectory) -> Iterator[str]:
    """Say of each tool that no call of it has succeeded, if so: the answer came about without it."""
    made = [call for call in trajectory.subcalls if call.kind == "tool" and not call.refused]
    calls = [call for call in made if not call.text.startswith((PERSON_REFUSED, NOT_MADE))]
    for name in dict.fromkeys(call.model for call in calls):
        own = [call for call in calls if call.model == name]
        if name and all(call.failed for call in own):
            count = "its only call" if len(own) == 1 else f"all {len(own):,} calls"
            why = " ".join(own[-1].text.split()).rstrip(".")
            yield f"the tool {name} failed in {count}: {shortened(why, _TOOL_CHARS)}"
