"""Whatever a model gives to FINAL: it has the form that was asked for, or the reasons say why not."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_serializer,
    field_validator,
)

from rlm_jupyter.kernel.guest.reply_types import ReplyType
from rlm_jupyter.kernel.guest.subcall_client import SubcallFailure
from rlm_jupyter.run.answer_type import AnswerError, AnswerType, read_schema
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.values import Value


class Row(BaseModel):
    name: str
    day: date
    amounts: list[float]

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "trap":
            raise ValueError("a name that is refused")
        return name


ROW = {"name": "a", "day": "2031-02-03", "amounts": [1, 2.5]}
GOOD = json.dumps(ROW)
MALFORMED = [
    *(GOOD[:length] for length in range(len(GOOD))),
    *(GOOD[:place] + GOOD[place + 1 :] for place in range(1, len(GOOD), 3)),
    f"Here it is: {GOOD}",
    f"```json\n{GOOD}\n```",
    GOOD.replace("2.5", "NaN"),
    GOOD.replace("2.5", "Infinity"),
    GOOD.replace("2.5", "1e999"),
    GOOD.replace("2031-02-03", "2031-02-30"),
    GOOD.replace('"a"', "null"),
    GOOD.replace('"a"', '"trap"'),
    GOOD.replace('"a"', '"\\ud800"'),
    GOOD.replace("[1, 2.5]", "[" * 5_000 + "]" * 5_000),
    GOOD.replace("[1, 2.5]", f"[{'9' * 5_000}]"),
    f"[{GOOD}]",
    f"{GOOD}{GOOD}",
    GOOD.replace('"', "'"),
    "",
    "null",
    "\x00",
]


def valid(data: Any) -> bool:
    """Whether a second reader takes it."""
    TypeAdapter(Row).validate_json(json.dumps(data, allow_nan=False))
    return True


def replied(wanted: ReplyType, *replies: str) -> list[Any]:
    """Return what a sub-call gets of a model that gives these replies, one after the other."""
    settling = wanted.settle(["What?"])
    next(settling)
    for reply in replies:
        try:
            settling.send([reply])
        except StopIteration as settled:
            return list(settled.value)
    raise AssertionError("it asks further")


def reasons_of(wanted: AnswerType, value: Value) -> tuple[list[str] | None, Any]:
    """Return why a value is not taken, or what is taken."""
    try:
        return None, wanted.check(value).json
    except AnswerError as error:
        return error.reasons, None


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_malformed_is_no_answer(text: str) -> None:
    wanted = AnswerType(Row)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = text
    for value in (Value(text), Value(text, data, is_json=True)):
        reasons, checked = reasons_of(wanted, value)
        assert reasons is not None or valid(checked)  # what was left out of it was not needed
        assert reasons is None or all(reason.strip() and len(reason) < 500 for reason in reasons)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "day", "amounts"]), inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_what_is_taken_has_the_form(data: Any) -> None:
    reasons, checked = reasons_of(AnswerType(Row), Value("", data, is_json=True))
    assert reasons or valid(checked)


@pytest.mark.parametrize(
    ("wanted", "given", "reasons"),
    [
        (
            dict[str, float],
            {"a": math.nan},
            ["a: NaN is no answer, and nothing that JSON has: say null, or leave it out"],
        ),
        (
            list[list[float]],
            [[1], [2, -math.inf]],
            ["[1][1]: infinity is no answer, and nothing that JSON has: say null, or leave it out"],
        ),
        (float, math.nan, ["NaN is no answer, and nothing that JSON has: say null, or leave it out"]),
        (int, "x", ["input should be a valid integer, not 'x'"]),
        (dict[str, float], {"total": "4,50"}, ["total: input should be a valid number, not '4,50'"]),
        (Row, ROW | {"name": "trap"}, ["name: a name that is refused, not 'trap'"]),
    ],
)
def test_a_reason_says_one_thing(wanted: Any, given: Any, reasons: list[str]) -> None:
    assert reasons_of(AnswerType(wanted), Value(str(given), given, is_json=True)) == (reasons, None)


class Bill(BaseModel):
    total: float
    count: int | None
    of: str
    parts: list[float] = []


@pytest.mark.parametrize("wanted", [Bill, Bill.model_json_schema()], ids=["type", "schema"])
def test_a_number_may_come_as_text_with_the_class_and_without(wanted: Any) -> None:
    bill = {"total": "40.50", "count": "3", "of": "7", "parts": ["1.5", 2]}
    taken = {"total": 40.5, "count": 3, "of": "7", "parts": [1.5, 2]}
    assert reasons_of(AnswerType(wanted), Value("", bill, is_json=True)) == (None, taken)
    for wrong in ("4,50", "NaN", "true", "[1]", ""):
        reasons, _ = reasons_of(AnswerType(wanted), Value("", bill | {"total": wrong}, is_json=True))
        assert reasons is not None
    assert reasons_of(AnswerType(wanted), Value("", bill | {"count": "3.5"}, is_json=True))[0] is not None


def test_what_a_text_is_read_as() -> None:
    assert reasons_of(AnswerType(str), Value("5", 5, is_json=True)) == (None, "5")
    assert reasons_of(AnswerType(list[int]), Value("```json\n[1]\n```")) == (None, [1])
    assert reasons_of(AnswerType(str), Value("```json\n[1]\n```")) == (None, "```json\n[1]\n```")
    assert reasons_of(AnswerType(str), Value("True", True, is_json=True))[1] is None


def test_reasons_are_few_and_name_the_place() -> None:
    many = {"name": 1, "day": "x", "amounts": ["x"] * 50}
    with pytest.raises(AnswerError) as raised:
        AnswerType(Row).check(Value("", many, is_json=True))
    assert len(raised.value.reasons) == 6
    assert raised.value.reasons[0].startswith("name: ")
    assert raised.value.reasons[-1] == "and 47 more"


class Named(BaseModel):
    total: float = Field(alias="totalAmount")


class NamedForReading(BaseModel):
    total: float = Field(validation_alias="totalAmount")


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    total: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> float:
        return 2 * self.total


class Hidden(BaseModel):
    total: float = Field(exclude=True)
    word: SecretStr = SecretStr("x")


class Written(BaseModel):
    day: date
    unknown: float = float("nan")

    @field_serializer("day")
    def european(self, day: date) -> str:
        return day.strftime("%d/%m/%y")


@pytest.mark.parametrize(
    ("wanted", "data"),
    [
        (Named, {"totalAmount": 40.5}),
        (NamedForReading, {"totalAmount": 40.5}),
        (Computed, {"total": 40.5}),
        (Hidden, {"total": 40.5, "word": "hunter2"}),
        (Written, {"day": "2031-04-01"}),
        (list[Json[list[int]]], ["[1, 2]"]),
    ],
)
def test_an_instance_can_be_made_of_what_is_kept(wanted: Any, data: Any) -> None:
    checked = AnswerType(wanted).check(Value("", data, is_json=True))
    assert checked.text == json.dumps(checked.json)
    made, expected = AnswerType(wanted).instance(checked.json), TypeAdapter(wanted).validate_json(json.dumps(data))
    assert type(made) is type(expected)
    assert repr(made) == repr(expected)
    assert "hunter2" not in checked.text or made.word.get_secret_value() == "hunter2"


@pytest.mark.parametrize("text", ["inf", "-Infinity", "nan", "1e999"])
def test_no_text_stands_for_infinity(text: str) -> None:
    for wanted, data in ((float, text), (dict[str, float], {"a": text}), (Row, ROW | {"amounts": [text]})):
        with pytest.raises(AnswerError):
            AnswerType(wanted).check(Value(text, data, is_json=True))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, "any value"),
        (True, "any value"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "int (>= 1, <= 5)"),
        ({"type": ["string", "null"]}, "str or None"),
        ({"const": True}, "True"),
        ({"enum": ["a", 1, None]}, '"a" or 1 or None'),
        ({"type": "array"}, "[any value, ...]"),
        ({"type": "object"}, "dict"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}, "[str, float]"),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, "int (>= 0)"),
        ({"properties": {"a": {"properties": {"b": {"type": "string"}}, "required": True}}}, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}, None),
    ],
)
def test_a_form_is_short(schema: Mapping[str, Any] | bool, said: str | None) -> None:
    shown = form(schema)
    assert shown == said if said is not None else len(shown) < 100  # a form in itself comes to an end


class Refusing:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        raise RuntimeError("it has no form")


class Extended(BaseModel):
    model_config = ConfigDict(json_schema_extra={"made": object()})  # type: ignore[dict-item]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "wanted",
    [
        Annotated[str, Field(pattern="(?=a)")],
        Refusing,
        Extended,
        nested(200),
        nested(50_000),
        {"$schema": 3},
        {"minimum": float("nan")},
        {"enum": [{1, 2}]},
    ],
    ids=["pattern", "refusing", "extended", "deep", "deeper", "dialect", "nan", "set"],
)
def test_what_can_not_be_described_is_refused_in_a_sentence(wanted: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        AnswerType(wanted)
    assert len(str(raised.value)) < 600


def test_a_default_that_is_no_json_is_left_out_of_the_record() -> None:
    assert AnswerType(Written).schema["properties"]["unknown"]["default"] is None


def test_a_file_that_is_nested_too_deeply_is_no_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"items":' * 100_000 + "{}" + "}" * 100_000)
    with pytest.raises(ConfigurationError, match="is no JSON"):
        read_schema(path)


def test_of_a_long_value_the_reason_is_told() -> None:
    for wanted, data in (({"type": "integer"}, "word " * 1_000), ({"items": {"maxLength": 5}}, ["x" * 5_000])):
        [reason] = reasons_of(AnswerType(wanted), Value("", data, is_json=True))[0] or []
        assert reason.endswith(("is not of type 'integer'", "is too long"))
        assert len(reason) < 500


def test_a_pattern_takes_no_longer_than_the_text_is() -> None:
    before = time.monotonic()
    wanted = AnswerType({"type": "string", "pattern": "^(a+)+$"})
    assert "does not match" in str(reasons_of(wanted, Value("a" * 40 + "b"))[0])
    assert time.monotonic() - before < 5
    ahead = AnswerType({"type": "string", "pattern": "^(?=.*x)a"})
    assert reasons_of(ahead, Value("ax"))[0] is None
    assert reasons_of(ahead, Value("ay"))[0] is not None


def test_a_schema_that_refers_elsewhere_is_not_fetched() -> None:
    fetched = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = f"http://127.0.0.1:{server.server_port}/schema.json"
        with pytest.raises(ConfigurationError, match=r"it refers to .*, which is not in it"):
            AnswerType({"properties": {"a": {"$ref": there}}})
        # where references are relative to another part, that is found when it is applied
        apart = {"properties": {"a": {"$id": "https://example.org/a.json", "$ref": there}}}
        with pytest.raises(AnswerError, match="the schema can't be applied"):
            AnswerType(apart).check(Value("", {"a": 1}, is_json=True))
        [failure] = replied(ReplyType(apart, "llm_query"), *['{"a": 1}'] * 2)
        assert isinstance(failure, SubcallFailure)
        assert "can't be applied" in failure.reason
        server.shutdown()
    assert fetched == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {}}},
        {"$ref": "#it", "$defs": {"a": {"$anchor": "it", "type": "string"}}},
        {"$id": "https://example.org/a.json", "$ref": "a.json#/$defs/b", "$defs": {"b": {"type": "string"}}},
        {"const": {"$ref": "#/nowhere"}},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
    ],
)
def test_a_schema_may_refer_to_what_is_in_it(schema: dict[str, Any]) -> None:
    assert AnswerType(schema).schema == schema
