"""A run as training data: chat messages with what counts for the loss, and tokens and rewards of each iteration.

One JSON line for each conversation that a model was sent: the run's, and those of the runs that it started. Most runs
have one; where older iterations made room, the conversation after that is one more (`windows`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.export.windows import ModelTurn, Window, windows

if TYPE_CHECKING:
    from rlm_jupyter.record.export.bundle import WholeRun
    from rlm_jupyter.types.values import Usage


def to_sft(run: WholeRun, score: float | None = None) -> str:
    """Return the conversations of a run, and of all runs below it, as JSON lines; empty where no model has replied.

    Parameters
    ----------
    score
        Of the run's answer, where it is known.
    """
    lines = [line for one in (run, *run.prompts) for line in _lines(one, score)]
    return "".join(map(line_of, lines))


def line_of(data: dict[str, Any]) -> str:
    """Return a line of JSON; lone surrogates become question marks, because tokenizers and validators refuse them."""
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n"


def _lines(run: WholeRun, score: float | None) -> Iterator[dict[str, Any]]:
    for one in run:
        found = windows(one.trajectory)
        facts = about(one) | ({} if one is not run or score is None else {"score": score})
        for number, window in enumerate(found, 1):
            place = {"window": number, "windows": len(found)}
            yield {"messages": _messages(window), **facts, **place, "iterations": list(map(_iteration, window.turns))}


def about(run: WholeRun) -> dict[str, Any]:
    """Return what is said of a run beside its conversation."""
    started, ended = run.trajectory.started, run.trajectory.ended
    return {
        "run": started.run_id,
        "parent": started.parent,
        "depth": started.depth,
        "model": started.model,
        "prompt": started.prompt,
        "answer": None if ended is None else ended.answer,
        "stop_reason": None if ended is None else ended.stop_reason,
        "confidence": None if ended is None else ended.confidence,
        "reward": reward(run),
        "cost": run.trajectory.bill[1],
    }


def reward(run: WholeRun) -> float | None:
    """Return how the reward policy rated the last iteration that it rated; `None`: none."""
    rated = [iteration.rated for iteration in run.trajectory.iterations if iteration.rated is not None]
    return rated[-1].reward if rated else None


def _messages(window: Window) -> list[dict[str, Any]]:
    """Return the messages; `weight` is 1 for replies that were given in this window, and 0 for those before them."""
    trained = {turn.message for turn in window.turns}
    return [
        {"role": message.role, "content": message.content}
        | ({"weight": int(place in trained)} if message.role == "assistant" else {})
        for place, message in enumerate(window.messages)
    ]


def _iteration(turn: ModelTurn) -> dict[str, Any]:
    reply, rated = turn.reply, None if turn.iteration is None else turn.iteration.rated
    return {
        "iteration": reply.iteration,
        "message": turn.message,
        **tokens(reply.usage),
        "cost": reply.cost,
        "seconds": reply.seconds,
        "finish": reply.finish,
        "reward": None if rated is None else rated.reward,
        "cells": [] if turn.iteration is None else [cell.status for cell in turn.iteration.cells],
        "figures": 0 if turn.iteration is None else len(turn.iteration.images),
    }


def tokens(usage: Usage) -> dict[str, int]:
    """Return tokens by the names of chat completions."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
