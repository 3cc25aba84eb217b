"""`Deadline`: how long a tree of runs may take, and what ends with that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from rlm_jupyter.types.errors import LimitReached, ModelUnavailableError

TIME_IS_UP = "the time is up"
"""Says no more than the stop reason does."""


class Deadline:
    """A clock that stands still while a person is waited for.

    Parameters
    ----------
    most
        Seconds; `None`: there is no deadline.
    clock
        Seconds, monotonic.
    """

    def __init__(self, most: float | None, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._began = clock()
        self._held_since: float | None = None
        self._holds = 0
        self._timeouts: dict[asyncio.Timeout, float] = {}
        """Of those who wait, or are at work, for no longer than the time that is left, and so many seconds more."""

    @property
    def seconds(self) -> float:
        """Since the clock was started."""
        return (self._clock() if self._held_since is None else self._held_since) - self._began

    @property
    def left(self) -> float | None:
        """Seconds until it is reached; `None`: it never is."""
        return None if self._most is None else self._most - self.seconds

    @property
    def is_held(self) -> bool:
        """Whether the clock stands still."""
        return self._held_since is not None

    def has(self, seconds: float) -> bool:
        """Return whether more than so many seconds are left."""
        return self.left is None or self.left > seconds

    def limit(self, most: float | None) -> None:
        """Set another one, which counts at once."""
        self._most = most
        self._look_again()

    def carry_on(self, seconds: float) -> None:
        """Let the clock go on from so many seconds, now."""
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
        """Break off what is inside when the time is up, or `more` seconds later; another deadline counts at once.

        Raises
        ------
        LimitReached
            The time is up.
        """
        return InTime(self, more)

    async def expired(self, more: float = 0.0) -> None:
        """Wait until the time is up, and `more` seconds; for ever where there is no deadline."""
        with suppress(LimitReached):
            async with self.in_time(more):
                await asyncio.Event().wait()

    def watch(self, timeout: asyncio.Timeout, more: float) -> None:
        """See to it that this ends with the time that is left, and so many seconds, until `unwatch`."""
        self._timeouts[timeout] = more
        self._set(timeout, more)

    def unwatch(self, timeout: asyncio.Timeout) -> None:
        """Stop adjusting this timeout."""
        self._timeouts.pop(timeout, None)

    def _look_again(self) -> None:
        for timeout, more in self._timeouts.items():
            self._set(timeout, more)

    def _set(self, timeout: asyncio.Timeout, more: float) -> None:
        left = None if self.is_held else self.left
        if left is not None and not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time() + max(left + more, 0.0))
        elif timeout.when() is not None and not timeout.expired():
            timeout.reschedule(None)


class InTime:
    """What ends with the time that is left. A class, not a generator: each request in flight holds one."""

    __slots__ = ("_deadline", "_more", "_timeout")

    def __init__(self, deadline: Deadline, more: float) -> None:
        self._deadline = deadline
        self._more = more
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._deadline.watch(self._timeout, self._more)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline.unwatch(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise LimitReached(TIME_IS_UP, stop_reason="seconds") from None


@contextmanager
def naming(failure: ModelUnavailableError | None, tries: int) -> Iterator[None]:
    """Name the failure that is retried inside, after so many tries, where the time is up: it is why it took so long.

    Raises
    ------
    LimitReached
        A limit was reached inside.
    """
    try:
        yield
    except LimitReached as limit:
        if failure is None or limit.stop_reason != "seconds":
            raise
        retrying = f"while retrying, {tries} {'try' if tries == 1 else 'tries'} so far"
        why = retrying if str(limit) == TIME_IS_UP else f"{limit}, {retrying}"
        raise LimitReached(f"{why}: {failure}", stop_reason="seconds") from None
