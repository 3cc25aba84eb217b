"""`ToolReply`: what an agent is told of a run: a text to read, and the same as data."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.agents.citations import iterations_behind
from rlm_jupyter.frontends.display.iteration import count
from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.endings import why_ended
from rlm_jupyter.types.events import RunEnded

_AS_ASKED = {"answered", "terminated"}
_ANSWER_CHARS = 20_000
"""Who asks has a window that is too small for what was asked about."""
_VALUE_CHARS = 4_000
"""Of an answer as JSON: its text says the same."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool returns."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    """Nothing came of the call: the text says why."""


def of_ended(run: str, trajectory: Trajectory, notebook: Path | None) -> ToolReply:
    """Return what came of a run that has ended.

    Parameters
    ----------
    run
        Its id, as the agent knows it.
    notebook
        Where it is kept, if it is.

    Raises
    ------
    AssertionError
        It has not ended.
    """
    ended = trajectory.ended
    assert ended is not None
    behind = iterations_behind(trajectory)
    answer = None if ended.answer is None else _shown(ended.answer, notebook)
    data = {
        "run": run,
        "state": "ended",
        "answer": answer,
        "value": _value(ended),
        "is_shortened": answer != ended.answer,
        "is_draft": answer is not None and ended.stop_reason not in _AS_ASKED,
        "stop_reason": ended.stop_reason,
        "message": ended.message,
        "confidence": ended.confidence,
        "notebook": None if notebook is None else str(notebook),
        "iterations": len(trajectory.iterations),
        "answer_from_iterations": behind,
        "seconds": round(ended.seconds, 3),
        "tokens": ended.usage.total_tokens,
        "cost": ended.cost,
    }
    text = "\n\n".join([_answer(ended, answer), _source(run, notebook, behind, trajectory), _spent(ended)])
    return ToolReply(text, data, is_error=ended.stop_reason == "failed" and ended.answer is None)


def _shown(answer: str, notebook: Path | None) -> str:
    """Return what is told of an answer; what of it is left out is said in a line, and how to have the whole."""
    whole = "" if notebook is None else f"for the whole answer: jupyter rlm show {shlex.quote(str(notebook))}"
    return outputs.cut(answer, _ANSWER_CHARS, variable=None, kept=whole).text


def _value(ended: RunEnded) -> Any:
    """Return the answer as data, where it is small, and not the same text once more."""
    is_told = ended.is_json and ended.value != ended.answer
    return ended.value if is_told and len(json.dumps(ended.value, ensure_ascii=False)) <= _VALUE_CHARS else None


def _answer(ended: RunEnded, answer: str | None) -> str:
    why = why_ended(ended.stop_reason, ended.message)
    if answer is None:
        return f"No answer: {why}."
    if ended.stop_reason in _AS_ASKED:
        return answer
    return f"Ended early ({why}). The best answer so far, which may be wrong or incomplete:\n\n{answer}"


def _source(run: str, notebook: Path | None, behind: list[int], trajectory: Trajectory) -> str:
    where = "not kept" if notebook is None else str(notebook)
    number = len(trajectory.iterations)
    listed = ", ".join(map(str, behind))
    word = "iteration" if len(behind) == 1 else "iterations"
    come = f", {word} {listed} of {number}" if behind else ""
    return f"Source: run {run}, notebook {where}{come}."


def _spent(ended: RunEnded) -> str:
    cost = f", ${ended.cost:.4f}" if ended.cost else ""
    return f"Spent: {count(ended.usage.total_tokens, 'token')}{cost}, {ended.seconds:.0f} s."


def of_running(run: str, words: str, notebook: Path | None, seconds: float, result: str) -> ToolReply:
    """Return how far a run is that goes on, and what to do.

    Parameters
    ----------
    words
        How far it is.
    seconds
        Since it was asked.
    result
        What the tool is called that waits for it.
    """
    data = {
        "run": run,
        "state": "running",
        "progress": words,
        "notebook": None if notebook is None else str(notebook),
        "seconds": round(seconds, 3),
    }
    return ToolReply(f'Run {run} goes on: {words}. For its answer, call {result} with run="{run}".', data)
