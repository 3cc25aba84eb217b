"""`Overbilling`: which models bill more than a request could use, and how many times over."""

from __future__ import annotations

import logging

from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.types.values import Usage

log = logging.getLogger(__name__)
ROUNDING = 1e-9
"""What rounding may be off by: US dollars, or a share of what was allowed."""


class Overbilling:
    """Compares what providers bill with what they were asked for."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        """What was billed beyond what a request could use, by the model's name; in one line each."""
        self._factors: dict[str, float] = {}

    def factor(self, model: str) -> float:
        """Return how many times over a model bills what it may use, so that the next requests to it reserve more.

        Returns
        -------
        float
            1.0 for one that keeps to it.
        """
        return self._factors.get(model, 1.0)

    def compare(self, model: str, bill: Bill, most: Usage, cost: float | None) -> None:
        """Take in what a request was billed.

        Parameters
        ----------
        most, cost
            What it could use; `cost` in US dollars, `None` when unknown.
        """
        billed = bill.usage
        factor = billed.total_tokens / max(most.total_tokens, 1)
        if cost and bill.cost is not None:
            factor = max(factor, bill.cost / cost)
        if billed.output_tokens > most.output_tokens:
            what = f"{billed.output_tokens:,} output tokens where {most.output_tokens:,} were allowed"
        elif factor > 1 + ROUNDING:
            what = f"{billed.total_tokens:,} tokens for a request that has {most.total_tokens:,} at most"
        else:
            return
        self._factors[model] = max(factor, self.factor(model))
        if model not in self.found:
            log.warning("%s billed %s.", model, what)
        self.found[model] = f"{model} billed {what}"
