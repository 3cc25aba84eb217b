"""The sub-calls of a live cell, for its Markdown cell and for the side panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rlm_jupyter.record import subcall_list
from rlm_jupyter.record.escaped import head
from rlm_jupyter.record.subcall_list import SHOWN
from rlm_jupyter.record.subcall_texts import Excerpts
from rlm_jupyter.types.events import SubcallSettled, SubcallStarted

_FLYING = 8
"""Sub-calls in flight that are listed."""
_REST_SECONDS = 0.01
"""For each one that is listed: so long the list stays as it is, since all of it is told and drawn anew."""
_AT_ONCE = 10
"""As many make no list that is long."""
_TEXTS = Excerpts("Open Run, in the bar, opens the run's own notebook, which has them")


def rest(settled: Sequence[SubcallSettled]) -> float:
    """Return how many seconds the list need not be made anew."""
    return 0.0 if len(settled) <= _AT_ONCE else _REST_SECONDS * min(len(settled), SHOWN)


def markdown(settled: Sequence[SubcallSettled], waiting: int) -> str:
    """Return the source of the Markdown cell."""
    return subcall_list.markdown(settled, waiting, _TEXTS)


def facts(settled: Sequence[SubcallSettled]) -> list[dict[str, Any]]:
    """Return the same for programs, and for the side panel; bounded."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "tokens": call.usage.total_tokens,
            "cost": call.cost,
            "seconds": round(call.seconds, 3),
            "failed": call.failed,
            "child": call.child,
            "prompt": head(call.prompt_head),
        }
        for call in settled[:SHOWN]
    ]


def in_flight(started: Iterable[SubcallStarted]) -> list[dict[str, Any]]:
    """Return those that were not answered yet, the oldest of them."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "prompt": head(call.prompt_head),
        }
        for call in islice(started, _FLYING)
    ]
