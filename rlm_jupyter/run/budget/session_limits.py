"""`remaining`: what the prompts of a session may use together, less what those before have used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rlm_jupyter.record.saved_run import Spent
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage


def remaining(limits: Limits, before: Iterable[Spent]) -> Limits:
    """Return the limits of the next prompt of a session with one ledger for all.

    Cost, tokens, seconds, sub-calls and calls of tools count for the whole session; iterations, errors and what else
    there is for each prompt.

    Raises
    ------
    ConfigurationError
        Nothing is left of one.
    """
    spent = _sum(before)
    left: dict[str, Any] = {
        "max_cost": None if limits.max_cost is None else limits.max_cost - (spent.cost or 0.0),
        "max_tokens": None if limits.max_tokens is None else limits.max_tokens - spent.usage.total_tokens,
        "max_seconds": None if limits.max_seconds is None else limits.max_seconds - spent.seconds,
    }
    for name, value in left.items():
        if value is not None and value <= 0:
            raise ConfigurationError(
                f"The prompts of this session have used up its {name} ({getattr(limits, name):,}): begin another "
                "session, or one with a ledger for each prompt (ledger='prompt')."
            )
    left |= {
        "max_subcalls": None if limits.max_subcalls is None else max(limits.max_subcalls - spent.subcalls, 0),
        "max_tool_calls": None if limits.max_tool_calls is None else max(limits.max_tool_calls - spent.tool_calls, 0),
    }
    return replace(limits, **left)


def _sum(spent: Iterable[Spent]) -> Spent:
    usage, cost, subcalls, seconds, tool_calls = Usage(), 0.0, 0, 0.0, 0
    for one in spent:
        usage, cost = usage + one.usage, cost + (one.cost or 0.0)
        subcalls, seconds, tool_calls = subcalls + one.subcalls, seconds + one.seconds, tool_calls + one.tool_calls
    return Spent(usage, cost, subcalls, seconds, tool_calls)
