"""A run in the Agent Trajectory Interchange Format: one JSON document, with the runs that it started inside.

Source: the models of `harbor.models.trajectories` in https://github.com/laude-institute/harbor, ATIF version 1.7. A
step is a reply that counted, with those before it that were resampled; its cells are its tool calls, and what the model
was shown of them is its observation. What a cell asked of models and tools stands in `extra` of its call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.export.sft import about, line_of, tokens
from rlm_jupyter.record.export.timeline import Timeline, iso
from rlm_jupyter.record.messages import follow_up, opening, read_part
from rlm_jupyter.types.events import ConversationCompacted, OutputsElided, ReplyReceived, SubcallSettled

if TYPE_CHECKING:
    from rlm_jupyter.record.export.bundle import WholeRun
    from rlm_jupyter.record.iteration import Cell, Iteration

_SCHEMA = "ATIF-v1.7"
_AGENT = "rlm_jupyter"
_CELL = "execute_cell"
"""What a cell is called as a tool."""


def to_atif(run: WholeRun, score: float | None = None) -> str:
    """Return a run as one line; of a session, one for each prompt.

    Parameters
    ----------
    score
        Of the run's answer, where it is known.
    """
    if run.prompts:
        return "".join(to_atif(one, score) for one in (replace(run, prompts=()), *run.prompts))
    trajectory = _trajectory(run)
    if score is not None:
        trajectory["extra"]["score"] = score
    return line_of(trajectory)


def _trajectory(run: WholeRun) -> dict[str, Any]:
    started = run.trajectory.started
    steps = [{"step_id": number} | step for number, step in enumerate(_steps(run), 1)]
    below = [_trajectory(child) for child in run.children]
    direct = [
        {"text": one.text, "model": one.model, **tokens(one.usage), "cost_usd": one.cost}
        for one in run.trajectory.direct
    ]
    return {
        "schema_version": _SCHEMA,
        "session_id": started.run_id,
        "trajectory_id": started.run_id,
        "agent": {
            "name": _AGENT,
            "version": started.version or "unknown",
            "model_name": started.model,
            "extra": {"sub_model": started.sub_model, "limits": started.limits},
        },
        "steps": steps,
        "final_metrics": _totals(run, steps),
        "extra": about(run) | ({"direct_replies": direct} if direct else {}),
    } | ({"subagent_trajectories": below} if below else {})


def _totals(run: WholeRun, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of the steps; the cost is that of everything, and so are the tokens in `extra`."""
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    total = {f"total_{name}": sum(one[name] for one in metrics) for name in _METRICS}
    usage, cost = run.trajectory.bill
    return total | {
        "total_steps": len(steps),
        "total_cost_usd": cost,
        "extra": {f"with_subcalls_{name}": count for name, count in tokens(usage).items()},
    }


_METRICS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def _steps(run: WholeRun) -> Iterator[dict[str, Any]]:
    trajectory, timeline = run.trajectory, Timeline(run.trajectory)
    below = {child.trajectory.run_id for child in run.children}
    iterations = {iteration.index: iteration for iteration in trajectory.iterations}
    begun = iso(timeline.begun)
    last = next((record for record in reversed(trajectory.records) if isinstance(record, ReplyReceived)), None)
    for message in opening(trajectory, None):
        yield {"source": message.role, "message": message.content, "timestamp": begun}
    drawn: list[ReplyReceived] = []
    for record in trajectory.records:
        if isinstance(record, ConversationCompacted) and not record.rejected:
            extra = {"compacted_through_iteration": record.through}
            yield {"source": "system", "message": record.text, "extra": extra}
        elif isinstance(record, OutputsElided):
            extra = {"outputs_left_out_through_iteration": record.through}
            yield {"source": "system", "message": "Older outputs make room.", "extra": extra}
        elif isinstance(record, ReplyReceived):
            drawn.append(record)
            iteration = iterations.get(record.iteration)
            is_counted = iteration is not None and iteration.reply is record
            if not record.forced and not is_counted:
                continue
            step = _reply(drawn, iso(timeline.of(record)[0]))
            # what comes of the last reply of all is told to nobody
            is_told = record is not last
            yield step | ({} if iteration is None or record.forced else _acted(iteration, below, is_told=is_told))
            drawn = []


def _reply(drawn: list[ReplyReceived], timestamp: str) -> dict[str, Any]:
    """Return the step of the last of these replies; those before it were resampled."""
    reply = drawn[-1]
    counted = [tokens(one.usage) for one in drawn]
    costs = [one.cost for one in drawn]
    metrics: dict[str, Any] = {name: sum(one[name] for one in counted) for name in _METRICS}
    return {
        "source": "agent",
        "timestamp": timestamp,
        "model_name": reply.model,
        "message": reply.text.rstrip() or "(no reply)",
        "llm_call_count": len(drawn),
        "metrics": metrics | {"cost_usd": None if None in costs else sum(cost or 0.0 for cost in costs)},
        "extra": {"iteration": reply.iteration, "finish": reply.finish, "seconds": reply.seconds},
    }


def _acted(iteration: Iteration, below: set[str], *, is_told: bool) -> dict[str, Any]:
    """Return what differs in the step of a reply whose cells were executed."""
    reply, rated = iteration.reply, iteration.rated
    extra: dict[str, Any] = {"iteration": iteration.index, "finish": reply.finish, "seconds": reply.seconds}
    if rated is not None:
        extra |= {"reward": rated.reward, "reward_components": rated.components}
    if iteration.images:
        extra["figures"] = len(iteration.images)
    results: list[dict[str, Any]] = []
    for cell in iteration.cells:
        started = [{"trajectory_id": call.child} for call in cell.subcalls if call.child in below]
        if started:
            results.append({"source_call_id": _id(iteration, cell), "subagent_trajectory_ref": started})
    if is_told:
        # as the model was shown it, of all cells together
        results.append({"content": follow_up(iteration, elided=False)})
    calls = [_call(iteration, cell) for cell in iteration.cells]
    step = {"message": read_part(iteration), "extra": extra} | ({"tool_calls": calls} if calls else {})
    return step | ({"observation": {"results": results}} if results else {})


def _id(iteration: Iteration, cell: Cell) -> str:
    return f"cell-{iteration.index}-{cell.block}"


def _call(iteration: Iteration, cell: Cell) -> dict[str, Any]:
    extra: dict[str, Any] = {"status": cell.status, "seconds": cell.seconds}
    if cell.subcalls:
        extra["subcalls"] = [_subcall(call) for call in sorted(cell.subcalls, key=lambda call: call.ordinal)]
    return {
        "tool_call_id": _id(iteration, cell),
        "function_name": _CELL,
        "arguments": {"code": cell.source},
        "extra": extra,
    }


def _subcall(call: SubcallSettled) -> dict[str, Any]:
    return {
        "kind": call.kind,
        "model": call.model or None,
        "prompt": call.prompt if call.prompt is not None else call.prompt_head,
        "reply": call.text,
        "failed": call.failed,
        **tokens(call.usage),
        "cost_usd": call.cost,
        "seconds": call.seconds,
        "child": call.child,
    }
