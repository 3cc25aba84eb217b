"""Whole runs through the real SDKs, over real HTTP, against the loopback server."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget import request as calls
from rlm_jupyter.run.outcome import how_to_resume
from rlm_jupyter.types.errors import ModelError, ModelUnavailableError, RLMError
from tests.support.loopback import Fault, Loopback, Said

LOOK = "I look.\n```repl\nprint(context[:4])\n```"
ASK = "I ask.\n```repl\nreplies = llm_query_batched(['one', 'two'])\nprint(replies)\n```"
END = "I end.\n```repl\nFINAL(replies)\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model_at(server: Loopback, wire: str) -> Model:
    if wire == "openai":
        return load_model("openai/gpt-5-mini", base_url=server.openai_url, api_key="some-key")
    return load_model("anthropic/claude-sonnet-5", base_url=server.url, api_key="some-key")


def script(*replies: Any) -> Any:
    """Root replies in order; a sub-call (no system message, one user message) is answered by its prompt in capitals."""
    left = list(replies)

    def reply(messages: Any) -> Any:
        if len(messages) == 1 or (
            len(messages) == 2 and messages[0]["role"] == "system" and "repl" not in str(messages)
        ):
            content = messages[-1]["content"]
            text = content if isinstance(content, str) else content[0]["text"]
            return text.upper()
        return left.pop(0)

    return reply


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_run_with_sub_calls_and_its_bill(wire: str) -> None:
    with Loopback([script(LOOK, ASK, END)]) as server:
        result = await RLM(model_at(server, wire)).acompletion("What?", "some text")
    assert result.value == ["ONE", "TWO"]
    assert result.usage.input_tokens > 0
    assert result.cost
    assert len(result.trajectory.subcalls) == 2
    roots = [r.messages for r in server.requests if len(r.messages) > 1 or "repl" in str(r.messages)]
    for before, after in itertools.pairwise(roots):
        assert after[-1]["role"] == "user"
        assert [m["content"] for m in after[: len(before) - 1]] == [
            m["content"] for m in before[:-1]
        ] or wire == "anthropic"


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_server_that_is_busy_once_is_waited_for(wire: str) -> None:
    with Loopback([Fault.status(429, retry_after=1), LOOK, "```repl\nFINAL(len(context))\n```"]) as server:
        result = await RLM(model_at(server, wire)).acompletion("How long?", "abc")
    assert result.answer == "3"


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_thinking_that_used_up_the_room_gets_more(wire: str) -> None:
    with Loopback([Said("", finish="length"), "```repl\nFINAL(len(context))\n```"]) as server:
        result = await RLM(model_at(server, wire), limits=Limits(max_output_tokens=500)).acompletion("How long?", "abc")
    caps = [r.body.get("max_completion_tokens") or r.body.get("max_tokens") for r in server.requests]
    assert caps == [500, 2000]
    assert result.answer == "3"


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_wrong_key_is_one_line_and_the_record_is_kept(wire: str, in_folder: Path) -> None:
    with Loopback([LOOK], key="right") as server, pytest.raises(ModelError, match="refused the key") as error:
        await RLM(model_at(server, wire)).acompletion("What?", "text")
    assert "\n" not in str(error.value)
    trajectory = Trajectory.load(next(in_folder.glob("rlm_runs/*.ipynb")))
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason == "failed"
    assert "is saved in" in str(error.value)
    assert "resume" not in str(error.value)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_run_that_fails_later_can_be_resumed(wire: str) -> None:
    with Loopback([LOOK, Fault.status(404, "gone")]) as server, pytest.raises(ModelError, match="To resume it: "):
        await RLM(model_at(server, wire)).acompletion("What?", "text")


@pytest.mark.parametrize("password", ["", "name:secret@"])
def test_what_resumes_a_run_names_the_address_that_it_was_given(
    password: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Loopback([LOOK, Fault.status(404, "gone"), "```repl\nFINAL(context[:4])\n```"]) as server:
        at = server.openai_url
        rlm = RLM("openai/any", base_url=at.replace("//", f"//{password}"))
        with pytest.raises(ModelError) as raised:
            rlm.completion("What?", "some text")
        _, command = str(raised.value).split("To resume it: jupyter rlm ")
        assert command.endswith(f" --base-url {at}")
        # where a second Ctrl-C leaves nothing but the record, that is read
        assert how_to_resume("cancelled", raised.value.result.path, None) == f"To resume it: jupyter rlm {command}"
        assert main([*shlex.split(command), "--yes", "-q"]) == 0
    assert capsys.readouterr().out == "some\n"


@pytest.mark.parametrize(
    ("name", "url", "says"),
    [
        ("ollama/any", "http://name:secret@127.0.0.1:9/v1", "no connection to http://127.0.0.1:9/v1"),
        ("openai/any", "https://name:sec/ret@[::1/v1", "is no address"),
        ("openai/any", "ftp://name:secret@host/v1", "the address 'ftp://host/v1' must begin with"),
    ],
)
def test_no_message_has_the_password_of_an_address(
    name: str, url: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(RLMError) as raised:
        RLM(name, base_url=url).completion("What?", "some text")
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


def test_no_model_shows_the_password_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = load_model("openai/any", base_url="https://name:secret@host/v1")
    assert isinstance(model, HostedModel)
    assert repr(model) == "<OpenAIModel openai/any at https://host/v1>"
    assert "secret" not in repr(model.endpoint)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_reply_that_breaks_off_is_named(wire: str) -> None:
    with Loopback([LOOK, Fault.dropped("middle")]) as server, pytest.raises(ModelUnavailableError):
        await RLM(model_at(server, wire)).acompletion("What?", "text")


async def test_a_failed_sub_call_is_the_cells_to_handle() -> None:
    def reply(messages: Any) -> Any:
        if messages[0]["role"] == "user":
            return Fault.status(400)
        if len(messages) == 2:
            return "```repl\ntry:\n    llm_query('x')\nexcept SubcallError as error:\n    said = str(error)\nprint(said)\n```"
        return "```repl\nFINAL('gpt-5-mini' in said)\n```"

    with Loopback([reply]) as server:
        result = await RLM(model_at(server, "openai")).acompletion("What?", "text")
    assert result.answer == "True"


async def test_a_sub_call_over_the_window_is_refused_before_it_is_sent() -> None:
    first = "```repl\ntry:\n    llm_query('x' * 9_000_000)\nexcept SubcallError as error:\n    said = str(error)\nprint(said)\n```"
    with Loopback([first, "```repl\nFINAL(said)\n```"]) as server:
        result = await RLM(model_at(server, "openai")).acompletion("What?", "text")
    assert result.answer is not None
    assert "9,000,000 characters" in result.answer
    assert "pieces of at most" in result.answer
    assert len(server.requests) == 2


async def test_a_limit_in_dollars_is_never_overshot() -> None:
    many = "```repl\nreplies = llm_query_batched(['word ' * 2000] * 40)\nprint(sum(map(bool, replies)))\n```"
    with Loopback([script(many, "```repl\nFINAL(1)\n```", "best guess")]) as server:
        result = await RLM(
            model_at(server, "openai"), limits=Limits(max_cost=0.02, max_output_tokens=1000, max_iterations=3)
        ).acompletion("What?", "text")
    assert result.cost is not None
    assert result.cost <= 0.02


def events(*lines: str) -> Fault:
    return Fault.sends("".join(f"data: {line}\n\n" for line in lines).encode())


def said_as(text: str, usage: str) -> Fault:
    """A reply on OpenAI's wire, with its usage as JSON text."""
    return events(
        json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}),
        f'{{"choices": [], "usage": {usage}}}',
        "[DONE]",
    )


MALFORMED = {
    "too deep": events("[" * 100_000),
    "a list": events("[]"),
    "null": events("null"),
    "content is a number": events('{"choices":[{"index":0,"delta":{"content":5}}]}'),
    "finish_reason is an object": events('{"choices":[{"index":0,"delta":{},"finish_reason":{"a":1}}]}'),
    "broken UTF-8": Fault.sends(b'data: {"choices":"\xff\xfe"}\n\n'),
    "events of another order": Fault.sends(
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}\n\n'
    ),
    "an event of a number": Fault.sends(b'event: message_start\ndata: {"type":"message_start","message":5}\n\n'),
    "an error that is a list": Fault.sends(b'event: error\ndata: {"type": "error", "error": [1]}\n\n'),
}


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("fault", MALFORMED.values(), ids=MALFORMED)
async def test_a_root_that_sends_no_reply_is_one_error_with_the_record_kept(
    fault: Fault, wire: str, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_REST_SECONDS", 0.01)
    with Loopback([LOOK, fault]) as server, pytest.raises(ModelError) as caught:
        await RLM(model_at(server, wire)).acompletion("What?", "text")
    address = server.openai_url if wire == "openai" else server.url
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    trajectory = Trajectory.load(next(in_folder.glob("rlm_runs/*.ipynb")))
    assert trajectory.ended is not None
    assert trajectory.ended.stop_reason == "failed"
    assert len(trajectory.iterations) == 1


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_sub_model_that_sends_no_reply_fails_its_sub_calls_alone(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_REST_SECONDS", 0.01)
    faults = list(MALFORMED.values())
    ask = (
        f"```repl\nFINAL([bool(reply) for reply in llm_query_batched([str(n) for n in range({len(faults) + 1})])])\n```"
    )

    def reply(messages: Any) -> Any:
        if messages[0]["role"] == "system":
            return ask
        number = int(messages[0]["content"])
        return faults[number] if number < len(faults) else "a reply"

    with Loopback([reply]) as server:
        result = await RLM(model_at(server, wire)).acompletion("What?", "text")
    assert result.value == [False] * len(faults) + [True]


@pytest.mark.parametrize(
    "usage", ['{"prompt_tokens": -500, "completion_tokens": -9}', '{"prompt_tokens": "5"}', "[1]", '{"prompt_tokens": 1e400}']
)  # fmt: skip
async def test_usage_that_makes_no_sense_is_estimated_in_the_bill(usage: str) -> None:
    def reply(messages: Any) -> Any:
        root = "```repl\nFINAL(llm_query('a question'))\n```"
        return said_as(root if messages[0]["role"] == "system" else "A REPLY", usage)

    with Loopback([reply]) as server:
        result = await RLM(model_at(server, "openai")).acompletion("What?", "text")
    assert result.answer == "A REPLY"
    assert result.trajectory.iterations[0].reply.estimated
    assert result.usage.input_tokens > 500
    assert result.usage.output_tokens > 10
    assert result.cost is not None
    assert result.cost > 0


async def test_text_that_has_no_utf_8_is_recorded(in_folder: Path) -> None:
    def reply(messages: Any) -> Any:
        if messages[0]["role"] == "system":
            return said_as("A word: \ud800\x00.\n```repl\nFINAL(llm_query('a question'))\n```", "{}")
        return said_as("half \udfff a pair", "{}")

    with Loopback([reply]) as server:
        result = await RLM(model_at(server, "openai")).acompletion("What?", "text")
    assert result.answer is not None
    assert result.answer.startswith("half ")
    assert Trajectory.load(next(in_folder.glob("rlm_runs/*.ipynb"))).ended is not None


async def test_a_prompt_that_was_refused_is_not_sent_again_unchanged() -> None:
    asked: list[str] = []

    def reply(messages: Any) -> Any:
        if "repl" in str(messages[0]):
            return replies.pop(0)
        asked.append(str(messages[-1]["content"]))
        return Fault.status(400, "what is this?") if "odd" in asked[-1] else "a reply"

    ask = "```repl\nNAME = llm_query_batched(['an odd one', 'an even one NAME'])\nprint(NAME)\n```"
    end = "```repl\nFINAL([*map(str, first), *map(str, second)])\n```"
    replies = [ask.replace("NAME", "first"), ask.replace("NAME", "second"), end]
    with Loopback([reply]) as server:
        result = await RLM(model_at(server, "openai"), save=False).acompletion("What?", "some text")
    refused, said, again, other = result.value
    assert sorted(asked) == ["an even one first", "an even one second", "an odd one"]
    assert "what is this?" in refused
    assert "not sent again" not in refused
    assert again.endswith("The same prompt was not sent again: change it.]")
    assert (said, other) == ("a reply", "a reply")
