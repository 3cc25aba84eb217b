"""A run in other forms: one HTML page, and the JSON lines of the reference implementation.

Source: the log that `rlm/logger` of https://github.com/alexzhang13/rlm writes and its visualizer reads.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.events import SubcallSettled
from rlm_jupyter.notebook import is_run

if TYPE_CHECKING:
    from rlm_jupyter.trajectory import Cell, Iteration, Trajectory

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def to_html(path: str | Path) -> str:
    """A run's notebook as one HTML page. Scripts that the model wrote are taken out.

    Parameters
    ----------
    path
        The `.ipynb`.

    Raises
    ------
    ConfigurationError
        nbconvert is not installed, or there is no run's notebook.
    """
    try:
        import nbformat
        from nbconvert import HTMLExporter
    except ImportError:
        raise ConfigurationError("A page in HTML needs nbconvert: pip install nbconvert.") from None
    if not is_run(path):
        raise ConfigurationError(f"{path} is not the notebook of a run.")
    # what a model wrote, perhaps because a document told it to, must not run in the reader's browser
    content = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for cell in content.cells:
        for output in cell.get("outputs", ()):
            # nbconvert writes these as they are, whatever sanitize_html says
            output.get("data", {}).pop("text/vnd.mermaid", None)
            if "data" in output:
                output.metadata = {}
    exporter = HTMLExporter(sanitize_html=True)  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(content, {"metadata": {"name": Path(path).stem}})
    return str(page)


def to_jsonl(trajectory: Trajectory) -> str:
    """A run as the JSON lines that the reference implementation's visualizer reads.

    One line of metadata, then one for each iteration. An iteration's `prompt` holds the messages that
    are new since the one before it, so that the text grows with the run and not with its square.

    Raises
    ------
    RecordError
        Nothing is recorded yet.
    """
    started, ended = trajectory.started, trajectory.ended
    clock = datetime.fromisoformat(started.started)
    backend, _, _ = started.model.partition("/")
    metadata = {
        "type": "metadata",
        "timestamp": clock.isoformat(),
        "root_model": started.model,
        "max_depth": started.limits.get("max_depth"),
        "max_iterations": started.limits.get("max_iterations"),
        "backend": backend,
        "backend_kwargs": {"model_name": started.model},
        "environment_type": "jupyter",
        "environment_kwargs": {},
        "other_backends": [started.sub_model] if started.sub_model else None,
    }
    lines = [metadata]
    messages = [_message("system", started.system), _message("user", started.opening)]
    context = f"{started.context.type_name}: {started.context.size}"
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
                "code_blocks": [_code_block(cell, context) for cell in iteration.cells],
                "final_answer": ended.answer if last and ended is not None else None,
                "iteration_time": seconds,
            }
        )
        messages = [_message("assistant", read), _message("user", _told(iteration))]
    # ASCII, because a lone surrogate has no other form that every reader takes
    return "".join(json.dumps(line) + "\n" for line in lines)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _told(iteration: Iteration) -> str:
    return "\n\n".join(part for part in (iteration.shown, *iteration.notices) if part)


def _code_block(cell: Cell, context: str) -> dict[str, Any]:
    return {
        "code": cell.source,
        "result": {
            "stdout": "".join(_printed(output) for output in cell.outputs),
            "stderr": "".join(_complained(output) for output in cell.outputs),
            "locals": {"context": context},
            "execution_time": cell.seconds,
            "rlm_calls": [_call(subcall) for subcall in cell.subcalls],
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


def _call(subcall: SubcallSettled) -> dict[str, Any]:
    usage: dict[str, float] = {
        "total_calls": 1,
        "total_input_tokens": subcall.usage.input_tokens,
        "total_output_tokens": subcall.usage.output_tokens,
    }
    if subcall.cost is not None:
        usage["total_cost"] = subcall.cost
    call: dict[str, Any] = {
        "root_model": subcall.model,
        "prompt": subcall.prompt if subcall.prompt is not None else subcall.prompt_head,
        "response": subcall.text,
        "usage_summary": {"model_usage_summaries": {subcall.model: usage}},
        "execution_time": subcall.seconds,
        "prompt_tokens": subcall.usage.input_tokens,
        "completion_tokens": subcall.usage.output_tokens,
    }
    if subcall.failed:
        call["error"] = subcall.text
    return call
