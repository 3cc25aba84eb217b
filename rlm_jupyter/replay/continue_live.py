"""A run resumed where its record ends: what is recorded of that, its bill and clock, what the model is told."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from rlm_jupyter.prompts import cues, notices
from rlm_jupyter.replay.diff import as_text
from rlm_jupyter.replay.recording import Recording
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import RunResumed


def resumption_record(run: Run, recording: Recording) -> RunResumed:
    """Return the record of a run that is resumed now, with its models and limits."""
    options = recording.options
    return RunResumed(
        iteration=recording.last_iteration,
        model=run.model.name,
        sub_model=next(iter(options.sub_models), run.model.name),
        sub_models=[*options.sub_models] if len(options.sub_models) > 1 else [],
        limits=dataclasses.asdict(run.limits),
        resumed=datetime.now(UTC).isoformat(timespec="seconds"),
        reexecuted=options.reexecutes,
        sampling=dict(options.sampling),
        seconds=0.0 if options.spent is None else options.spent.seconds,
        options=dict(options.configured),
    )


def continue_live(run: Run, recording: Recording) -> None:
    """Continue a run live, whose record has ended: with its bill, its clock, and a notice to the model."""
    run.cell_state.restarts = min(run.cell_state.restarts, 1)
    spent = recording.options.spent
    if spent is not None:
        run.ledger.limit(run.limits)
        run.ledger.carry_on(spent.usage, spent.cost, spent.subcalls, spent.seconds, spent.tool_calls)
        run.began = run.ledger.deadline.seconds - spent.seconds
    if recording.ended is not None and recording.ended.stop_reason == "errors":
        run.errors = 0
    if text := _news(run, recording):
        run.notice(text)


def _news(run: Run, recording: Recording) -> str:
    """Return what the model has to know of the new kernel and of what may be used now."""
    iterations = run.trajectory.iterations
    if not iterations:
        return ""
    parts = []
    if not recording.options.reexecutes and not recording.options.is_live:
        parts.append(notices.EMPTY_KERNEL)
    if recording.differences:
        parts.append(f"{notices.DIFFERS}\n{as_text(recording.differences)}")
    if recording.passed_over:
        named = ", ".join(map(str, dict.fromkeys(recording.passed_over)))
        parts.append(notices.PASSED_OVER.format(iterations=named))
    # where the last iteration is judged again, the run may end there
    is_whole = bool(iterations[-1].shown) and (recording.ended is None or recording.ended.is_judged)
    other_limits = recording.started.limits.get("max_iterations") != run.limits.max_iterations
    if is_whole and (recording.ended is not None or (other_limits and not recording.options.copies)):
        status = cues.status(run.iteration, run.limits.max_iterations, run.ledger.left())
        parts.append(notices.GOES_ON.format(status=status))
    return "\n\n".join(parts)
