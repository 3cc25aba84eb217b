"""`ToolReply`: what an agent is told of a run: a text to read, and the same as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.agents.citations import iterations_behind
from rlm_jupyter.frontends.display.iteration import count
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.endings import why_ended
from rlm_jupyter.types.events import RunEnded

_AS_ASKED = {"answered", "terminated"}


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
    data = {
        "run": run,
        "state": "ended",
        "answer": ended.answer,
        "value": ended.value if ended.is_json else ended.answer,
        "is_draft": ended.answer is not None and ended.stop_reason not in _AS_ASKED,
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
    text = "\n\n".join([_answer(ended), _source(run, notebook, behind, trajectory), _spent(ended)])
    return ToolReply(text, data, is_error=ended.stop_reason == "failed" and ended.answer is None)


def _answer(ended: RunEnded) -> str:
    why = why_ended(ended.stop_reason, ended.message)
    if ended.answer is None:
        return f"No answer: {why}."
    if ended.stop_reason in _AS_ASKED:
        return ended.answer
    return f"Ended early ({why}). The best answer so far, which may be wrong or incomplete:\n\n{ended.answer}"


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
