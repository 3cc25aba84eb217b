"""`Clients`: one SDK client for each event loop, open for as long as somebody holds a lease."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rlm_jupyter.models.allowance import bounds
from rlm_jupyter.models.endpoint import on_this_machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


TIMEOUTS: dict[str, float | None] = {"timeout": None, "connect": 5.0}
"""For the SDK's HTTP client: how long it may be silent is watched by `Listener`."""


def http_arguments(url: str) -> dict[str, Any]:
    """Return arguments for the HTTP client of an SDK that sends to this address."""
    return {
        # a proxy that the environment names can't reach this machine from where it is
        "trust_env": not on_this_machine(url),
        # a key is for the address that it was given for
        "follow_redirects": False,
        **bounds(),
    }


class Closable(Protocol):
    """What an SDK's asynchronous client has in common with the others."""

    def close(self) -> Awaitable[None]:
        """Close all connections."""
        ...


C = TypeVar("C", bound=Closable)


@dataclass(slots=True)
class _Held(Generic[C]):
    client: C | None = None
    leases: int = 0
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)


class Clients(Generic[C]):
    """Clients by event loop: a connection pool can't serve two loops, and a run may live in a thread's own.

    Parameters
    ----------
    open_client
        Makes a client; awaited in the loop that will use it.
    """

    def __init__(self, open_client: Callable[[], Awaitable[C]]) -> None:
        self._open_client = open_client
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[C]] = WeakKeyDictionary()
        self._lock = Lock()  # loops may run in several threads

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[C]:
        """Hold this loop's client open. Leases nest; the last one out closes it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            held = self._held.setdefault(loop, _Held())
        held.leases += 1
        try:
            async with held.opening:
                if held.client is None:
                    held.client = await self._open_client()
            yield held.client
        finally:
            held.leases -= 1
            if not held.leases:
                with self._lock:
                    self._held.pop(loop, None)
                if held.client is not None:
                    await held.client.close()
