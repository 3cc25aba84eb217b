"""`Bill`: what something used, as often as it is billed: a request, a reply with all its attempts, a sub-call."""

from __future__ import annotations

from rlm_jupyter.types.values import Usage


class Bill:
    """Tokens and dollars, added up."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cost: float | None = 0.0
        """US dollars; `None` once a price was unknown."""

    def add(self, usage: Usage, cost: float | None) -> None:
        """Add what was used; the account that holds the limits is settled by `Ledger.reserve`."""
        self.usage += usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost
