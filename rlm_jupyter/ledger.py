"""`Ledger`: one account for a whole tree of runs: root, sub-calls and children.

Every request reserves the most it can use before it is sent and settles what it did use afterwards, so a
limit is never overshot. A request waits while reservations in flight could still free its room; it is
refused only when it would not fit alone. A slot is held around a provider's request only: a child that
waits for its own sub-calls holds none, so nothing can deadlock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from rlm_jupyter.errors import LimitReached
from rlm_jupyter.limits import Limits
from rlm_jupyter.types import StopReason, Usage

_ROUNDING = 1e-9
"""US dollars that rounding may be off by."""


class Entry:
    """A request under way: settle it with what it used, as often as it is billed."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cost: float | None = 0.0

    def settle(self, usage: Usage, cost: float | None) -> None:
        """Book what was used."""
        self.usage += usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost


class Ledger:
    """Holds a tree of runs to its limits.

    Parameters
    ----------
    limits
        Those of the root.
    clock
        Seconds, monotonic.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._began = clock()
        self._held_since: float | None = None
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._kernels: dict[int, asyncio.Semaphore] = {}
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()
        self._reserved_tokens = 0
        self._reserved_cost = 0.0
        self.usage = Usage()
        """Settled so far."""
        self.cost: float | None = 0.0
        """US dollars settled so far; `None` once a model's price was unknown."""
        self.subcalls = 0
        """Prompts accepted so far."""
        self._subcalls_refused = False

    @property
    def seconds(self) -> float:
        """Since the ledger was opened; while a person is waited for, the clock stands still."""
        return (self._clock() if self._held_since is None else self._held_since) - self._began

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline; `None` without one."""
        return None if self.limits.max_seconds is None else self.limits.max_seconds - self.seconds

    @property
    def reached(self) -> StopReason | None:
        """The limit of the tree that is reached, if any is."""
        limits = self.limits
        left = self.seconds_left
        if left is not None and left <= 0:
            return "seconds"
        if limits.max_tokens is not None and self.usage.total_tokens >= limits.max_tokens:
            return "tokens"
        if limits.max_cost is not None and self.cost is not None and self.cost >= limits.max_cost:
            return "cost"
        return "subcalls" if self._subcalls_refused else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock: a person is asked."""
        self._held_since = self._clock()
        try:
            yield
        finally:
            self._began += self._clock() - self._held_since
            self._held_since = None

    def limit(self, limits: Limits) -> None:
        """Other limits from now on; whoever waits for room looks again."""
        self.limits = limits
        self._subcalls_refused = self._subcalls_refused and self.subcalls >= (limits.max_subcalls or self.subcalls + 1)
        self._changed.set()

    def left(self, *, at_start: bool = False) -> list[str]:
        """What is left of the limits that are set, in words; of sub-calls at the start and once some were made."""
        limits = self.limits
        left = []
        if limits.max_subcalls is not None and (at_start or self.subcalls):
            left.append(f"{limits.max_subcalls - self.subcalls:,} sub-calls")
        if limits.max_tokens is not None:
            left.append(f"{max(limits.max_tokens - self.usage.total_tokens, 0):,} tokens")
        if limits.max_cost is not None and self.cost is not None:
            left.append(f"${max(limits.max_cost - self.cost, 0):.3f}")
        if self.seconds_left is not None:
            left.append(f"{max(self.seconds_left, 0):.0f} s")
        return left

    def count_subcalls(self, prompts: int) -> None:
        """Accept so many prompts of a sub-call.

        Raises
        ------
        LimitReached
            They are more than are left.
        """
        most = self.limits.max_subcalls
        if most is not None and self.subcalls + prompts > most:
            self._subcalls_refused = self.subcalls >= most
            raise LimitReached(
                f"{prompts:,} sub-calls were asked for, and {most - self.subcalls:,} of {most:,} are left",
                stop_reason="subcalls",
            )
        self.subcalls += prompts

    @asynccontextmanager
    async def request(self, *, tokens: int, cost: float | None) -> AsyncIterator[Entry]:
        """Reserve, wait for a slot, and settle on leaving.

        Parameters
        ----------
        tokens, cost
            The most that the request can use; `cost` in US dollars, `None` when unknown.

        Raises
        ------
        LimitReached
            It would not fit, even with nothing else in flight.
        """
        price = cost or 0.0
        await self._reserve(tokens, price)
        entry = Entry()
        try:
            async with self._slots:
                yield entry
        finally:
            self._reserved_tokens -= tokens
            self._reserved_cost -= price
            self.usage += entry.usage
            self.cost = None if self.cost is None or entry.cost is None else self.cost + entry.cost
            self._changed.set()

    @asynccontextmanager
    async def kernel(self, depth: int) -> AsyncIterator[None]:
        """A place for a child's kernel, counted per depth.

        A kernel is held while its own children run, so a common pool could fill up with parents that wait.
        With one pool for each depth the deepest can always go on, and so can everybody above.
        """
        limits = self.limits
        places = max(1, (limits.max_kernels - 1) // max(1, limits.max_depth - 1))
        async with self._kernels.setdefault(depth, asyncio.Semaphore(places)):
            yield

    async def _reserve(self, tokens: int, cost: float) -> None:
        # first come, first served: only the head of the queue looks again when something is settled
        async with self._queue:
            while not self._fits(tokens, cost):
                self._changed.clear()
                await self._changed.wait()
            self._reserved_tokens += tokens
            self._reserved_cost += cost

    def _fits(self, tokens: int, cost: float) -> bool:
        """Whether there is room now; raises where there never will be."""
        limits = self.limits
        if limits.max_tokens is not None:
            left = limits.max_tokens - self.usage.total_tokens
            if tokens > left:
                raise LimitReached(
                    f"a request may use {tokens:,} tokens, and {max(left, 0):,} of {limits.max_tokens:,} are left",
                    stop_reason="tokens",
                )
            if tokens > left - self._reserved_tokens:
                return False
        if limits.max_cost is not None:
            money = limits.max_cost - (self.cost or 0.0) + _ROUNDING
            if cost > money:
                raise LimitReached(
                    f"a request may cost ${cost:.4f}, and ${max(money, 0):.4f} of ${limits.max_cost:.4f} are left",
                    stop_reason="cost",
                )
            if cost > money - self._reserved_cost:
                return False
        return True
