"""The form of a reply, as providers take it: sent over both wires, taken out of the reply, left out where refused."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from rlm_jupyter import RLM
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.models.structured import Structured
from rlm_jupyter.types.errors import ContextWindowError, ModelError
from rlm_jupyter.types.values import Message
from tests.support.loopback import Fault, Loopback

NUMBER = {"type": "integer", "minimum": 1}
WIRES = ["openai", "anthropic"]


class Place(BaseModel):
    city: str
    people: int = 0


def loaded(wire: str, server: Loopback) -> HostedModel:
    url = server.openai_url if wire == "openai" else server.url
    model = load_model(f"{wire}/any", base_url=url, api_key="k")
    assert isinstance(model, HostedModel)
    return model


async def ask(model: Model, schema: dict[str, Any] | None) -> str:
    assert isinstance(model, HostedModel)
    reply = await model.complete([Message("user", "How many?")], max_output_tokens=100, schema=schema)
    return reply.text


def told(server: Loopback, place: int) -> Any:
    """The schema that a request names; `None`: it names none."""
    body = server.requests[place].body
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    return body.get("output_config", {}).get("format", {}).get("schema")


@pytest.mark.parametrize("wire", WIRES)
async def test_the_form_is_sent_and_what_is_not_of_it_taken_off(wire: str) -> None:
    with Loopback(['{"answer": 42}', '{"city": "Rome", "people": 3}', "no JSON", '{"answer": 1, "more": 2}']) as server:
        model = loaded(wire, server)
        assert abilities_of(model).takes_schema
        assert await ask(model, NUMBER) == "42"
        assert await ask(model, Place.model_json_schema()) == '{"city": "Rome", "people": 3}'
        assert await ask(model, NUMBER) == "no JSON"
        assert await ask(model, NUMBER) == '{"answer": 1, "more": 2}'
        assert await ask(model, None) == '{"answer": 1, "more": 2}'
    assert told(server, 0)["properties"]["answer"]["type"] == "integer"
    assert told(server, 0)["required"] == ["answer"]
    assert told(server, 1)["properties"].keys() == {"city", "people"}
    assert told(server, 4) is None


@pytest.mark.parametrize("wire", WIRES)
async def test_who_refuses_to_be_told_a_form_is_asked_without_it_from_then_on(wire: str) -> None:
    with Loopback([Fault.status(400, "response_format: not here"), "41", "42"]) as server:
        model = loaded(wire, server)
        assert [await ask(model, NUMBER), await ask(model, NUMBER)] == ["41", "42"]
        assert not abilities_of(model).takes_schema
    assert [told(server, place) is None for place in range(len(server.requests))] == [False, True, True]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_that_has_another_reason_is_raised_and_the_form_sent_again(wire: str) -> None:
    bad_key = Fault.status(401, "bad key")
    with Loopback([bad_key, bad_key, '{"answer": 7}']) as server:
        model = loaded(wire, server)
        with pytest.raises(ModelError, match="401"):
            await ask(model, NUMBER)
        assert await ask(model, NUMBER) == "7"


async def test_a_conversation_that_is_too_long_is_not_sent_twice() -> None:
    with Loopback(["never"], n_ctx=4096, holds=1) as server:
        with pytest.raises(ContextWindowError):
            await ask(loaded("openai", server), NUMBER)
        assert len([request for request in server.requests if "messages" in request.body]) == 1


@pytest.mark.parametrize("wanted", [int, list[str], Literal["a", "b"], dict[str, float], list[Place], Place | None])
def test_any_type_becomes_an_object_and_comes_back(wanted: Any) -> None:
    schema = TypeAdapter(wanted).json_schema()
    form = Structured.of(schema)
    assert form is not None
    assert form.schema["type"] == "object"
    if form.is_wrapped:
        assert json.loads(form.unwrapped('{"answer": ["é"]}')) == ["é"]
        references = json.dumps(form.schema).count('"#/$defs/')
        assert references == json.dumps(schema).count('"#/$defs/')
        assert bool(references) == ("$defs" in form.schema)


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/properties/a"}, {"type": "array", "items": {"$ref": "https://example.org/s.json"}}]
)
def test_a_form_that_refers_elsewhere_is_not_sent(schema: dict[str, Any]) -> None:
    assert Structured.of(schema) is None


@pytest.mark.parametrize(
    ("wanted", "reply", "sent"),
    [
        ("int", '{"answer": 41}', True),
        ("{'type': 'integer', 'description': 'x' * 30_000}", "41", False),
    ],
    ids=["small", "too large"],
)
def test_a_sub_call_of_a_type_names_it_to_the_provider(wanted: str, reply: str, sent: bool) -> None:
    with Loopback([reply]) as server:
        ask = f"```repl\nnumber = llm_query('How many?', answer={wanted}) + 1\n```"
        rlm = RLM(ScriptedModel([ask, "```repl\nFINAL(number)\n```"]), sub_model=loaded("openai", server), save=False)
        result = rlm.completion("How many?")
    assert result.value == 42
    assert (told(server, 0) is not None) == sent
    assert [call.text for call in result.trajectory.subcalls] == ["41"]
