"""A run as JSON lines: what the visualizer of the reference implementation reads.

Source: the log that `rlm/logger` of https://github.com/alexzhang13/rlm writes and its visualizer reads. A
call that was answered by a run of its own has that run under `metadata`, as there.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.iteration import Cell, Iteration
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import ConversationCompacted, SubcallSettled

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_Children = dict[str, WholeRun]


def to_jsonl(run: WholeRun | Trajectory) -> str:
    """Return a run as the JSON lines that the visualizer of the reference implementation reads.

    One line of metadata, then one for each iteration. An iteration's `prompt` holds the messages that
    are new since the one before it, so that the text grows with the run and not with its square. Of a session, the same
    for each prompt, one after the other.

    Raises
    ------
    RecordError
        Nothing is recorded yet.
    """
    run = run if isinstance(run, WholeRun) else WholeRun(run)
    if run.prompts:
        return "".join(to_jsonl(one) for one in (replace(run, prompts=()), *run.prompts))
    metadata = {"type": "metadata", "timestamp": run.trajectory.started.started} | _metadata(run.trajectory)
    # ASCII, because a lone surrogate has no other form that every reader takes
    return "".join(json.dumps(line) + "\n" for line in [metadata, *_iterations(run)])


def _metadata(trajectory: Trajectory) -> dict[str, Any]:
    started = trajectory.started
    backend, _, _ = started.model.partition("/")
    return {
        "root_model": started.model,
        "max_depth": started.limits.get("max_depth"),
        "max_iterations": started.limits.get("max_iterations"),
        "backend": backend,
        "backend_kwargs": {"model_name": started.model},
        "environment_type": "jupyter",
        "environment_kwargs": {},
        "other_backends": [started.sub_model] if started.sub_model else None,
    }


def _iterations(run: WholeRun) -> list[dict[str, Any]]:
    trajectory, children = run.trajectory, {child.trajectory.run_id: child for child in run.children}
    started, ended = trajectory.started, trajectory.ended
    clock = datetime.fromisoformat(started.started)
    lines: list[dict[str, Any]] = []
    messages = [_message("system", started.system), _message("user", _question(started.prompt) + started.opening)]
    context = f"{started.context.type_name}: {started.context.size}"
    compacted: defaultdict[int, list[ConversationCompacted]] = defaultdict(list)
    for record in trajectory.compactions:
        compacted[record.iteration].append(record)
    for number, iteration in enumerate(trajectory.iterations, 1):
        seconds = iteration.reply.seconds + sum(cell.seconds for cell in iteration.cells)
        clock += timedelta(seconds=seconds)
        last = number == len(trajectory.iterations)
        read = iteration.reply.text[: iteration.reply.read]
        lines.append(
            {
                "type": "iteration",
                "iteration": number,
                "timestamp": clock.isoformat(),
                "prompt": messages,
                "response": iteration.reply.text,
                "code_blocks": [_code_block(cell, context, children) for cell in iteration.cells],
                "final_answer": ended.answer if last and ended is not None else None,
                "iteration_time": seconds,
            }
        )
        messages = [_message("assistant", read), _message("user", _told(iteration))]
        messages += [_message("user", one.text) for one in compacted.get(iteration.index, ())]
    return lines


def _question(prompt: str) -> str:
    """Name the question in the words in which the visualizer looks for it; else it takes any short first message."""
    quoted = prompt.replace('"', "'")
    return f'original query: "{quoted}"\n\n'


def _below(child: WholeRun) -> dict[str, Any]:
    """Return a run within the call that it answers."""
    return {"run_metadata": _metadata(child.trajectory), "iterations": _iterations(child)}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _told(iteration: Iteration) -> str:
    return "\n\n".join(part for part in (iteration.shown, *iteration.notices) if part)


def _code_block(cell: Cell, context: str, children: _Children) -> dict[str, Any]:
    return {
        "code": cell.source,
        "result": {
            "stdout": "".join(_printed(output) for output in cell.outputs),
            "stderr": "".join(_complained(output) for output in cell.outputs),
            "locals": {"context": context},
            "execution_time": cell.seconds,
            "rlm_calls": [_call(subcall, children) for subcall in cell.subcalls],
            "final_answer": None,
        },
    }


def _printed(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream" and output["name"] == "stdout":
        return _text(output["text"])
    text = _text(output.get("data", {}).get("text/plain", ""))
    return f"{text}\n" if text else ""


def _complained(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream" and output["name"] == "stderr":
        return _text(output["text"])
    return _COLOUR.sub("", "\n".join(output.get("traceback", ()))) if output["output_type"] == "error" else ""


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def _call(subcall: SubcallSettled, children: _Children) -> dict[str, Any]:
    usage: dict[str, float] = {
        "total_calls": 1,
        "total_input_tokens": subcall.usage.input_tokens,
        "total_output_tokens": subcall.usage.output_tokens,
    }
    if subcall.cost is not None:
        usage["total_cost"] = subcall.cost
    child = children.get(subcall.child or "")
    model = subcall.model or ("" if child is None else child.trajectory.started.model)
    call: dict[str, Any] = {
        "root_model": model,
        "prompt": subcall.prompt if subcall.prompt is not None else subcall.prompt_head,
        "response": subcall.text,
        "usage_summary": {"model_usage_summaries": {model: usage}},
        "execution_time": subcall.seconds,
        "prompt_tokens": subcall.usage.input_tokens,
        "completion_tokens": subcall.usage.output_tokens,
    }
    if child is not None:
        call["metadata"] = _below(child)
    if subcall.failed:
        call["error"] = subcall.text
    return call
