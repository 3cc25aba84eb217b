"""`Ledger`: one account for a whole tree of runs: root, sub-calls and children.

Every request reserves the most it can use before it is sent and settles what it did use afterwards, so a
limit is never overshot. A request waits while reservations in flight could still free its room; it is
refused only when it would not fit alone. A turn is held around a provider's request only: a child that
waits for its own sub-calls holds none, so nothing can deadlock. Whoever waits, for room, a turn or a
kernel, waits no longer than the time that is left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from types import TracebackType

from rlm_jupyter.run.budget.last_reply import LastWord
from rlm_jupyter.run.budget.rate_limit import Pace
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import StopReason, Usage

log = logging.getLogger(__name__)

_ROUNDING = 1e-9
"""US dollars that rounding may be off by."""


class Bill:
    """What something used, as often as it is billed: a request, a reply with all its attempts, a sub-call."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.cost: float | None = 0.0
        """US dollars; `None` once a price was unknown."""

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
        self._holds = 0
        self.roots = 1
        """Runs of the question itself: each has a kernel that is not a child's."""
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._paces: dict[str, Pace] = {}
        self._kernels: dict[int, asyncio.Semaphore] = {}
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()
        self._timeouts: dict[asyncio.Timeout, float] = {}
        """Of those who wait, or are at work, for no longer than the time that is left, and so many seconds more."""
        self._reserved_tokens = 0
        self._reserved_cost = 0.0
        self._held_tokens = 0
        self._held_cost = 0.0
        self.usage = Usage()
        """Settled so far."""
        self.cost: float | None = 0.0
        """US dollars settled so far; `None` once a model's price was unknown."""
        self.subcalls = 0
        """Prompts accepted so far."""
        self._subcalls_refused = False
        self.overbilled: dict[str, str] = {}
        """What was billed beyond what a request could use, by the model's name; in one line each."""
        self.remarks: dict[str, str] = {}
        """What people should know of who answered, by the model's name; in one line each."""
        self.on_delay: Callable[[str], None] = lambda text: None
        """Told why a request of the tree waits to be sent again; with an empty text, that none does any more."""
        self._delays: dict[object, str] = {}
        self._excess: dict[str, float] = {}
        """How many times over, so that the next requests to such a model reserve more."""

    @property
    def seconds(self) -> float:
        """Since the ledger was opened; while a person is waited for, the clock stands still."""
        return (self._clock() if self._held_since is None else self._held_since) - self._began

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline; `None` without one."""
        return None if self.limits.max_seconds is None else self.limits.max_seconds - self.seconds

    def has_time(self, seconds: float) -> bool:
        """Whether more than so many seconds are left."""
        return self.seconds_left is None or self.seconds_left > seconds

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

    def carry_on(self, usage: Usage, cost: float | None, subcalls: int, seconds: float) -> None:
        """Count what the run had used before it was broken off; its clock goes on from there, now."""
        self.usage += usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost
        self.subcalls += subcalls
        self._began = self._clock() - seconds
        self._look_again()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock, as long as anybody holds it: a person is asked."""
        self._holds += 1
        if self._holds == 1:
            self._held_since = self._clock()
            self._look_again()
        try:
            yield
        finally:
            self._let_clock_go()

    def _let_clock_go(self) -> None:
        self._holds -= 1
        if not self._holds and self._held_since is not None:
            self._began += self._clock() - self._held_since
            self._held_since = None
            self._look_again()

    def in_time(self, more: float = 0.0) -> InTime:
        """Break off what is inside when the time is up, or `more` seconds later; raised limits count at once.

        Raises
        ------
        LimitReached
            The time is up.
        """
        return InTime(self, more)

    async def expired(self, more: float = 0.0) -> None:
        """Until the time is up, and `more` seconds; for ever where there is no such limit."""
        with suppress(LimitReached):
            async with self.in_time(more):
                await asyncio.Event().wait()

    def limit(self, limits: Limits) -> None:
        """Other limits from now on; whoever waits for room looks again."""
        self.limits = limits
        self._subcalls_refused = self._subcalls_refused and self.subcalls >= (limits.max_subcalls or self.subcalls + 1)
        self._look_again()

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

    def hold_back(self, word: LastWord, tokens: int, cost: float) -> None:
        """Keep room for a run's last reply free of all other requests; `LastWord.hold` calls this."""
        limits = self.limits
        self._held_tokens -= word.tokens
        self._held_cost -= word.cost
        word.tokens = (
            0 if limits.max_tokens is None else min(tokens, max(limits.max_tokens - self._held_tokens, 0) // 2)
        )
        word.cost = 0.0 if limits.max_cost is None else min(cost, max(limits.max_cost - self._held_cost, 0.0) / 2)
        self._held_tokens += word.tokens
        self._held_cost += word.cost
        self._changed.set()

    def tokens_left(self, own: LastWord | None = None) -> int | None:
        """Return how many tokens requests may still use, those in flight included; `None` without a limit.

        Parameters
        ----------
        own
            The last word of the run that asks: it may use what is held back for it.
        """
        if self.limits.max_tokens is None:
            return None
        held = self._held_tokens - (0 if own is None else own.tokens)
        return max(self.limits.max_tokens - self.usage.total_tokens - held, 0)

    def money_left(self, own: LastWord | None = None) -> float | None:
        """Return how many US dollars requests may still cost; else as `tokens_left`."""
        if self.limits.max_cost is None:
            return None
        held = self._held_cost - (0.0 if own is None else own.cost)
        return max(self.limits.max_cost - (self.cost or 0.0) - held, 0.0)

    @asynccontextmanager
    async def request(
        self, most: Usage, cost: float | None = None, *, model: str = "", own: LastWord | None = None
    ) -> AsyncIterator[Bill]:
        """Reserve the most that a request can use, and settle what it did use on leaving.

        Parameters
        ----------
        most, cost
            What the request can use; `cost` in US dollars, `None` when unknown.
        model
            Who is asked, by name: one that bills more than it was asked for is named in `overbilled`.
        own
            The last word of the run whose own reply this is; a sub-call has none.

        Raises
        ------
        LimitReached
            It would not fit, even with nothing else in flight; or the time is up.
        """
        excess = self._excess.get(model, 1.0)
        tokens, price = int(most.total_tokens * excess), (cost or 0.0) * excess
        if self._queue.locked() or not self._take(tokens, price, own):
            async with self.in_time():
                await self._reserve(tokens, price, own)
        entry = Bill()
        try:
            yield entry
        finally:
            self._reserved_tokens -= tokens
            self._reserved_cost -= price
            self.usage += entry.usage
            self.cost = None if self.cost is None or entry.cost is None else self.cost + entry.cost
            self._changed.set()
            self._compare(model, entry, most, cost)

    def pace(self, provider: str, slots: int | None = None) -> Pace:
        """How fast a provider is asked; by its address, as it refuses everybody when it refuses one request.

        Parameters
        ----------
        slots
            How many requests it serves at once, where that is known: what waits there may time out, here it can't.
        """
        if (pace := self._paces.get(provider)) is None:
            most = self.limits.concurrency
            pace = self._paces[provider] = Pace(min(most, slots or most), self._clock)
        return pace

    @asynccontextmanager
    async def turn(self, pace: Pace, *, again: bool = False) -> AsyncIterator[None]:
        """Wait until a request may be sent; held while it is in flight.

        Parameters
        ----------
        pace
            Of the provider.
        again
            It was refused before, so it goes first.

        Raises
        ------
        LimitReached
            The time is up, or will be before the provider wants to be asked again.
        """
        if pace.is_open and not self._slots.locked():  # nobody is waited for
            async with pace.turn(again=again), self._slots:
                yield
            return
        async with AsyncExitStack() as stack:
            async with self.in_time():
                self.check_rest(pace)
                await stack.enter_async_context(pace.turn(again=again))
                await stack.enter_async_context(self._slots)
            yield

    def check_rest(self, pace: Pace) -> None:
        """Refuse to wait for a provider that is not to be asked again before the time is up; for all who do.

        Raises
        ------
        LimitReached
            There is no use in waiting.
        """
        rest, left = pace.rest, self.seconds_left
        if not rest or left is None or rest < left or self._held_since is not None:
            return

        def refusal() -> LimitReached:
            return LimitReached(
                f"the provider wants to be asked again in {rest:.0f} s, and {max(left, 0):.0f} s are left",
                stop_reason="seconds",
            )

        pace.fail(refusal)
        raise refusal()

    def delay(self, request: object, text: str) -> None:
        """Say why a request waits; with an empty text, that it goes on."""
        before = self._delayed
        if text:
            self._delays[request] = text
        else:
            self._delays.pop(request, None)
        if self._delayed != before:
            self.on_delay(self._delayed)

    @property
    def _delayed(self) -> str:
        return next(iter(self._delays.values()), "")

    @asynccontextmanager
    async def kernel(self, depth: int) -> AsyncIterator[None]:
        """Hold a place for a child's kernel, counted per depth.

        A kernel is held while its own children run, so a common pool could fill up with parents that wait.
        With one pool for each depth the deepest can always go on, and so can everybody above.

        Raises
        ------
        LimitReached
            The time is up, and there was none.
        """
        limits = self.limits
        places = max(1, (limits.max_kernels - self.roots) // max(1, limits.max_depth - 1))
        async with AsyncExitStack() as stack:
            async with self.in_time():
                await stack.enter_async_context(self._kernels.setdefault(depth, asyncio.Semaphore(places)))
            yield

    def _compare(self, model: str, entry: Bill, most: Usage, cost: float | None) -> None:
        """Whether a provider kept to what it was asked for."""
        billed = entry.usage
        excess = billed.total_tokens / max(most.total_tokens, 1)
        if cost and entry.cost is not None:
            excess = max(excess, entry.cost / cost)
        if billed.output_tokens > most.output_tokens:
            what = f"{billed.output_tokens:,} output tokens where {most.output_tokens:,} were allowed"
        elif excess > 1 + _ROUNDING:
            what = f"{billed.total_tokens:,} tokens for a request that has {most.total_tokens:,} at most"
        else:
            return
        self._excess[model] = max(excess, self._excess.get(model, 1.0))
        if model not in self.overbilled:
            log.warning("%s billed %s.", model, what)
        self.overbilled[model] = f"{model} billed {what}"

    def watch(self, timeout: asyncio.Timeout, more: float) -> None:
        """See to it that this ends with the time that is left, and so many seconds, until it is let go."""
        self._timeouts[timeout] = more
        self._set(timeout, more)

    def let_go(self, timeout: asyncio.Timeout) -> None:
        """End it."""
        self._timeouts.pop(timeout, None)

    def _look_again(self) -> None:
        """Limits or clock have changed: whoever waits looks again."""
        self._changed.set()
        for timeout, more in self._timeouts.items():
            self._set(timeout, more)

    def _set(self, timeout: asyncio.Timeout, more: float) -> None:
        left = None if self._held_since is not None else self.seconds_left
        if left is not None and not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time() + max(left + more, 0.0))
        elif timeout.when() is not None and not timeout.expired():
            timeout.reschedule(None)

    def excess(self, model: str) -> float:
        """Return how many times over a model bills what it may use, 1.0 for one that keeps to it."""
        return self._excess.get(model, 1.0)

    async def _reserve(self, tokens: int, cost: float, own: LastWord | None) -> None:
        # first come, first served: only the head of the queue looks again when something is settled
        async with self._queue:
            while not self._take(tokens, cost, own):
                self._changed.clear()
                await self._changed.wait()

    def _take(self, tokens: int, cost: float, own: LastWord | None) -> bool:
        """Reserve this if there is room now."""
        if not self._fits(tokens, cost, own):
            return False
        self._reserved_tokens += tokens
        self._reserved_cost += cost
        return True

    def _fits(self, tokens: int, cost: float, own: LastWord | None) -> bool:
        """Whether there is room now; raises where nothing in flight could make any."""
        limits = self.limits
        left, money = self.tokens_left(own), self.money_left(own)
        if left is not None and tokens > left:
            held = self._held_tokens - (0 if own is None else own.tokens)
            raise LimitReached(
                f"a request may use {tokens:,} tokens, and {left:,} of {limits.max_tokens:,} are left"
                + (f" ({held:,} more are held back for the answer)" if held else ""),
                stop_reason="tokens",
            )
        if money is not None and cost > money + _ROUNDING:
            back = self._held_cost - (0.0 if own is None else own.cost)
            raise LimitReached(
                f"a request may cost ${cost:.4f}, and ${money:.4f} of ${limits.max_cost:.4f} are left"
                + (f" (${back:.4f} more are held back for the answer)" if back else ""),
                stop_reason="cost",
            )
        has_tokens = left is None or tokens <= left - self._reserved_tokens
        return has_tokens and (money is None or cost <= money + _ROUNDING - self._reserved_cost)


class InTime:
    """What ends with the time that is left. A class, not a generator: each request in flight holds one."""

    __slots__ = ("_ledger", "_more", "_timeout")

    def __init__(self, ledger: Ledger, more: float) -> None:
        self._ledger = ledger
        self._more = more
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._ledger.watch(self._timeout, self._more)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.let_go(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise LimitReached("the time is up", stop_reason="seconds") from None
