"""Whatever a provider sends becomes a reply or one error of ours: mutated streams of both wires, through the SDKs."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from rlm_jupyter.models import load_model
from rlm_jupyter.models.allowance import Allowance
from rlm_jupyter.models.client_pool import http_arguments
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.types.errors import ContextWindowError, ModelError, ModelUnavailableError
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import Message, Reply
from tests.support.loopback import KEY, Fault, Loopback, Request, Said
from tests.support.provider_formats import anthropic_events, openai_events

ASK = [Message("user", "What is it, and why? " * 10)]
STREAMS = 1500
"""For each wire."""
DEEP = "[" * 100_000 + "]" * 100_000
ODD: tuple[str, ...] = (
    "null", "true", "0", "-1", "-5.5", "1e400", "-1e400", "NaN", "12.0", "1" + "0" * 30, "1" * 5000, '""', '"5"', '"x"',
    '"\\ud800"', '"\\u0000\\n\\u001b[2J"', "[]", "[null]", "[1,2]", '[{"a":1}]', "{}", '{"a":{"b":[]}}', "[" * 900 + "]" * 900,
    '{"a":' * 900 + "1" + "}" * 900, json.dumps("long " * 5000),
)  # fmt: skip
GARBAGE = (
    b"\xff\xfe\x80", b"\x00\x00", b"\n\n", b"\r", b"data: ", b"data:\n\n", b"data: [DONE]\n\n", b"event: error\ndata: {}\n\n",
    b"event: error\ndata: null\n\n", b"event: ping\ndata: 1\n\n", b": a comment\n\n", b"retry: x\n\n", b"event: \xff\ndata: 1\n\n",
    b"data: {\n\n", b"event: message_stop\ndata: {}\n\n", b'event: what\ndata: {"type": "what"}\n\n',
    b'data: {"error": [1]}\n\n', b'data: {"error": "no"}\n\n', b'data: {"error": {"message": {"a": 1}, "code": -3}}\n\n',
    b'event: error\ndata: {"type": "error", "error": 5}\n\n', b"data: " + DEEP.encode() + b"\n\n",
)  # fmt: skip


class _Raw(str):
    """JSON text to stand for itself."""

    __slots__ = ()


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += paths(part, (*here, key))
    return found


def with_odd_value(event: bytes, chance: random.Random) -> bytes:
    """One value of an event's JSON is another, or is missing."""
    head, mark, data = event.partition(b"data: ")
    try:
        value = json.loads(data)
        path = chance.choice(paths(value))
    except (ValueError, RecursionError):  # it was changed before
        return event
    odd = chance.choice(ODD)
    if not path:
        return head + mark + odd.encode() + b"\n\n"
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if chance.random() < 0.2:
        del holder[path[-1]]
        return head + mark + json.dumps(value).encode() + b"\n\n"
    holder[path[-1]] = "@odd@"
    return head + mark + json.dumps(value).replace('"@odd@"', odd).encode() + b"\n\n"


def mutated(events: list[bytes], chance: random.Random) -> bytes:
    events = list(events)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(events))
        match chance.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                events[at] = with_odd_value(events[at], chance)
            case 5:
                events.insert(at, events[at])
            case 6:
                chance.shuffle(events)
            case 7:
                events.insert(at, chance.choice(GARBAGE))
            case 8:
                cut = chance.randrange(len(events[at]) + 1)
                events[at] = events[at][:cut] + chance.choice((b"", b"\xff", b"\x00")) + events[at][cut + 1 :]
            case _:
                del events[at]
                events = events or [b""]
    stream = b"".join(events)
    return stream[: chance.randrange(len(stream) + 1)] if chance.random() < 0.15 else stream


def events_of(wire: str, chance: random.Random) -> list[bytes]:
    said = Said(
        "four words of text",
        thinking=chance.choice(("", "hm")),
        logprobs=chance.choice(((), (-0.1, -0.5))),
        cached_tokens=chance.choice((0, 40)),
        reasoning_tokens=2,
    )
    request = Request(
        "", {}, {"model": "m", "messages": [], "logprobs": True, "stream_options": {"include_usage": True}}
    )
    return list((anthropic_events if wire == "anthropic" else openai_events)(said, request))


class InProcess:
    """Answers an SDK's requests without a socket.

    Parameters
    ----------
    model
        Asked from now on without a server.
    """

    def __init__(self, model: HostedModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status, self.body, self.headers = 200, b"", {"content-type": "text/event-stream"}
        self.pieces, self.answered = 1, 0
        sdk = import_module(model.sdk)
        name = next(
            c.__module__.partition(".")[0] for c in sdk.DefaultAsyncHttpxClient.__mro__ if "httpx" in c.__module__
        )
        self._library: Any = import_module(name)
        ours = {**http_arguments(model.endpoint.url), "transport": self._library.MockTransport(self._answer)}
        monkeypatch.setattr(import_module(type(model).__module__), "http_arguments", lambda url: ours)

    async def _answer(self, request: Any) -> Any:
        self.answered += 1
        return self._library.Response(self.status, headers=self.headers, content=self._sent())

    async def _sent(self) -> AsyncIterator[bytes]:
        size = -(-len(self.body) // self.pieces) or 1
        for at in range(0, len(self.body), size):
            yield self.body[at : at + size]


def at(wire: str, url: str = "http://127.0.0.1:9") -> HostedModel:
    name = "anthropic/claude-sonnet-5" if wire == "anthropic" else "openai/gpt-5-mini"
    model = load_model(name, base_url=url, api_key=KEY)
    assert isinstance(model, HostedModel)
    return model


def check_error(error: ModelError, model: HostedModel) -> None:
    said = str(error)
    assert model.name in said
    assert "\n" not in said
    assert len(said) < 600
    assert KEY not in said
    assert 0 <= (getattr(error, "retry_after", None) or 0) < 1e9
    assert getattr(error, "window", None) != 0


def check_reply(reply: Reply, model: HostedModel) -> None:
    assert type(reply.text) is str
    assert type(reply.model) is str
    assert reply.finish in {"stop", "length", "refusal", "other"}
    used = reply.usage
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens, used.reasoning_tokens)
    assert all(type(count) is int and count >= 0 for count in counts)
    assert used.input_tokens > 0
    assert used.output_tokens > 0 or not reply.text
    assert used.cached_tokens + used.cache_write_tokens <= used.input_tokens
    assert (model.cost(used) or 0) >= 0
    assert reply.token_confidence is None or 0 <= reply.token_confidence <= 1


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_mutated_streams_become_replies_or_errors_of_ours(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = at(wire)
    server = InProcess(model, monkeypatch)
    replies = failures = 0
    async with model.lease():
        for seed in range(STREAMS):
            chance = random.Random(seed)
            server.body, server.pieces = mutated(events_of(wire, chance), chance), chance.choice((1, 1, 3, 50))
            try:
                reply = await model.complete(ASK, max_output_tokens=100, logprobs=wire == "openai")
            except ModelError as error:
                failures += 1
                check_error(error, model)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {server.body[:3000]!r}") from error
            else:
                replies += 1
                check_reply(reply, model)
    assert replies > STREAMS // 10
    assert failures > STREAMS // 10


@pytest.mark.timeout(300)
async def test_mutated_refusals_become_errors_of_ours(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = at(wire)
    server = InProcess(model, monkeypatch)
    bodies = [
        {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "code": "x", "param": None}},
        {"error": {"code": 400, "message": "request (9 tokens) exceeds the available context size (7 tokens)", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 7}},
        {"message": "bad", "detail": [{"loc": ["body"], "msg": "no"}]},
    ]  # fmt: skip
    async with model.lease():
        for seed in range(STREAMS // 3):
            chance = random.Random(seed)
            data = with_odd_value(b"data: " + json.dumps(chance.choice(bodies)).encode(), chance).removeprefix(
                b"data: "
            )
            server.body = chance.choice((data, data[: chance.randrange(len(data))], chance.choice(GARBAGE)))
            server.status = chance.choice((300, 307, 400, 401, 403, 404, 413, 429, 500, 501, 503, 529, 599))
            server.headers = {
                "content-type": chance.choice(("application/json", "text/html", "text/plain; charset=nonsense")),
                "retry-after": chance.choice(("1", "1e308", "-4", "soon", "Mon, 01 Jan 99999 00:00:00 GMT", "nan", "")),
                "location": "http://elsewhere.example/" + "x" * chance.choice((0, 5000)),
            }
            try:
                await model.complete(ASK, max_output_tokens=100)
            except ModelError as error:
                check_error(error, model)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {server.status} {server.body[:3000]!r}") from error
            else:
                raise AssertionError(f"seed {seed}: a reply")


def openai_stream(**changes: Any) -> bytes:
    """A reply of which parts are replaced: `event`, `content`, `finish` and `usage`, each as JSON text."""
    finish, usage = changes.get("finish", '"stop"'), changes.get("usage")
    lines = [
        f'{{"choices":[{{"index":0,"delta":{{"content":{changes.get("content", json.dumps("text"))}}},"finish_reason":null}}]}}',
        *([changes["event"]] if "event" in changes else []),
        f'{{"choices":[{{"index":0,"delta":{{}},"finish_reason":{finish}}}]}}',
        *([f'{{"choices":[],"usage":{usage}}}'] if usage else []),
        "[DONE]",
    ]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (openai_stream(event=DEEP), "RecursionError"),
        (b'data: {"choices": "\xff"}\n\n', "UnicodeDecodeError"),
        (openai_stream(event="[]"), "an event is a list"),
        (openai_stream(event="null"), "an event is null"),
        (openai_stream(content="5"), "content is a number"),
        (openai_stream(content='["a"]'), "content is a list"),
        (openai_stream(finish='{"a": 1}'), "finish_reason is an object"),
        (openai_stream(event="{"), "JSONDecodeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_reply_is_named_and_worth_another_try(stream: bytes, said: str) -> None:
    with Loopback([Fault.sends(stream)]) as server:
        model = at("openai", server.openai_url)
        with pytest.raises(ModelUnavailableError, match=said) as caught:
            await model.complete(ASK, max_output_tokens=100)
    check_error(caught.value, model)
    assert server.openai_url in str(caught.value)
    assert caught.value.retries == 2


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}',
        '{"prompt_tokens": "5", "completion_tokens": "many", "total_tokens": []}',
        '{"prompt_tokens": 1e400, "completion_tokens": 1e400, "total_tokens": 1e400}',
        '{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}',
        '[{"prompt_tokens": 5}]',
        "[1]",
        '"none"',
        "7",
        "{}",
    ],
)
async def test_usage_that_makes_no_sense_is_estimated(usage: str) -> None:
    with Loopback([Fault.sends(openai_stream(usage=usage))]) as server:
        reply = await at("openai", server.openai_url).complete(ASK, max_output_tokens=100)
    assert reply.text == "text"
    assert reply.estimated
    assert reply.usage.input_tokens == estimate_tokens(ASK[0].content)
    assert reply.usage.output_tokens == estimate_tokens("text")


async def test_what_makes_sense_of_a_usage_is_taken() -> None:
    usage = '{"prompt_tokens": 5000, "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 6000, "cache_write_tokens": "x"}}'
    with Loopback([Fault.sends(openai_stream(usage=usage))]) as server:
        model = at("openai", server.openai_url)
        reply = await model.complete(ASK, max_output_tokens=100)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.estimated) == (5000, 0, True)
    check_reply(reply, model)


def anthropic_stream(usages: dict[str, Any]) -> bytes:
    """A reply whose events of these names tell another usage, or none where it is `...`."""
    stream = b""
    for event in anthropic_events(Said("text"), Request("", {}, {"model": "m"})):
        head, mark, data = event.partition(b"data: ")
        told = json.loads(data)
        if told["type"] in usages:
            holder = told.get("message", told)
            holder["usage"] = usages[told["type"]]
            if holder["usage"] is ...:
                del holder["usage"]
        stream += head + mark + json.dumps(told).encode() + b"\n\n"
    return stream


@pytest.mark.parametrize("start", [..., None, {}, [], "none", {"input_tokens": 70, "output_tokens": 1}])
@pytest.mark.parametrize("end", [..., None, {}, [1], 7, {"output_tokens": 9}])
async def test_usage_that_a_message_does_not_tell_is_estimated(start: Any, end: Any) -> None:
    with Loopback([Fault.sends(anthropic_stream({"message_start": start, "message_delta": end}))]) as server:
        model = at("anthropic", server.url)
        reply = await model.complete(ASK, max_output_tokens=100)
    assert len(server.requests) == 1
    check_reply(reply, model)
    told_read, told_written = (isinstance(usage, dict) and bool(usage) for usage in (start, end))
    assert (reply.text, reply.finish) == ("text", "stop")
    assert reply.estimated is not (told_read and told_written)
    assert reply.usage.input_tokens == (70 if told_read else estimate_tokens(ASK[0].content))
    assert reply.usage.output_tokens == (9 if told_written else estimate_tokens("text"))


async def test_a_message_may_tell_all_its_usage_at_the_end() -> None:
    end = {"input_tokens": 50, "cache_read_input_tokens": 20, "output_tokens": 9}
    with Loopback([Fault.sends(anthropic_stream({"message_start": None, "message_delta": end}))]) as server:
        reply = await at("anthropic", server.url).complete(ASK, max_output_tokens=100)
    used = reply.usage
    assert (used.input_tokens, used.cached_tokens, used.output_tokens, reply.estimated) == (70, 20, 9, False)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "message_start", "message": None}, "the message is null"),
        ([], "an event is a list"),
        ({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}, "no message_start"),
    ],
)
async def test_what_is_no_message_is_named(event: Any, said: str) -> None:
    stream = b"event: message_start\ndata: " + json.dumps(event).encode() + b"\n\n"
    with Loopback([Fault.sends(stream)]) as server:
        model = at("anthropic", server.url)
        with pytest.raises(ModelUnavailableError, match=said) as caught:
            await model.complete(ASK, max_output_tokens=100)
    check_error(caught.value, model)
    assert caught.value.retries == 2


@pytest.mark.parametrize(
    ("body", "said", "may_recover"),
    [
        ({"error": {"message": "model overloaded"}}, "refused the request. model overloaded", True),
        ({"error": f"no room for {KEY}"}, "refused the request. no room for …", True),
        (
            {"error": {"message": "come later", "type": "overloaded_error"}},
            "refuses more for now (529). come later",
            True,
        ),
        ({"error": {"message": "come later", "code": 503}}, "refuses more for now (503). come later", True),
        ({"error": {}}, "broke off before its reply began", True),
        ({"error": None}, "broke off before its reply began", True),
        ({"object": "chat.completion"}, "broke off before its reply began", True),
    ],
)
async def test_a_failure_that_is_told_as_a_success_says_why(
    wire: str, body: dict[str, Any], said: str, may_recover: bool
) -> None:
    with Loopback([Fault(200, body)]) as server:
        model = at(wire, server.url if wire == "anthropic" else server.openai_url)
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK, max_output_tokens=100)
    check_error(caught.value, model)
    assert said in str(caught.value)
    assert isinstance(caught.value, ModelUnavailableError) is may_recover


async def test_a_window_that_is_told_as_a_success_is_known_from_then_on(wire: str) -> None:
    with Loopback([Fault(200, Fault.overflow(900, 512).body)]) as server:
        model = at(wire, server.url if wire == "anthropic" else server.openai_url)
        with pytest.raises(ContextWindowError):
            await model.complete(ASK, max_output_tokens=100)
    assert model.window == 512


class Endless:
    """Pieces without an end; `sent` tells how many were taken."""

    def __init__(self, piece: bytes, first: bytes = b"", most: int = 200 << 20) -> None:
        self.piece, self.first, self.most = piece, first, most

    def __iter__(self) -> Any:
        yield self.first or self.piece
        for _ in range(self.most // len(self.piece)):
            yield self.piece


@pytest.mark.parametrize(
    ("raw", "code", "said"),
    [
        (Endless(b"x" * 65536, b'data: {"a": "'), 200, "in one piece without an end"),
        (Endless(b"data: [[],[],[],[]]\n" * 3000), 200, "in one piece without an end"),
        (Endless(b": still at it\n\n" * 4000), 200, "for a reply of at most 100 tokens"),
        (Endless(b" " * 65536, b'{"error": "'), 400, "400"),
    ],
    ids=["line", "event", "comments", "refusal"],
)
async def test_what_has_no_end_is_closed_before_it_fills_the_memory(
    wire: str, raw: Endless, code: int, said: str
) -> None:
    fault = Fault(code, headers={"content-type": "text/event-stream"}, raw=raw)
    with Loopback([fault]) as server:
        url = server.url if wire == "anthropic" else server.openai_url
        model = at(wire, url)
        with pytest.raises(ModelError, match=said) as caught:
            await model.complete(ASK, max_output_tokens=100)
        assert server.sent < 40 << 20  # sockets have buffers
    check_error(caught.value, model)
    if code == 200:
        assert url in str(caught.value)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
async def test_a_compressed_reply_is_refused(wire: str, encoding: str) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20)) if encoding == "gzip" else zlib.compress(b"\0" * (64 << 20))
    with Loopback([Fault.sends(bomb, headers={"content-encoding": encoding})]) as server:
        model = at(wire, server.url if wire == "anthropic" else server.openai_url)
        with pytest.raises(ModelUnavailableError, match="sent a compressed reply") as caught:
            await model.complete(ASK, max_output_tokens=100)
    check_error(caught.value, model)
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_a_key_is_not_sent_on_to_another_address(wire: str) -> None:
    with Loopback() as other, Loopback() as server:
        to = f"{other.url}/v1/messages" if wire == "anthropic" else f"{other.openai_url}/chat/completions"
        server._replies = [Fault(307, {"error": {"message": "moved"}}, {"location": to})]
        model = at(wire, server.url if wire == "anthropic" else server.openai_url)
        with pytest.raises(ModelError, match=r"redirects \(307\)") as caught:
            await model.complete(ASK, max_output_tokens=100)
    check_error(caught.value, model)
    assert not other.requests


def test_a_reply_of_its_whole_cap_is_within_the_bound_whatever_comes_with_it() -> None:
    allowance = Allowance(32_768)
    frame = b"data: " + b"x" * 1500 + b"\r\n\r\n"
    assert all(allowance.takes(frame[:700]) and allowance.takes(frame[700:]) for _ in range(32_768))
    assert Allowance(8192).takes(b"data: " + b"x" * 1_000_000)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_an_events_end_is_seen_wherever_the_pieces_are_cut(end: bytes, size: int) -> None:
    allowance = Allowance(1)
    stream = (b"x" * 1000 + end) * 20
    for at in range(0, len(stream), size):
        assert allowance.takes(stream[at : at + size])
    assert allowance._of_event <= 1010


async def test_what_the_sdk_can_not_send_is_no_fault_of_the_servers(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = at(wire)
    server = InProcess(model, monkeypatch)
    async with model.lease():
        model._placed = {"stop": object()}
        with pytest.raises(ModelError, match=r"no request to \S+ could be made") as caught:
            await model.complete(ASK, max_output_tokens=100)
    assert not isinstance(caught.value, ModelUnavailableError)
    check_error(caught.value, model)
    assert not server.answered
