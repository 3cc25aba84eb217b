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
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from aiohttp import web

KEY = "sk-loopback-0123456789"
"""A key for tests; the server takes any, unless it was given the one that it wants."""
PIECES = 3
CHARS_PER_TOKEN = 2
"""Fewer than anybody expects of English: as a tokenizer has it for tables, code and other languages."""


@dataclass(frozen=True)
class Fault:
    """Something that a server does instead of replying."""

    code: int = 0
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: str = ""
    """`before`: no response at all; `early`: a stream without text; `middle`: after some text; `end`: the
    stream ends in good order, but without saying that the reply did; `error`: the error is sent inside; `stall`:
    after some text nothing more comes, and the connection stays open."""
    text: str = ""
    raw: Iterable[bytes] | None = None
    """Sent as the body, as it is, with status `code`; it may have no end."""

    @classmethod
    def sends(cls, *raw: bytes, code: int = 200, headers: dict[str, str] | None = None) -> Fault:
        """Whatever a server may send; by default as a stream of events."""
        return cls(code, headers={"content-type": "text/event-stream", **(headers or {})}, raw=raw)

    @classmethod
    def status(cls, code: int, message: str = "scripted failure", *, retry_after: float | None = None) -> Fault:
        """An HTTP error."""
        kinds = {
            401: "authentication_error",
            404: "not_found_error",
            429: "rate_limit_error",
            529: "overloaded_error",
        }
        error = {
            "message": message,
            "type": kinds.get(code, "api_error" if code >= 500 else "invalid_request_error"),
        }
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        return cls(code, {"type": "error", "error": error}, headers)

    @classmethod
    def overflow(cls, tokens: int, window: int) -> Fault:
        """The prompt is too long, as llama.cpp says it."""
        error = {
            "code": 400,
            "message": f"request ({tokens} tokens) exceeds the available context size ({window} tokens)",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens,
            "n_ctx": window,
        }
        return cls(400, {"error": error})

    @classmethod
    def dropped(cls, where: str, text: str = "The beginning of a reply that ") -> Fault:
        """The connection breaks off; `where` as in `drop`."""
        return cls(drop=where, text=text)


@dataclass(frozen=True)
class Said:
    """A reply with more to it than its text."""

    text: str
    finish: str = "stop"
    """In OpenAI's words: `stop`, `length`, `content_filter`."""
    input_tokens: int = 100
    """All that was read, cached tokens included."""
    output_tokens: int = 10
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    uncounted_thinking: int = 0
    """Tokens that only the total has (as at Gemini's endpoint)."""
    thinking: str = ""
    counted: bool = True
    """Whether usage is told at all (OpenAI's side only)."""
    logprobs: tuple[float, ...] = ()
    """Of the tokens, told where they are asked for (OpenAI's side only); one for each piece, in turn."""
    delay: float = 0.0
    """Seconds between pieces."""
    pieces: int = PIECES
    """In which it is streamed."""


Scripted = str | Said | Fault | Callable[[list[dict[str, str]]], "str | Said"]


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, str]]:
        """Role and text, the system message first, whichever wire it came over."""
        system = self.body.get("system")
        first = [{"role": "system", "content": _text(system)}] if system else []
        return first + [{"role": m["role"], "content": _text(m["content"])} for m in self.body["messages"]]


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
                return web.json_response((_anthropic_whole if anthropic else _openai_whole)(said, request))
            return await self._stream(http, (_anthropic_events if anthropic else _openai_events)(said, request), said)
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


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _pieces(text: str, pieces: int) -> Sequence[str]:
    size = max(-(-len(text) // pieces), 1)
    return [text[i : i + size] for i in range(0, len(text), size)]


def _sse(data: dict[str, Any], event: str = "") -> bytes:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(data)}\n\n".encode()


def _openai_usage(said: Said) -> dict[str, Any] | None:
    if not said.counted:
        return None
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens + said.uncounted_thinking,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": said.reasoning_tokens},
    }


def _openai_whole(said: Said, request: Request) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said.text},
        "finish_reason": said.finish,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", "deployment"),
        "choices": [choice],
        "usage": _openai_usage(said),
    }


def _openai_events(said: Said | Fault, request: Request) -> Iterator[bytes]:
    model = request.body.get("model", "deployment")
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: dict[str, str], finish: str | None = None, logprob: float | None = None) -> bytes:
        told = None if logprob is None else {"content": [{"token": "", "logprob": logprob, "top_logprobs": []}]}
        return _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": told}]})

    yield chunk({"role": "assistant", "content": ""})
    if isinstance(said, Fault):
        if said.drop != "early":
            yield chunk({"content": said.text})
        if said.drop == "error":
            yield _sse({"error": {"message": "out of memory", "type": "server_error"}})
        return
    if said.thinking:
        yield chunk({"reasoning_content": said.thinking})
    logprobs = itertools.cycle(said.logprobs if request.body.get("logprobs") and said.logprobs else (None,))
    for piece, logprob in zip(_pieces(said.text, said.pieces), logprobs, strict=False):
        yield chunk({"content": piece}, None, logprob)
    yield chunk({}, said.finish)
    if said.counted and request.body.get("stream_options", {}).get("include_usage"):
        yield _sse({**base, "choices": [], "usage": _openai_usage(said)})
    yield b"data: [DONE]\n\n"


_ANTHROPIC_FINISH = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.input_tokens - said.cached_tokens - said.cache_write_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": said.cache_write_tokens,
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"thinking_tokens": said.reasoning_tokens},
    }


def _anthropic_message(request: Request, content: list[dict[str, Any]], stop: str | None, usage: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _anthropic_whole(said: Said, request: Request) -> dict[str, Any]:
    content = [{"type": "text", "text": said.text}] if said.text else []
    return _anthropic_message(request, content, _ANTHROPIC_FINISH[said.finish], _anthropic_usage(said))


def _anthropic_events(said: Said | Fault, request: Request) -> Iterator[bytes]:
    def block(index: int, kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
        empty = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
        yield _sse({"type": "content_block_start", "index": index, "content_block": empty}, "content_block_start")
        for piece in pieces:
            delta = {"type": f"{kind}_delta", kind: piece}
            yield _sse({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")

    usage = _anthropic_usage(said if isinstance(said, Said) else Said(""))
    start = _anthropic_message(request, [], None, {**usage, "output_tokens": 1})
    yield _sse({"type": "message_start", "message": start}, "message_start")
    if isinstance(said, Fault):
        if said.drop != "early":
            yield from block(0, "text", [said.text])
        if said.drop == "error":
            yield _sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error")
        return
    index = 0
    for kind, text in (("thinking", said.thinking), ("text", said.text)):
        if text:
            yield from block(index, kind, _pieces(text, said.pieces))
            yield _sse({"type": "content_block_stop", "index": index}, "content_block_stop")
            index += 1
    ending = {"stop_reason": _ANTHROPIC_FINISH[said.finish], "stop_sequence": None}
    yield _sse({"type": "message_delta", "delta": ending, "usage": usage}, "message_delta")
    yield _sse({"type": "message_stop"}, "message_stop")


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
