"""The scripted model, and which model answers at which depth."""

import asyncio
import time

import pytest

from rlm_jupyter.models import load_model
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.models.scripted import ScriptedModel, load_script
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.values import Message, Reply, Usage
from tests.support.loopback import Loopback

TALK = [Message("system", "s"), Message("user", "question")]


async def say(model, messages=TALK, **arguments):
    return await model.complete(messages, max_output_tokens=10, **arguments)


async def test_replies_come_in_order_and_of_every_kind():
    reply = Reply("made", "else", Usage(1, 2), "length")
    model = ScriptedModel(["text", reply, lambda messages: messages[-1].content.upper(), ValueError("planned")])
    assert (await say(model)).text == "text"
    assert await say(model) is reply
    assert (await say(model)).text == "QUESTION"
    with pytest.raises(ValueError, match="planned"):
        await say(model)
    with pytest.raises(ModelError, match="no replies are left in the script at request 5"):
        await say(model)
    assert model.requests == [tuple(TALK)] * 5


async def test_usage_is_estimated_and_text_comes_in_pieces():
    pieces: list[str] = []
    model = ScriptedModel(["x" * 41])
    reply = await say(model, on_text=pieces.append)
    assert reply.usage == Usage(1 + 2, 11)
    assert "".join(pieces) == reply.text
    assert len(pieces) > 1


async def test_a_lone_user_message_is_a_sub_call():
    alone = [Message("user", "classify this")]
    assert "classify this" in (await say(ScriptedModel([]), alone)).text
    assert (await say(ScriptedModel([], sub=str.title), alone)).text == "Classify This"
    model = ScriptedModel(["root"], sub=["one"])
    assert (await say(model, alone)).text == "one"
    assert (await say(model)).text == "root"
    with pytest.raises(ModelError, match="no sub-call replies are left"):
        await say(model, alone)


async def test_latency_is_waited_for_together():
    model = ScriptedModel(list("abcdefgh"), latency=1.0)
    started = time.monotonic()
    replies = await asyncio.gather(*(say(model) for _ in range(8)))
    assert 1 <= time.monotonic() - started < 8  # one after the other they would take that long
    assert "".join(reply.text for reply in replies) == "abcdefgh"


def test_one_sub_model_serves_every_depth():
    root, sub = ScriptedModel([]), ScriptedModel([], name="scripted/sub")
    routing = Routing(root, sub)
    assert [routing.model_for(depth) for depth in range(4)] == [root, sub, sub, sub]
    assert [Routing(root).model_for(depth) for depth in range(3)] == [root] * 3


def test_a_sequence_gives_one_for_each_depth_and_the_last_serves_deeper():
    models = [ScriptedModel([], name=f"scripted/{i}") for i in range(3)]
    routing = Routing(models[0], models[1:])
    assert [routing.model_for(depth).name for depth in range(5)] == [f"scripted/{i}" for i in (0, 1, 2, 2, 2)]


def test_only_models_of_the_run_can_be_named():
    root, sub, other = (ScriptedModel([], name=f"scripted/{name}") for name in ("root", "sub", "other"))
    routing = Routing(root, sub, [other])
    assert routing.model_for(1, "scripted/other") is other
    assert routing.model_for(1, "scripted/root") is root
    with pytest.raises(
        ModelError, match="'openai/dear' is not part of this run; there are: scripted/root, scripted/sub"
    ):
        routing.model_for(1, "openai/dear")


def test_names_are_loaded_and_wrong_ones_refused():
    assert Routing("extractive").model_for(3).name == "extractive/bm25"
    with pytest.raises(ConfigurationError, match="No provider 'x'"):
        Routing("extractive", "x/y")
    with pytest.raises(ConfigurationError, match="empty sequence"):
        Routing("extractive", [])


async def test_a_routing_leases_each_model_once():
    with Loopback() as server:
        hosted = load_model("openai/x", base_url=server.openai_url, api_key="k")
        assert isinstance(hosted, HostedModel)
        routing = Routing(hosted, hosted)
        assert routing.models == (hosted,)
        async with routing.lease():
            assert len(hosted._clients._held) == 1
            assert (await say(hosted)).text == "ok"
        assert len(hosted._clients._held) == 0


def test_a_key_that_no_script_has_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"replies": ["x"], "subcall": ["y"]}')
    with pytest.raises(ConfigurationError, match="a script has replies, subcalls and sees, and no subcall"):
        load_script(str(path))
