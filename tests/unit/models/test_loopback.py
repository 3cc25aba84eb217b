"""The server that the other tests trust: whole replies, and the mode in which a person is the model."""

import asyncio
from typing import Any

import anthropic
import openai
import pytest

from rlm_jupyter.models import load_model
from rlm_jupyter.types.values import Message
from tests.support.loopback import Fault, Loopback, Player, Said


def test_both_wires_reply_whole_too():
    messages: Any = [{"role": "user", "content": "hi"}]
    with Loopback([Said("hello", input_tokens=7), lambda heard: heard[0]["content"] * 2]) as server:
        with openai.OpenAI(base_url=server.openai_url, api_key="k") as client:
            whole = client.chat.completions.create(model="m", messages=messages)
        with anthropic.Anthropic(base_url=server.url, api_key="k") as other:
            message = other.messages.create(model="m", messages=messages, max_tokens=5)
    assert whole.usage is not None
    assert (whole.choices[0].message.content, whole.usage.prompt_tokens) == ("hello", 7)
    assert message.content[0].text == "hihi"  # type: ignore[union-attr]


def test_a_fault_is_a_fault_for_whole_replies_too():
    with (
        Loopback([Fault.status(404, "gone")]) as server,
        openai.OpenAI(base_url=server.openai_url, api_key="k") as client,
        pytest.raises(openai.NotFoundError, match="gone"),
    ):
        client.chat.completions.create(model="m", messages=[])


async def test_a_person_plays_the_model(tmp_path):
    with Player(tmp_path) as server:
        model = load_model("openai/x", base_url=server.openai_url, api_key="k")
        talk = [Message("system", "rules"), Message("user", "question")]
        asked = asyncio.create_task(model.complete(talk, max_output_tokens=9))
        while not (tmp_path / "request-1.txt").exists():
            await asyncio.sleep(0.02)
        assert (tmp_path / "request-1.txt").read_text() == "=== system ===\nrules\n\n=== user ===\nquestion"
        assert not asked.done()
        (tmp_path / "reply-1.txt").write_text("typed by hand")
        assert (await asked).text == "typed by hand"
        (tmp_path / "reply-2.txt").write_text("a part")
        assert (await model.complete([Message("user", "part?")], max_output_tokens=9)).text == "a part"
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".json") == [
        "request-1.json",
        "subcall-2.json",
    ]
