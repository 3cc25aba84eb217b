"""Whatever a model replies to a sub-call of a type: it is a value of that type, or a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import pytest

from rlm_jupyter.kernel.guest.reply_types import ReplyType
from rlm_jupyter.kernel.guest.subcall_client import SubcallFailure
from rlm_jupyter.prompts.preview import beginning


def replied(wanted: Any, *replies: str, name: str = "llm_query", prompt: str = "What?") -> tuple[Any, list[str]]:
    """Return what comes of a prompt with these replies, one after the other, and what was asked."""
    settling = ReplyType(wanted, name).settle([prompt])
    asked = next(settling)
    for reply in replies:
        try:
            asked += settling.send([reply])
        except StopIteration as settled:
            return settled.value[0], asked
    raise AssertionError("it asks further")


@pytest.mark.parametrize("reply", ["nan", "NaN", "inf", "-Infinity", "1e999", "[1e999]", '["nan"]', '[1, "inf"]'])
def test_no_reply_stands_for_infinity(reply: str) -> None:
    for wanted in (float, list[float], {"type": ["number", "array"], "items": {"type": "number"}}):
        failure, _ = replied(wanted, reply, "NaN")
        assert isinstance(failure, SubcallFailure)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```json \n{}\n```", "```\r\n{}\r\n```", "\n```JSON\n{}```\n"])
def test_a_reply_in_a_fence_is_read(fence: str) -> None:
    assert replied(list[int], fence.format("[1, 2]"))[0] == [1, 2]
    assert replied(Literal["a", "b"], fence.format("a"))[0] == "a"


def test_a_text_of_several_lines_is_a_text() -> None:
    assert replied(str, "one\ntwo")[0] == "one\ntwo"
    assert replied({"type": "string"}, "one\n```\ntwo\n```")[0] == "one\n```\ntwo\n```"
    failure, asked = replied(list[str], "These:\n- a\n- b", "These:\n- a")
    assert isinstance(failure, SubcallFailure)
    assert "it is no JSON" in asked[1]


def test_values_that_are_read_once_are_there_to_be_read() -> None:
    assert list(replied(Iterable[int], "[1, 2]")[0]) == [1, 2]


@pytest.mark.parametrize("name", ["rlm_query", "arlm_query_batched"])
def test_a_child_sees_the_form_and_the_mistake_before_its_code_does(name: str) -> None:
    value, asked = replied(
        list[int], "[several: " + "x" * 5_000, "[3]", name=name, prompt="How many?\n\n" + "text " * 9_000
    )
    assert value == [3]
    for text in map(beginning, asked):
        assert "Reply with JSON alone, of this form:\n[int, ...]\n\nHow many?" in text
    assert "it is no JSON" in beginning(asked[1])


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"vendor": "str"}, "takes any reply: a JSON schema says what is wanted by keywords"),
        ({}, "takes any reply"),
        ({"$ref": "#/$defs/Nowhere"}, 'it refers to "#/$defs/Nowhere", which is not in it'),
        ({"type": "array", "items": {"$ref": "https://example.org/s.json"}}, "which is not in it"),
        (
            {"properties": {"at": {"$ref": "#/$defs/Adress"}}, "$defs": {"Address": {"type": "string"}}},
            'properties.at: it refers to "#/$defs/Adress", which is not in it (did you mean #/$defs/Address?)',
        ),
        ({"$ref": "#"}, '"#" refers to itself alone'),
        (
            {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            'items: "#/$defs/a" refers to itself alone',
        ),
        ({"type": "nonsense"}, "no JSON schema"),
    ],
)
def test_a_schema_that_nothing_or_anything_can_have_is_refused_before_anything_is_asked(
    wanted: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(says)) as refused:
        ReplyType(wanted, "llm_query")
    assert str(refused.value).startswith("llm_query: answer={")
    assert "\n" not in str(refused.value)
