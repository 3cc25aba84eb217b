"""`RateLimiter`: how many requests one provider is sent at once: fewer after a refusal, more as it serves them.

A provider that says 429, 503, 529 or "overloaded" speaks to everybody who asks it. So the whole tree slows down
together: what may be in flight is halved, nothing is sent before the time that the provider named, and what was
refused goes to the head of the queue. Each full round of successes then lets one more through, more seldom where it
was refused the last time (additive increase, multiplicative decrease, as in TCP).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Hashable

from rlm_jupyter.types.errors import ModelUnavailableError

_REST_SECONDS = 0.1
"""After a refusal that names no time; twice as long after each further one without a success in between."""
_LONGEST_REST = 30.0
_CAREFULLY = 8
"""Rounds of successes that it takes where one more was refused the last time."""


class RateLimiter:
    """The requests to one provider, in order of arrival.

    Parameters
    ----------
    most
        How many may be in flight at once, at best.
    clock
        Seconds, monotonic.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._width = float(most)
        self._refused_at = float("inf")
        """How many were in flight when it was refused last."""
        self._in_flight = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._rests_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._slowed_at = -1.0
        self._refusals = 0
        """Rounds of refusals since the last success."""
        self._refused_since: float | None = None
        self.on_refusal: dict[Hashable, Callable[[float, float], None]] = {}
        """Told of each round of refusals, where other processes ask the same provider, too: the seconds of rest, and
        those that the request took."""

    @property
    def width(self) -> int:
        """How many may be in flight now."""
        return int(self._width)

    @property
    def rest(self) -> float:
        """Seconds until anything is sent again."""
        return max(self._rests_until - self._clock(), 0.0)

    @property
    def refused_for(self) -> float:
        """Seconds since the provider began to refuse everything; 0 while it serves."""
        return 0.0 if self._refused_since is None else self._clock() - self._refused_since

    def fail(self, make: Callable[[], Exception]) -> None:
        """Let everybody who waits for a turn fail: there is no use in waiting."""
        for turn in self._queue:
            if not turn.done():
                turn.set_exception(make())
        self._queue.clear()

    def turn(self, *, again: bool = False) -> Turn:
        """Wait until a request may be sent; how it ends is seen by what is raised inside.

        Parameters
        ----------
        again
            It was refused before, so it goes first.
        """
        return Turn(self, again)

    async def enter(self, again: bool) -> float:
        """Wait for a turn; the time at which it came."""
        if self.is_open:
            self._in_flight += 1
        else:
            await self._wait(again)
        return self._clock()

    def leave(self, sent: float, error: BaseException | None) -> None:
        """Give a turn back.

        Parameters
        ----------
        sent
            What `enter` returned.
        error
            How the request failed, if it did.
        """
        if error is None:
            self._speed_up()
        elif isinstance(error, ModelUnavailableError) and error.overloaded:
            self._slow_down(sent, error.retry_after)
        self._in_flight -= 1
        self._let_in()

    async def _wait(self, again: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queue.appendleft(turn) if again else self._queue.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:  # it had just been let in
                self._in_flight -= 1
            elif turn in self._queue:
                self._queue.remove(turn)
            self._let_in()
            raise

    @property
    def is_open(self) -> bool:
        """Whether one more may be sent at once."""
        return not self._queue and self._has_room

    @property
    def _has_room(self) -> bool:
        return self._in_flight < self.width and not self.rest

    def _let_in(self) -> None:
        while self._queue and self._has_room:
            turn = self._queue.popleft()
            if turn.done():  # whoever waited was cancelled
                continue
            self._in_flight += 1
            turn.set_result(None)
        if self._queue and self.rest and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.rest, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._let_in()

    def _slow_down(self, sent: float, retry_after: float | None) -> None:
        now = self._clock()
        if self._refused_since is None:
            self._refused_since = now
        rest = retry_after or 0.0
        if sent > self._slowed_at:  # those that were sent before it slowed down say the same once more
            if retry_after is None:
                # not all trees of a machine at the same moment
                rest = min(_REST_SECONDS * 2**self._refusals, _LONGEST_REST) * random.uniform(0.75, 1.0)
            self._refusals += 1
            self._slowed_at = now
            self._refused_at = self._in_flight
            self._width = max(min(self._width, self._in_flight) / 2, 1.0)
            for tell in self.on_refusal.values():
                tell(rest, now - sent)
        self._rest_until(now + rest)

    def slow_down_with_others(self, rest: float, refused: float, sent: float) -> None:
        """Do as after a refusal, where another process was refused.

        Parameters
        ----------
        rest
            Seconds for which nothing is sent from now on.
        refused, sent
            How many seconds ago that was, and its request was sent.
        """
        now = self._clock()
        if now - sent > self._slowed_at:  # as of one's own: else it is the same once more
            self._slowed_at = max(now - refused, self._slowed_at)
            self._width = max(self._width / 2, 1.0)
        self._rest_until(now + rest)
        self._let_in()

    def narrow(self, most: int) -> None:
        """Send no more than so many at once from now on."""
        self._most = min(self._most, most)
        self._width = min(self._width, self._most)

    def _rest_until(self, when: float) -> None:
        self._rests_until = max(self._rests_until, when)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _speed_up(self) -> None:
        self._refusals, self._refused_since = 0, None
        rounds = _CAREFULLY if self._width + 1 >= self._refused_at else 1
        self._width = min(self._width + 1 / (rounds * self._width), self._most)


class Turn:
    """One request's turn. A class, not a generator: a batch of sub-calls has hundreds of them at once."""

    __slots__ = ("_again", "_rate_limiter", "_sent")

    def __init__(self, rate_limiter: RateLimiter, again: bool) -> None:
        self._rate_limiter = rate_limiter
        self._again = again

    async def __aenter__(self) -> None:
        self._sent = await self._rate_limiter.enter(self._again)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._rate_limiter.leave(self._sent, error)
