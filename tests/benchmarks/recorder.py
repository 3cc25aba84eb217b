"""`Recorder`: a proxy on 127.0.0.1 in front of a model server, which counts what one run asks of it.

Each system counts in its own way, or not at all where it raises. So what is compared is what the server says of
every request (`usage`, and llama.cpp's `timings`), read here as it passes; nothing is changed on its way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

_OF_A_CONNECTION = {"connection", "host", "keep-alive", "transfer-encoding", "accept-encoding"}
"""Headers that are not passed on; without the last one, nothing comes compressed."""


@dataclass
class Asked:
    """A request for a reply, and what came of it."""

    messages: list[dict[str, Any]]
    status: int = 0
    """0: no reply began."""
    reply: str = ""
    read: int | None = None
    """Tokens of the prompt, cached ones included; `None`: not known."""
    cached: int | None = None
    written: int = 0
    is_whole: bool = False
    """Whether the reply came to its end; else `written` counts its pieces, one token each."""
    seconds: float = 0.0

    @property
    def is_root(self) -> bool:
        """Whether the loop asks; its sub-calls have no system message, in any of the systems."""
        return bool(self.messages) and self.messages[0].get("role") == "system"


@dataclass
class Recorder:
    """The proxy, while an `async with` block lasts.

    Parameters
    ----------
    server
        Where the model is served, with the `/v1`.
    """

    server: str
    asked: list[Asked] = field(default_factory=list)
    """In the order in which they came."""
    url: str = ""
    """What is given to a system in place of `server`."""

    async def __aenter__(self) -> Self:
        root = urlsplit(self.server)
        self._root = f"{root.scheme}://{root.netloc}"
        # a connection each: one that is kept may be closed by the server as the next request is on its way
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._forward)
        # a system that closes a stream closes it at the server, too
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{root.path}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()
        for asked in self.asked:
            if asked.read is None and asked.status == 200:
                asked.read = await self._count(asked.messages)
        await self._session.close()

    async def _forward(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        asked = Asked(_messages(body)) if http.path.endswith("/chat/completions") else None
        if asked is not None:
            self.asked.append(asked)
        seen = bytearray()
        began = time.monotonic()
        try:
            headers = _passed(http.headers)
            async with self._session.request(
                http.method, self._root + http.path_qs, data=body, headers=headers
            ) as back:
                response = web.StreamResponse(status=back.status, headers=_passed(back.headers))
                if asked is not None:
                    asked.status = back.status
                await response.prepare(http)
                async for piece in back.content.iter_any():
                    seen += piece
                    await response.write(piece)
                await response.write_eof()
                return response
        except aiohttp.ClientConnectorError as error:
            return web.json_response({"error": {"message": str(error)}}, status=502)
        finally:
            if asked is not None:
                asked.seconds = time.monotonic() - began
                _read(asked, bytes(seen))

    async def _count(self, messages: list[dict[str, Any]]) -> int | None:
        """How long a prompt was whose usage was never told, since its reply was broken off; llama.cpp can say it."""
        with suppress(aiohttp.ClientError, KeyError, ValueError):
            prompt = await self._post("apply-template", {"messages": messages})
            counted = await self._post("tokenize", {"content": prompt["prompt"], "parse_special": True})
            return len(counted["tokens"])
        return None

    async def _post(self, page: str, body: dict[str, Any]) -> Any:
        async with self._session.post(f"{self._root}/{page}", json=body) as back:
            back.raise_for_status()
            return await back.json()


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_A_CONNECTION}


def _messages(body: bytes) -> list[dict[str, Any]]:
    with suppress(ValueError, AttributeError):
        return [message for message in json.loads(body).get("messages", []) if isinstance(message, dict)]
    return []


def _read(asked: Asked, seen: bytes) -> None:
    """Take from a response what it says of itself, as far as it came."""
    for page in _pages(seen):
        _count_in(asked, page)
        for choice in page.get("choices") or ():
            said = choice.get("delta") or choice.get("message") or {}
            text = said.get("content") or said.get("reasoning_content") or ""
            asked.reply += said.get("content") or ""
            asked.written += bool(text) and not asked.is_whole
            asked.is_whole = asked.is_whole or bool(choice.get("finish_reason"))


def _count_in(asked: Asked, page: dict[str, Any]) -> None:
    usage, timings = page.get("usage"), page.get("timings")
    if timings:
        asked.cached = timings.get("cache_n", 0)
        asked.read, asked.written = asked.cached + timings.get("prompt_n", 0), timings.get("predicted_n", 0)
        asked.is_whole = True
    if usage:
        asked.read, asked.written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        told = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        asked.cached = told if told is not None else asked.cached
        asked.is_whole = True


def _pages(seen: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a response: one, or those of its events; one that was cut in the middle is left out."""
    lines = seen.split(b"\n") if seen.lstrip().startswith((b"data:", b"event:", b":")) else [seen]
    for line in lines:
        with suppress(ValueError):
            page = json.loads(line.removeprefix(b"data:"))
            if isinstance(page, dict):
                yield page
