"""`PartLedger`: the account of one run of a batch, which is held to the limits of the batch as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage


class PartLedger(Ledger):
    """Holds a tree of runs to its own limits, and to those that it has together with others.

    Each request is reserved, and settled, in both accounts. One for which the whole has no room left is never sent: its
    run is stopped as it stands, to be resumed when there is more.

    Parameters
    ----------
    limits
        Those of this run.
    whole
        The account of all runs; how fast a provider is asked is a matter of it, too.
    on_refused
        Told in which limit of the whole a request did not fit; it ends this run.
    """

    is_part = True

    def __init__(self, limits: Limits, whole: Ledger, on_refused: Callable[[LimitReached], None]) -> None:
        super().__init__(limits)
        self._whole = whole
        self._on_refused = on_refused

    def rate_limiter(self, provider: str, slots: int | None = None) -> RateLimiter:
        """Return how fast a provider is asked, by all runs together."""
        return self._whole.rate_limiter(provider, slots)

    @asynccontextmanager
    async def reserve(
        self, most: Usage, cost: float | None = None, *, model: str = "", held_back: HeldBack | None = None
    ) -> AsyncIterator[Bill]:
        """Reserve and settle a request, as `Ledger.reserve`, in both accounts."""
        async with AsyncExitStack() as stack:
            entry = await stack.enter_async_context(super().reserve(most, cost, model=model, held_back=held_back))
            async with self.deadline.in_time():
                try:
                    whole = await stack.enter_async_context(self._whole.reserve(most, cost, model=model))
                except LimitReached as refusal:
                    self._on_refused(refusal)
                    await asyncio.Event().wait()  # for the end
                    raise
            try:
                yield entry
            finally:
                whole.add(entry.usage, entry.cost)
