"""A run as an episode of `verifiers`: a line of the file `traces.jsonl`, as its trainers and viewers read it.

Source: the models `Episode`, `Trace` and `MessageNode` of https://github.com/PrimeIntellect-ai/verifiers, version 0.4.
An episode has the traces of all its agents: the run's own, and those of the runs that it started. Token ids and
probabilities are not recorded, so they are not there: a trainer tokenizes the messages itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.export.costs import stopped
from rlm_jupyter.record.export.sft import about, line_of, reward
from rlm_jupyter.record.export.timeline import Timeline
from rlm_jupyter.record.export.windows import Window, windows
from rlm_jupyter.types.events import ConversationCompacted, DirectReplied, ReplyReceived, SampleSettled, SubcallSettled

if TYPE_CHECKING:
    from rlm_jupyter.record.export.bundle import WholeRun
    from rlm_jupyter.types.values import Usage

_VERSION = 1
"""Of the form of a trace."""
_ENVIRONMENT = "rlm_jupyter"
_FINISHES = {"stop", "length"}
_GOOD = {"answered", "terminated"}
_Places = dict[int, int]
"""The nodes of replies, by the identity of their records."""


def to_verifiers(run: WholeRun, score: float | None = None) -> str:
    """Return a run as one line; of a session, one for each prompt.

    Parameters
    ----------
    score
        Of the run's answer, where it is known: its reward. Without it, the reward is that of the reward policy.
    """
    if run.prompts:
        return "".join(to_verifiers(one, score) for one in (replace(run, prompts=()), *run.prompts))
    ended = run.trajectory.ended
    episode = {
        "id": run.trajectory.run_id,
        "env": {"id": _ENVIRONMENT},
        "task": _task(run),
        "ok": ended is not None and ended.stop_reason in _GOOD,
        "traces": [_trace(one, score if one is run else None) for one in run],
    }
    return line_of(episode)


def _task(run: WholeRun) -> dict[str, Any]:
    started = run.trajectory.started
    context = {"type": started.context.type_name, "size": started.context.size, "sha256": started.context.sha256}
    data = {"id": started.request or None, "prompt": started.prompt, "system_prompt": started.system}
    return {"type": "RLM", "data": data | {"context": context}}


def _trace(run: WholeRun, score: float | None) -> dict[str, Any]:
    trajectory = run.trajectory
    started, ended = trajectory.started, trajectory.ended
    nodes, places = _nodes(windows(trajectory))
    timeline = Timeline(trajectory)
    rated = reward(run)
    scores = {"score": score} if score is not None else {"reward": rated} if rated is not None else {}
    stop = "unfinished" if ended is None else ended.stop_reason
    is_good = stop in _GOOD
    errors = [] if is_good or ended is None else [{"type": stop, "message": ended.message or stop}]
    return {
        "version": _VERSION,
        "id": started.run_id,
        "task": _task(run),
        "agent": {
            "config": {"model": started.model, "runtime": {"type": "subprocess"}},
            "name": "child" if started.parent else "root",
        },
        "nodes": nodes,
        "calls": _calls(run, places),
        "rewards": {name: {"score": value} for name, value in scores.items()},
        "metrics": _metrics(run),
        "info": about(run),
        "root_reply": None if ended is None else ended.answer,
        "extra_usage": _elsewhere(run),
        "is_completed": ended is not None,
        "ok": is_good,
        "stop_condition": stop,
        "is_timeout": stop == "seconds",
        "errors": errors,
        "timing": {"start": timeline.begun, "agent": {"start": timeline.begun, "end": timeline.over}},
    }


def _nodes(found: list[Window]) -> tuple[list[dict[str, Any]], _Places]:
    """Return each message once: windows that begin alike share the nodes of what is alike."""
    nodes: list[dict[str, Any]] = []
    known: dict[tuple[int | None, str, str], int] = {}
    places: _Places = {}
    for window in found:
        turns = {turn.message: turn for turn in window.turns}
        parent: int | None = None
        for place, message in enumerate(window.messages):
            key = parent, message.role, message.content
            sampled = place in turns
            if sampled or key not in known:
                known[key] = len(nodes)
                said = {"role": message.role, "content": message.content}
                nodes.append({"parent": parent, "message": said, "sampled": sampled})
            parent = known[key]
            if sampled:
                places[id(turns[place].reply)] = parent
    return nodes, places


def _calls(run: WholeRun, places: _Places) -> list[dict[str, Any]]:
    """Return the requests to the root model; what came of those that have no node is not part of a conversation."""
    calls, timeline = [], Timeline(run.trajectory)
    for record in run.trajectory.records:
        if not isinstance(record, ReplyReceived | DirectReplied | ConversationCompacted) or not record.model:
            continue
        finish = record.finish if isinstance(record, ReplyReceived) and record.finish in _FINISHES else None
        calls.append(
            {
                "node": places.get(id(record)),
                "model": record.model,
                "finish_reason": finish,
                "usage": _usage(record.usage, record.cost),
                "time": dict(zip(("start", "end"), timeline.of(record), strict=True)),
            }
        )
    return calls


def _elsewhere(run: WholeRun) -> list[dict[str, Any]]:
    """Return what sub-calls used, and runs below of which there is no record, and requests that were stopped."""
    below = {child.trajectory.run_id for child in run.children}
    used = [
        _usage(record.usage, record.cost)
        for record in run.trajectory.records
        if isinstance(record, SubcallSettled | SampleSettled)
        and record.child not in below
        and record.usage.total_tokens
    ]
    lost = stopped(run)
    return used if lost is None else [*used, _usage(lost.usage, lost.cost)]


def _usage(usage: Usage, cost: float | None) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens - usage.cached_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": cost,
    }


def _metrics(run: WholeRun) -> dict[str, float | None]:
    trajectory, ended = run.trajectory, run.trajectory.ended
    metrics: dict[str, float | None] = {
        "iterations": float(len(trajectory.iterations)),
        "subcalls": float(len(trajectory.subcalls)),
    }
    if (rated := reward(run)) is not None:
        metrics["reward"] = rated
    if ended is not None and ended.confidence is not None:
        metrics["confidence"] = ended.confidence
    return metrics
