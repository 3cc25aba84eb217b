"""A model server on 127.0.0.1 for tests: real HTTP, scripted replies, and the ways in which servers fail.

It speaks OpenAI's chat completions (`/v1`, and Azure's deployments) and Anthropic's messages (at the root),
streamed and whole, so that the real SDKs run against it unchanged:

    with Loopback(["first reply", Fault.status(429, retry_after=1), "second reply"]) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="k")

`python -m tests.support.loopback --play DIR` lets a person, or a program, be the model: each request is written to
`DIR/request-N.txt` (`subcall-N.txt` for a lone user message), and the reply is read from `DIR/reply-N.txt`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from aiohttp import web

from tests.support.loopback_replies import Fault as Fault
from tests.support.loopback_replies import Request as Request
from tests.support.loopback_replies import Said as Said
from tests.support.loopback_replies import Scripted as Scripted
from tests.support.provider_formats import anthropic_events, anthropic_whole, openai_events, openai_whole

KEY = "sk-loopback-0123456789"
"""A key for tests; the server takes any, unless it was given the one that it wants."""
CHARS_PER_TOKEN = 2
"""Fewer than anybody expects of English: as a tokenizer has it for tables, code and other languages."""


class Loopback:
    """The server, in a thread of its own, for the length of a `with` block.

    Parameters
    ----------
    replies
        Played in order, the last one for ever; functions are given the messages.
    key
        The one key that is accepted; `None`: any.
    n_ctx
        What `/v1/models` tells of the window, as llama.cpp does; `None`: there is no such page.
    holds
        The tokens that it really takes, at `CHARS_PER_TOKEN`: a longer conversation is refused as llama.cpp refuses it.
    alternates
        Refuse what the strictest servers refuse: all but one system message first, then user and assistant in turn.
    port
        `0`: any that is free.
    """

    def __init__(
        self,
        replies: Iterable[Scripted] = ("ok",),
        *,
        key: str | None = None,
        n_ctx: int | None = None,
        holds: int | None = None,
        alternates: bool = False,
        port: int = 0,
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        """How many are open now."""
        self.abandoned = 0
        """Requests whose client left before the reply's end."""
        self.sent = 0
        """Bytes of raw bodies."""
        self.most_at_once = 0
        """How many requests were in flight together, at most."""
        self._replies = list(replies)
        self._key, self._n_ctx, self._port = key, n_ctx, port
        self._holds, self._alternates = holds, alternates
        self._in_flight = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="loopback", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30), "the loopback server did not come up"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def reply_to(self, request: Request) -> Said | Fault:
        """What is said to a request; the interactive server overrides it."""
        scripted = self._replies[min(len(self.requests) - 1, len(self._replies) - 1)]
        if callable(scripted):
            scripted = scripted(request.messages)
        return Said(scripted) if isinstance(scripted, str) else scripted

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/openai/deployments/{deployment}/chat/completions", self._answer)
        app.router.add_post("/v1/messages", self._answer)
        self.routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        while not self._stop.is_set():
            assert runner.server is not None
            self.connections = len(runner.server.connections)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 0.02)
        await runner.cleanup()

    def routes(self, app: web.Application) -> None:
        """Further pages; servers that say more of themselves override it."""
        if self._n_ctx:
            app.router.add_get("/v1/models", self._models)

    async def _models(self, request: web.Request) -> web.Response:
        entry = {
            "id": "local",
            "object": "model",
            "created": 0,
            "owned_by": "us",
            "meta": {"n_ctx": self._n_ctx},
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        request = Request(http.path_qs, dict(http.headers), await http.json())
        self.requests.append(request)
        self._in_flight += 1
        self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            said = self._refusal(request) or _continued(await self.reply_to(request), request)
            if isinstance(said, Fault) and said.raw is not None:
                return await self._send(http, said, said.raw)
            if isinstance(said, Fault) and not said.drop:
                return web.json_response(said.body, status=said.code, headers=said.headers)
            if isinstance(said, Fault) and said.drop == "before":
                _cut(http)
                return web.Response()
            anthropic = http.path.endswith("/messages")
            if not request.body.get("stream"):
                assert isinstance(said, Said)
                return web.json_response((anthropic_whole if anthropic else openai_whole)(said, request))
            return await self._stream(http, (anthropic_events if anthropic else openai_events)(said, request), said)
        except (asyncio.CancelledError, ConnectionResetError):
            self.abandoned += 1
            raise
        finally:
            self._in_flight -= 1

    async def _send(self, http: web.Request, fault: Fault, raw: Iterable[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(status=fault.code, headers=fault.headers)
        await response.prepare(http)
        for piece in raw:
            await response.write(piece)
            self.sent += len(piece)
        return response

    async def _stream(self, http: web.Request, events: Iterator[bytes], said: Said | Fault) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(http)
        for event in events:
            await response.write(event)
            if isinstance(said, Said):
                await asyncio.sleep(said.delay)
        if isinstance(said, Fault) and said.drop == "stall":
            await asyncio.Event().wait()
        if isinstance(said, Fault) and said.drop in {"early", "middle"}:
            await asyncio.sleep(0.02)  # so that what was written is on its way
            _cut(http)
        return response

    def _refusal(self, request: Request) -> Fault | None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        given = (
            headers.get("x-api-key")
            or headers.get("api-key")
            or headers.get("authorization", "").removeprefix("Bearer ")
        )
        if self._key is not None and given != self._key:
            return Fault.status(401, f"Incorrect API key provided: {given}")
        roles = [message["role"] for message in request.messages]
        if roles[-2:] == ["assistant", "assistant"]:
            return Fault.status(400, "Cannot have 2 or more assistant messages at the end of the list.")
        turns = roles[1:] if roles[:1] == ["system"] else roles
        if self._alternates and turns != ["user", *["assistant", "user"] * (len(turns) // 2)]:
            return Fault.status(400, f"Conversation roles must alternate user/assistant and end with user: {roles}")
        tokens = sum(len(message["content"]) for message in request.messages) // CHARS_PER_TOKEN
        if self._holds is not None and tokens >= self._holds:
            return Fault.overflow(tokens, self._holds)
        return None


class Player(Loopback):
    """The interactive server: whoever writes the reply files is the model.

    Parameters
    ----------
    directory
        Where requests are written and replies are awaited.
    """

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        super().__init__(port=port)
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    async def reply_to(self, request: Request) -> Said | Fault:
        number = len(self.requests)
        kind = "subcall" if [m["role"] for m in request.messages] == ["user"] else "request"
        text = "\n\n".join(f"=== {m['role']} ===\n{m['content']}" for m in request.messages)
        (self._directory / f"{kind}-{number}.json").write_text(json.dumps(request.body, indent=1, ensure_ascii=False))
        (self._directory / f"{kind}-{number}.txt").write_text(text)
        print(f"{kind}-{number}: {len(text):,} characters; waiting for reply-{number}.txt", flush=True)
        waited = self._directory / f"reply-{number}.txt"
        while not waited.exists():
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)  # it may still be being written
        return Said(waited.read_text(), input_tokens=len(text) // 4)


def _continued(said: Said | Fault, request: Request) -> Said | Fault:
    """A last message of the assistant's is a prefill: the reply goes on from it, and begins with its text."""
    last = request.messages[-1] if request.messages else {"role": "", "content": ""}
    if isinstance(said, Fault) or last["role"] != "assistant":
        return said
    return replace(said, text=last["content"] + said.text)


def _cut(http: web.Request) -> None:
    """Close the connection as a crash would: no last chunk, no farewell."""
    assert http.transport is not None
    http.transport.abort()


def main() -> None:
    """Serve until interrupted, a person being the model."""
    parser = argparse.ArgumentParser(description="Be the model: read requests as files, write replies as files.")
    parser.add_argument("--play", type=Path, required=True, metavar="DIR", help="where the files are")
    parser.add_argument("--port", type=int, default=8089)
    options = parser.parse_args()
    with Player(options.play, port=options.port) as server, suppress(KeyboardInterrupt):
        print(f"OpenAI at {server.openai_url}, Anthropic at {server.url}; files in {options.play}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
