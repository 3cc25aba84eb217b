"""What is no answer of its type reaches nobody as one: three hundred texts, as an answer, and as replies to sub-calls."""

from __future__ import annotations

import re

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.answer_type import AnswerError, AnswerType
from rlm_jupyter.types.values import Value
from tests.answers.malformed import TEXT, WHOLE, Invoice, malformed

CASES = malformed()
ASK = """```repl
from pydantic import BaseModel, Field

class Paid(BaseModel):
    by: str
    on: str

class Invoice(BaseModel, extra="forbid"):
    vendor: str
    total: float = Field(gt=0)
    lines: list[int]
    paid: Paid

replies = llm_query_batched([f"case {number}." for number in range(%d)], answer=Invoice)
kinds = {type(reply).__name__ for reply in replies[:-1]}
wrong = [number for number, reply in enumerate(replies) if reply]
```"""


def test_there_are_three_hundred() -> None:
    assert len(CASES) >= 300
    assert AnswerType(Invoice).check(Value(TEXT)).json == WHOLE


@pytest.mark.parametrize("wanted", [Invoice, Invoice.model_json_schema()], ids=["a type", "a schema"])
def test_none_is_an_answer(wanted: object) -> None:
    answer_type = AnswerType(wanted)
    for text in CASES:
        with pytest.raises(AnswerError) as raised:
            answer_type.check(Value(text))
        assert all(len(reason) < 2_000 for reason in raised.value.reasons), text[:80]


def test_none_is_the_reply_of_a_sub_call_and_each_is_asked_for_once_more_at_most() -> None:
    texts = [*CASES, TEXT]

    def reply(prompt: str) -> str:
        found = re.search(r"case (\d+)\.", prompt)
        assert found is not None
        return texts[int(found[1])]

    root = ScriptedModel([ASK % len(texts), "```repl\nFINAL([sorted(kinds), wrong])\n```"], sub=reply)
    limits = Limits(max_subcalls=2_000, max_iterations=4)
    result = RLM(root, save=False, limits=limits).completion("What do they say?")
    assert result.value == [["SubcallFailure"], [len(CASES)]]
    assert len(result.trajectory.subcalls) <= 2 * len(CASES) + 1
