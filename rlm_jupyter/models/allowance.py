"""`Allowance`: how many bytes a server may send for one request, counted before an SDK buffers them.

The bound follows from the reply's cap in tokens. Beyond it the response ends for the SDK, and its connection is
closed; whoever has sent the request sees why in `problem`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Protocol

_BYTES = 4 << 20
_TOKEN_BYTES = 4 << 10
"""For each token of the cap. One is streamed as an event of its own: 100 to 400 bytes, with the probabilities of
twenty others and a content filter's findings up to 3,000."""
_EVENT_BYTES = 256 << 10
_EVENT_TOKEN_BYTES = 128
"""A server may send its whole reply as one event. Parsed, one takes up to thirty times the memory, and an SDK may
take a time that grows with the square of its lines."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_HEAD_BYTES = 16 << 10
_MB = 1 << 20


class Allowance:
    """The bytes of one request's response.

    Parameters
    ----------
    cap
        Of the reply, in tokens.
    """

    def __init__(self, cap: int) -> None:
        self.problem = ""
        """Why the response was cut off; empty: it was not."""
        self.responded = False
        """The server has begun to answer."""
        self.head = b""
        """How its answer begins: all of it, where it only says why there is no reply."""
        self._most = _BYTES + _TOKEN_BYTES * cap
        self._most_of_event = _EVENT_BYTES + _EVENT_TOKEN_BYTES * cap
        self._cap = cap
        self._bytes = 0
        self._of_event = 0
        self._tail = b""

    def takes(self, chunk: bytes) -> bool:
        """Count what has come. `False`: it is too much."""
        self._bytes += len(chunk)
        if len(self.head) < _HEAD_BYTES:
            self.head += chunk[: _HEAD_BYTES - len(self.head)]
        joined = self._tail + chunk
        end = max(joined.rfind(mark) for mark in _EVENT_ENDS)
        self._of_event = self._of_event + len(chunk) if end < 0 else len(joined) - end
        self._tail = joined[-3:]
        if self._bytes > self._most:
            self.problem = f"sent more than {self._most / _MB:.0f} MB for a reply of at most {self._cap:,} tokens"
        elif self._of_event > self._most_of_event:
            self.problem = f"sent more than {self._most_of_event / _MB:.1f} MB in one piece without an end"
        return not self.problem

    def takes_headers(self, headers: Mapping[str, str]) -> bool:
        """Look at a response before its body comes. `False`: it is compressed, and may become any size."""
        self.responded = True
        encoding = " ".join(headers.get("content-encoding", "identity").split())[:40]
        if encoding.lower() not in {"identity", ""}:
            self.problem = f"sent a compressed reply ({encoding}), which was not asked for"
        return not self.problem


_current: ContextVar[Allowance] = ContextVar("allowance")


def allow(cap: int) -> Allowance:
    """Set the bound of the requests that this task sends from now on."""
    allowance = Allowance(cap)
    _current.set(allowance)
    return allowance


class _Response(Protocol):
    headers: Mapping[str, str]
    stream: Any


class _Bounded:
    """A response's body, up to what is allowed."""

    def __init__(self, stream: Any, allowance: Allowance, *, empty: bool) -> None:
        self._stream, self._allowance, self._empty = stream, allowance, empty

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._empty:
            return
        async for chunk in self._stream:
            if not self._allowance.takes(chunk):
                return
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def _bounded(library: str) -> type[_Bounded]:
    """Return the class whose instances are streams for that HTTP library: SDKs use `httpx`, newer ones `httpx2`."""
    return type("Bounded", (_Bounded, import_module(library).AsyncByteStream), {})


async def _bound(response: _Response) -> None:
    allowance = _current.get()
    library = type(response).__module__.partition(".")[0]
    fine = allowance.takes_headers(response.headers)
    response.stream = _bounded(library)(response.stream, allowance, empty=not fine)


def bounds() -> dict[str, Any]:
    """Return arguments for an SDK's HTTP client: it counts, and asks for nothing compressed."""
    return {"event_hooks": {"response": [_bound]}, "headers": {"accept-encoding": "identity"}}
