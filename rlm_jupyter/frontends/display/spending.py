"""`Spending`: sub-calls, tokens and money of a run so far, in words beside their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.frontends.display.iteration import count
from rlm_jupyter.types.values import Usage


@dataclass
class Spending:
    """What a run has spent."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """Dollars; `None`: a price is not known."""
    subcalls: int = 0
    tool_calls: int = 0

    def add(self, usage: Usage, cost: float | None, *, subcalls: int = 0, tool_calls: int = 0) -> None:
        """Add a request, or sub-calls, or calls of tools."""
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost
        self.subcalls += subcalls
        self.tool_calls += tool_calls

    def words(self, limits: Mapping[str, Any]) -> list[str]:
        """Return what is worth saying, each beside the limit of that name."""
        spent = [count(self.subcalls, "sub-call")] if self.subcalls else []
        spent += [count(self.tool_calls, "tool call")] if self.tool_calls else []
        tokens = self.usage.total_tokens
        if most := limits.get("max_tokens"):
            spent.append(f"{tokens:,} of {count(most, 'token')}")
        elif tokens:
            spent.append(count(tokens, "token"))
        if self.cost is not None and (self.cost or limits.get("max_cost")):
            of = f" of ${most:.2f}" if (most := limits.get("max_cost")) else ""
            spent.append(f"${self.cost:.4f}{of}")
        return spent
