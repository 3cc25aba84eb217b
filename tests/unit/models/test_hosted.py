"""Both SDKs, as installed, against a real server: replies, usage, and the ways in which it goes wrong."""

import asyncio
import gc
import time
import traceback
from email.utils import formatdate

import pytest

from rlm_jupyter.models import load_model
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.types.errors import ContextWindowError, ModelError, ModelUnavailableError
from rlm_jupyter.types.tokens import DEFAULT_WINDOW
from rlm_jupyter.types.values import Message, Usage
from tests.support.loopback import KEY, Fault, Loopback, Said

ASK = [Message("user", "What is it?")]
TALK = [
    Message("system", "Be terse."),
    Message("user", "One?"),
    Message("assistant", "1"),
    Message("user", "Two?"),
]


def connect(wire, server, *, patience=20.0, provider=None, **arguments):
    url = server.url if wire == "anthropic" else server.openai_url
    model = load_model(f"{provider or wire}/test", base_url=url, **{"api_key": KEY, **arguments})
    assert isinstance(model, HostedModel)
    model.patience = patience
    return model


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open():
    """An unclosed socket warns when it is collected, and a warning is a failure."""
    yield
    gc.collect()


@pytest.fixture(params=["openai", "anthropic"])
def wire(request):
    return request.param


async def test_a_reply_is_streamed_piece_by_piece(wire):
    pieces: list[str] = []
    with Loopback(["Größe: forty-two."]) as server:
        reply = await connect(wire, server).complete(TALK, max_output_tokens=64, on_text=pieces.append)
    assert "".join(pieces) == reply.text == "Größe: forty-two."
    assert len(pieces) > 1
    assert (reply.finish, reply.model) == ("stop", "test")
    body = server.requests[0].body
    assert body["stream"] is True
    assert body["max_tokens" if wire == "anthropic" else "max_completion_tokens"] == 64
    assert server.requests[0].messages == [{"role": m.role, "content": m.content} for m in TALK]


async def test_text_is_handed_on_while_the_rest_is_still_to_come(wire):
    moments = []
    with Loopback([Said("slow but steady", delay=0.5)]) as server:
        await connect(wire, server).complete(
            ASK, max_output_tokens=9, on_text=lambda _: moments.append(time.monotonic())
        )
    assert moments[-1] - moments[0] > 0.15


async def test_usage_counts_the_cache_into_the_input_and_thinking_into_the_output(wire):
    said = Said(
        "x",
        input_tokens=1000,
        output_tokens=50,
        cached_tokens=700,
        cache_write_tokens=200 if wire == "anthropic" else 0,
        reasoning_tokens=30,
        thinking="hm, let me see",
    )
    with Loopback([said]) as server:
        reply = await connect(wire, server).complete(TALK, max_output_tokens=9)
    assert reply.text == "x"
    assert reply.usage == Usage(1000, 50, 700, 200 if wire == "anthropic" else 0, 30)


async def test_usage_is_estimated_when_the_server_counts_nothing():
    with Loopback([Said("four letters", counted=False)]) as server:
        reply = await connect("openai", server).complete([Message("user", "x" * 400)], max_output_tokens=9)
    assert reply.usage == Usage(100, 3)


async def test_thinking_that_only_the_total_counts_is_output():
    with Loopback([Said("x", input_tokens=10, output_tokens=5, uncounted_thinking=25)]) as server:
        reply = await connect("openai", server).complete(ASK, max_output_tokens=9)
    assert reply.usage.output_tokens == 30


@pytest.mark.parametrize(("told", "finish"), [("length", "length"), ("content_filter", "refusal")])
async def test_an_empty_reply_comes_back_with_its_finish(wire, told, finish):
    with Loopback([Said("", finish=told, reasoning_tokens=9, thinking="long thoughts")]) as server:
        reply = await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert (reply.text, reply.finish, reply.usage.reasoning_tokens) == ("", finish, 9)


async def test_a_conversation_is_cached_and_a_lone_sub_call_is_not():
    with Loopback() as server:
        model = connect("anthropic", server)
        await model.complete(TALK, max_output_tokens=9)
        await model.complete(ASK, max_output_tokens=9)
    talk, ask = (request.body for request in server.requests)
    mark = {"type": "ephemeral"}
    assert talk["system"] == [{"type": "text", "text": "Be terse.", "cache_control": mark}]
    assert talk["messages"][-1]["content"] == [{"type": "text", "text": "Two?", "cache_control": mark}]
    assert [message["content"] for message in talk["messages"][:-1]] == ["One?", "1"]
    assert "system" not in ask
    assert ask["messages"] == [{"role": "user", "content": "What is it?"}]


async def test_a_message_without_visible_characters_does_not_break_anthropic():
    with Loopback() as server:
        await connect("anthropic", server).complete([*TALK, Message("assistant", " "), ASK[0]], max_output_tokens=9)
    assert server.requests[0].messages[-2]["content"] == "(empty)"


async def test_lone_surrogates_are_escaped(wire):
    with Loopback() as server:
        await connect(wire, server).complete([Message("user", "a\udc80b é 😀")], max_output_tokens=9)
    assert server.requests[0].messages[0]["content"] == "a\\udc80b é 😀"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "600000"}, 600_000),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
async def test_a_refusal_says_when_to_ask_again_and_nobody_asks_before(wire, headers, seconds):
    with (
        Loopback([Fault(429, {"error": {"message": "slow down"}}, headers), "unasked for"]) as server,
        pytest.raises(ModelUnavailableError, match=r"refuses more for now \(429\). slow down") as caught,
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert (caught.value.overloaded, caught.value.retry_after) == (True, seconds)
    assert len(server.requests) == 1


async def test_a_date_to_ask_again_at_becomes_seconds(wire):
    date = formatdate(time.time() + 30, usegmt=True)
    with (
        Loopback([Fault(503, {"error": {"message": "x"}}, {"retry-after": date})]) as server,
        pytest.raises(ModelUnavailableError) as caught,
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert 25 < (caught.value.retry_after or 0) <= 30


@pytest.mark.parametrize(
    ("fault", "overloaded", "retries"),
    [
        (Fault.status(429), True, 4),
        (Fault.status(503), True, 4),
        (Fault.status(529), True, 4),
        (Fault.status(500), False, 4),
        (Fault.dropped("before"), False, 4),
        (Fault.dropped("early"), False, 1),
        (Fault.dropped("middle"), False, 1),
        (Fault.dropped("end", ""), False, 1),
    ],
)
async def test_what_failed_says_whether_asking_again_may_help(wire, fault, overloaded, retries):
    with Loopback([fault]) as server, pytest.raises(ModelUnavailableError) as caught:
        await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert (caught.value.overloaded, caught.value.retries) == (overloaded, retries)
    assert len(server.requests) == 1


async def test_an_account_without_credit_is_no_overload():
    body = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
    with Loopback([Fault(429, body)]) as server, pytest.raises(ModelError, match="nothing is left to spend") as caught:
        await connect("openai", server).complete(ASK, max_output_tokens=9)
    assert not isinstance(caught.value, ModelUnavailableError)


@pytest.mark.slow
async def test_patience_counts_silence_not_length(wire):
    with Loopback([Said("a long story that keeps coming", delay=0.3)]) as server:
        reply = await connect(wire, server, patience=1.0).complete(ASK, max_output_tokens=9)
        assert reply.text == "a long story that keeps coming"
        with pytest.raises(ModelUnavailableError, match="nothing came"):
            await connect(wire, server, patience=0.1).complete(ASK, max_output_tokens=9)


@pytest.mark.parametrize("where", ["middle", "end"])
async def test_a_drop_after_text_is_an_error(wire, where):
    pieces: list[str] = []
    with (
        Loopback([Fault.dropped(where, "The beginning")]) as server,
        pytest.raises(ModelUnavailableError, match="broke off in the middle of its reply"),
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9, on_text=pieces.append)
    assert pieces == ["The beginning"]
    assert len(server.requests) == 1


async def test_an_error_inside_a_stream_is_told(wire):
    with (
        Loopback([Fault.dropped("error")]) as server,
        pytest.raises(ModelUnavailableError, match=r"out of memory|Overloaded"),
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9)


async def test_no_connection_names_the_address():
    with Loopback() as server:
        url = server.openai_url
    model = load_model("llamacpp/x", base_url=url)
    with pytest.raises(ModelUnavailableError, match=rf"no connection to {url}. Start it \(llama-server"):
        await model.complete(ASK, max_output_tokens=9)


async def test_a_wrong_key_names_the_variable_and_never_shows_the_key(wire, monkeypatch):
    variable = f"{wire.upper()}_API_KEY"
    monkeypatch.setenv(variable, "sk-very-secret-indeed")
    with (
        Loopback(key=KEY) as server,
        pytest.raises(ModelError, match=rf"refused the key \(401\). Check {variable}") as caught,
    ):
        await connect(wire, server, api_key=None).complete(ASK, max_output_tokens=9)
    assert "sk-very-secret" not in "".join(traceback.format_exception(caught.value))
    assert len(server.requests) == 1


async def test_a_server_that_wants_a_key_says_which_variable_to_set():
    with (
        Loopback(key=KEY) as server,
        pytest.raises(ModelError, match=r"wants a key .* Set LLAMACPP_API_KEY or LLAMA_API_KEY"),
    ):
        await load_model("llamacpp/x", base_url=server.openai_url).complete(ASK, max_output_tokens=9)


async def test_a_model_that_is_not_there_is_named(wire):
    with (
        Loopback([Fault.status(404, "The model does not exist")]) as server,
        pytest.raises(ModelError, match=f"{wire}/test: .* knows no such model") as caught,
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert not isinstance(caught.value, ModelUnavailableError)


async def test_two_assistant_messages_at_the_end_are_refused_as_the_server_says(wire):
    with Loopback() as server:
        messages = [*ASK, Message("assistant", "a"), Message("assistant", "b")]
        with pytest.raises(ModelError, match=r"refused the request \(400\). Cannot have 2 or more assistant messages"):
            await connect(wire, server).complete(messages, max_output_tokens=9)


@pytest.mark.parametrize(
    ("fault", "tokens", "window"),
    [
        (Fault.overflow(30030, 16384), 30030, 16384),
        (Fault.status(400, "prompt is too long: 210,000 tokens > 200,000 maximum"), 210_000, 200_000),
        (
            Fault.status(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease"),
            190_000,
            200_000,
        ),
        (
            Fault.status(
                400,
                "This model's maximum context length is 4096 tokens. However, your messages resulted in 5001 tokens.",
            ),
            5001,
            4096,
        ),
        (
            Fault.status(
                400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
            ),
            1_200_000,
            1_048_576,
        ),
        (Fault(400, {"error": {"message": "Too much.", "code": "context_length_exceeded"}}), None, None),
        (Fault(413, {"error": {"message": "Request too large", "type": "request_too_large"}}), None, None),
    ],
)
async def test_an_overflow_has_its_numbers(wire, fault, tokens, window):
    with (
        Loopback([fault]) as server,
        pytest.raises(ContextWindowError, match="does not fit the model's window") as caught,
    ):
        await connect(wire, server).complete(ASK, max_output_tokens=9)
    assert (caught.value.tokens, caught.value.window) == (tokens, window)
    assert tokens is None or f"{tokens:,} tokens" in str(caught.value)


async def test_a_failing_listener_is_nobody_s_else_s_fault(wire):
    def fail(_: str) -> None:
        raise ZeroDivisionError

    with Loopback() as server, pytest.raises(ZeroDivisionError):
        await connect(wire, server).complete(ASK, max_output_tokens=9, on_text=fail)


async def test_cancelling_closes_the_stream(wire):
    with Loopback([Said("one two three", delay=30)]) as server:
        model = connect(wire, server)
        async with model.lease():
            asked = asyncio.create_task(model.complete(ASK, max_output_tokens=9))
            while not server.requests:
                await asyncio.sleep(0.01)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            async with asyncio.timeout(20):  # long before the reply is over
                while (server.abandoned, server.connections) != (1, 0):
                    await asyncio.sleep(0.01)


async def test_many_requests_share_one_client_and_run_together(wire, monkeypatch):
    opened = []
    with Loopback([Said("x", delay=0.5)]) as server:
        model = connect(wire, server)
        make = model._client

        def counted():
            opened.append(1)
            return make()

        monkeypatch.setattr(model, "_client", counted)
        async with model.lease():
            replies = await asyncio.gather(*(model.complete(ASK, max_output_tokens=9) for _ in range(16)))
            async with asyncio.timeout(30):  # the server counts now and then
                while server.connections == 0:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(30):
            while server.connections:
                await asyncio.sleep(0.01)
    assert [reply.text for reply in replies] == ["x"] * 16
    assert server.most_at_once > 8
    assert len(opened) == 1


def test_one_model_serves_two_event_loops_in_turn_and_at_once(wire):
    with Loopback([Said("x", delay=0.05)]) as server:
        model = connect(wire, server)

        async def ask() -> str:
            async with model.lease():
                return (await model.complete(ASK, max_output_tokens=9)).text

        assert [asyncio.run(ask()), asyncio.run(ask())] == ["x", "x"]

        async def in_threads() -> list[str]:
            return await asyncio.gather(*(asyncio.to_thread(asyncio.run, ask()) for _ in range(4)))

        assert asyncio.run(in_threads()) == ["x"] * 4
        assert len(model._clients._held) == 0


async def test_one_s_own_server_is_asked_for_its_window():
    with Loopback(n_ctx=16_384) as server:
        model = load_model("llamacpp/anything", base_url=server.openai_url)
        async with model.lease():
            assert model.window == 16_384
        fixed = load_model("llamacpp/anything", base_url=server.openai_url, window=5000)
        async with fixed.lease():
            assert fixed.window == 5000
    with Loopback() as server:
        model = load_model("llamacpp/anything", base_url=server.openai_url)
        async with model.lease():
            assert model.window == DEFAULT_WINDOW


async def test_how_probable_the_tokens_were_is_told_where_it_is_asked_for():
    said = Said("one two three four five six seven", logprobs=(-0.1,))
    with Loopback([said, said]) as server:
        model = connect("openai", server)
        asked = await model.complete(TALK, max_output_tokens=64, logprobs=True)
        plain = await model.complete(TALK, max_output_tokens=64)
    assert asked.token_confidence == pytest.approx(0.9048, abs=1e-4)
    assert plain.token_confidence is None
    assert ["logprobs" in request.body for request in server.requests] == [True, False]


async def test_a_server_that_tells_no_probabilities_leaves_the_confidence_open(wire):
    with Loopback(["forty-two"]) as server:
        reply = await connect(wire, server).complete(TALK, max_output_tokens=64, logprobs=True)
    assert reply.token_confidence is None


@pytest.mark.parametrize(
    ("provider", "given", "sent"),
    [
        ("llamacpp", None, 0.2),
        ("ollama", None, 0.2),
        ("lmstudio", None, 0.2),
        ("vllm", None, None),
        ("openai", None, None),
        ("llamacpp", 0.7, 0.7),
        ("llamacpp", 0, 0),
    ],
)
async def test_a_server_of_ones_own_is_asked_at_a_temperature_for_code(provider, given, sent):
    with Loopback(["yes"]) as server:
        model = connect("openai", server, provider=provider, temperature=given)
        async with model.lease():
            await model.complete(ASK, max_output_tokens=9)
        asked = [request.body for request in server.requests if request.body and "messages" in request.body]
        assert [body.get("temperature") for body in asked] == [sent]


@pytest.mark.parametrize("key", ["k", "x", "none", "EMPTY", "key"])
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Incorrect API key provided: KEY.", "Incorrect API key provided: …."),
        ("None of your keys, 'KEY', is known; exit", "None of your keys, '…', is known; exit"),
        ("Authorization=KEY, Bearer KEY", "Authorization=…, Bearer …"),
        ("Next: kinks, xenon, nonesuch: EMPTYNESS", "Next: kinks, xenon, nonesuch: EMPTYNESS"),
    ],
)
async def test_a_short_key_is_taken_out_where_it_is_a_whole_value(key, said, shown):
    with Loopback([Fault.status(401, said.replace("KEY", key))]) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key=key)
        with pytest.raises(ModelError) as error:
            await model.complete([Message("user", "?")], max_output_tokens=9)
    assert str(error.value).endswith(f"{shown}")


async def test_a_key_of_eight_characters_is_taken_out_wherever_it_stands():
    with Loopback([Fault.status(401, "Not12345678know")]) as server:
        model = load_model("openai/any", base_url=server.openai_url, api_key="12345678")
        with pytest.raises(ModelError, match="Not…know"):
            await model.complete([Message("user", "?")], max_output_tokens=9)
