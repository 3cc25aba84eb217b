"""`Ledger`: one account for a whole tree of runs: root, sub-calls and children.

Long because all that moves the account stands here.

Every request reserves the most it can use before it is sent and settles what it did use afterwards, so a
limit is never overshot. A request waits while reservations in flight could still free its room; it is
refused only when it would not fit even if no other were in flight. A turn is held around a provider's
request only: a child that waits for its own sub-calls holds none, so nothing can deadlock. Whoever waits,
for room, a turn or a kernel, waits no longer than the time that is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.deadline import Deadline
from rlm_jupyter.run.budget.delays import Delays
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.kernel_slots import KernelSlots
from rlm_jupyter.run.budget.overbilling import ROUNDING, Overbilling
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.types.endings import too_large
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import StopReason, Usage


class Ledger:
    """Holds a tree of runs to its limits.

    Parameters
    ----------
    limits
        Those of the root.
    clock
        Seconds, monotonic.
    whole
        The limits of all prompts of a session together, where `limits` are what the prompts before have left: messages
        quote these, and not what is left.
    """

    is_part = False  # of a batch: then others, who have more time, wait for the same provider

    def __init__(
        self, limits: Limits, clock: Callable[[], float] = time.monotonic, *, whole: Limits | None = None
    ) -> None:
        self.limits = limits
        self._named_limits = whole or limits
        self._clock = clock
        self.deadline = Deadline(limits.max_seconds, clock)
        self.kernels = KernelSlots(limits, self.deadline)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._rate_limiters: dict[str, RateLimiter] = {}
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()
        self._reserved_tokens = 0
        self._reserved_cost = 0.0
        self._held_tokens = 0
        self._held_cost = 0.0
        self.usage = Usage()
        """Settled so far."""
        self.cost: float | None = 0.0
        """US dollars settled so far; `None` once a model's price was unknown."""
        self.subcalls = 0
        """Prompts of sub-calls accepted so far."""
        self.tool_calls = 0
        """Tool calls accepted so far."""
        self._subcalls_refused = False
        self.overbilling = Overbilling()
        self.remarks: dict[str, str] = {}
        """What people should know of who answered, by the model's name; in one line each."""
        self.delays = Delays()

    @property
    def reached(self) -> StopReason | None:
        """The limit of the tree that is reached, if any is."""
        limits = self.limits
        if not self.deadline.has(0):
            return "seconds"
        if limits.max_tokens is not None and self.usage.total_tokens >= limits.max_tokens:
            return "tokens"
        if limits.max_cost is not None and self.cost is not None and self.cost >= limits.max_cost:
            return "cost"
        return "subcalls" if self._subcalls_refused else None

    def carry_on(self, usage: Usage, cost: float | None, subcalls: int, seconds: float, tool_calls: int = 0) -> None:
        """Count what the run had used before it was broken off; its clock goes on from there, now."""
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost
        self.subcalls += subcalls
        self.tool_calls += tool_calls
        self.deadline.carry_on(seconds)
        self._changed.set()

    def limit(self, limits: Limits) -> None:
        """Set other limits from now on; whoever waits for room looks again."""
        self.limits = self._named_limits = limits
        self._subcalls_refused = self._subcalls_refused and self.subcalls >= (limits.max_subcalls or self.subcalls + 1)
        self.deadline.limit(limits.max_seconds)
        self.kernels.limits = limits
        self._changed.set()

    def left(self, *, at_start: bool = False) -> list[str]:
        """Say what is left of the limits that are set; of sub-calls at the start and once some were made."""
        limits = self.limits
        left = []
        if limits.max_subcalls is not None and (at_start or self.subcalls):
            left.append(f"{limits.max_subcalls - self.subcalls:,} sub-calls")
        if limits.max_tokens is not None:
            left.append(f"{max(limits.max_tokens - self.usage.total_tokens, 0):,} tokens")
        if limits.max_cost is not None and self.cost is not None:
            left.append(f"${max(limits.max_cost - self.cost, 0):.3f}")
        if (seconds := self.deadline.left) is not None:
            left.append(f"{max(seconds, 0):.0f} s")
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
            asked = "1 sub-call was" if prompts == 1 else f"{prompts:,} sub-calls were"
            left, whole = most - self.subcalls, self._named_limits.max_subcalls
            of = f" of {whole:,}" if whole else ""
            are = "none{} is" if not left else "1{} is" if left == 1 else f"{left:,}{{}} are"
            raise LimitReached(f"{asked} asked for, and {are.format(of)} left", stop_reason="subcalls")
        self.subcalls += prompts

    def take_tool_call(self) -> bool:
        """Accept a call of a tool; return whether one was left."""
        most = self.limits.max_tool_calls
        if most is not None and self.tool_calls >= most:
            return False
        self.tool_calls += 1
        return True

    def hold_back(self, held_back: HeldBack, tokens: int, cost: float) -> None:
        """Keep room for a run's last reply free of all other requests; `HeldBack.hold` calls this."""
        limits = self.limits
        self._held_tokens -= held_back.tokens
        self._held_cost -= held_back.cost
        held_back.tokens = (
            0 if limits.max_tokens is None else min(tokens, max(limits.max_tokens - self._held_tokens, 0) // 2)
        )
        held_back.cost = 0.0 if limits.max_cost is None else min(cost, max(limits.max_cost - self._held_cost, 0.0) / 2)
        self._held_tokens += held_back.tokens
        self._held_cost += held_back.cost
        self._changed.set()

    def tokens_left(self, held_back: HeldBack | None = None) -> int | None:
        """Return how many tokens requests may still use, those in flight included; `None` without a limit.

        Parameters
        ----------
        held_back
            By the run that asks, which may use it.
        """
        if self.limits.max_tokens is None:
            return None
        held = self._held_tokens - (0 if held_back is None else held_back.tokens)
        return max(self.limits.max_tokens - self.usage.total_tokens - held, 0)

    def money_left(self, held_back: HeldBack | None = None) -> float | None:
        """Return how many US dollars requests may still cost; else as `tokens_left`."""
        if self.limits.max_cost is None:
            return None
        held = self._held_cost - (0.0 if held_back is None else held_back.cost)
        return max(self.limits.max_cost - (self.cost or 0.0) - held, 0.0)

    @asynccontextmanager
    async def reserve(
        self, most: Usage, cost: float | None = None, *, model: str = "", held_back: HeldBack | None = None
    ) -> AsyncIterator[Bill]:
        """Reserve the most that a request can use, and settle what it did use on leaving.

        Parameters
        ----------
        most, cost
            What the request can use; `cost` in US dollars, `None` when unknown.
        model
            Who is asked, by name: one that bills more than it was asked for is named in `overbilling`.
        held_back
            By the run whose own reply this is; a sub-call has none.

        Raises
        ------
        LimitReached
            It would not fit, even with nothing else in flight; or the time is up.
        """
        excess = self.overbilling.factor(model)
        async with self.set_aside(int(most.total_tokens * excess), (cost or 0.0) * excess, held_back) as entry:
            try:
                yield entry
            finally:
                self.overbilling.compare(model, entry, most, cost)

    @asynccontextmanager
    async def set_aside(self, tokens: int, cost: float, held_back: HeldBack | None = None) -> AsyncIterator[Bill]:
        """Set aside so many tokens and US dollars, and settle what was used of them on leaving.

        Raises
        ------
        LimitReached
            As for `reserve`.
        """
        if self._queue.locked() or not self._take(tokens, cost, held_back):
            async with self.deadline.in_time():
                await self._wait_for_room(tokens, cost, held_back)
        entry = Bill()
        try:
            yield entry
        finally:
            self._settle(tokens, cost, entry)

    def rate_limiter(self, provider: str, slots: int | None = None) -> RateLimiter:
        """Return how fast a provider is asked; by its address, as it refuses everybody when it refuses one request.

        Parameters
        ----------
        slots
            How many requests it serves at once, where that is known: what waits there may time out, here it can't.
        """
        if (rate_limiter := self._rate_limiters.get(provider)) is None:
            most = self.limits.concurrency
            rate_limiter = self._rate_limiters[provider] = RateLimiter(min(most, slots or most), self._clock)
        elif slots is not None:
            rate_limiter.narrow(slots)
        return rate_limiter

    @asynccontextmanager
    async def turn(self, rate_limiter: RateLimiter, *, again: bool = False) -> AsyncIterator[None]:
        """Wait until a request may be sent; held while it is in flight.

        Parameters
        ----------
        rate_limiter
            Of the provider.
        again
            It was refused before, so it goes first.

        Raises
        ------
        LimitReached
            The time is up, or will be before the provider wants to be asked again.
        """
        if rate_limiter.is_open and not self._slots.locked():  # nobody is waited for
            async with rate_limiter.turn(again=again), self._slots:
                yield
            return
        async with AsyncExitStack() as stack:
            async with self.deadline.in_time():
                self.check_rest(rate_limiter)
                await stack.enter_async_context(rate_limiter.turn(again=again))
                await stack.enter_async_context(self._slots)
            yield

    def check_rest(self, rate_limiter: RateLimiter) -> None:
        """Refuse to wait for a provider that is not to be asked again before the time is up; for all who do.

        Raises
        ------
        LimitReached
            There is no use in waiting.
        """
        rest, left = rate_limiter.rest, self.deadline.left
        if not rest or left is None or rest < left or self.deadline.is_held:
            return

        def refusal() -> LimitReached:
            return LimitReached(
                f"the provider wants to be asked again in {rest:.0f} s, and {max(left, 0):.0f} s are left",
                stop_reason="seconds",
            )

        if not self.is_part:
            rate_limiter.fail(refusal)
        raise refusal()

    async def _wait_for_room(self, tokens: int, cost: float, held_back: HeldBack | None) -> None:
        """Reserve this as soon as there is room."""
        # first come, first served: only the head of the queue looks again when something is settled
        async with self._queue:
            while not self._take(tokens, cost, held_back):
                self._changed.clear()
                await self._changed.wait()

    def _take(self, tokens: int, cost: float, held_back: HeldBack | None) -> bool:
        """Reserve this if there is room now."""
        if not self._fits(tokens, cost, held_back):
            return False
        self._reserved_tokens += tokens
        self._reserved_cost += cost
        return True

    def _settle(self, tokens: int, cost: float, entry: Bill) -> None:
        """Put what was used in place of what was reserved."""
        self._reserved_tokens -= tokens
        self._reserved_cost -= cost
        self.usage += entry.usage
        self.cost = None if self.cost is None or entry.cost is None else self.cost + entry.cost
        self._changed.set()

    def _fits(self, tokens: int, cost: float, held_back: HeldBack | None) -> bool:
        """Return whether there is room now; raise where nothing in flight could make any."""
        left, money = self.tokens_left(held_back), self.money_left(held_back)
        if left is not None and tokens > left:
            held = self._held_tokens - (0 if held_back is None else held_back.tokens)
            raise LimitReached(
                too_large(f"use {tokens:,} tokens", f"{left:,}", f"{self._named_limits.max_tokens:,}")
                + (f" ({held:,} more are held back for the answer)" if held else ""),
                stop_reason="tokens",
            )
        if money is not None and cost > money + ROUNDING:
            back = self._held_cost - (0.0 if held_back is None else held_back.cost)
            raise LimitReached(
                too_large(f"cost ${cost:.4f}", f"${money:.4f}", f"${self._named_limits.max_cost:.4f}")
                + (f" (${back:.4f} more are held back for the answer)" if back else ""),
                stop_reason="cost",
            )
        has_tokens = left is None or tokens <= left - self._reserved_tokens
        return has_tokens and (money is None or cost <= money + ROUNDING - self._reserved_cost)
