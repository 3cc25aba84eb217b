"""What an agent is told of an answer: no more than its window has room for, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.frontends.agents.tool_reply import ToolReply, of_ended
from rlm_jupyter.models.scripted import ScriptedModel

NOTEBOOK = Path("/data/rlm_runs/20310102-101500 who.ipynb")


def told(final: str, notebook: Path | None = NOTEBOOK) -> ToolReply:
    result = RLM(ScriptedModel([f"```repl\nFINAL({final})\n```"]), save=False).completion("What?", "A text.")
    return of_ended("r1", result.trajectory, notebook)


@pytest.mark.parametrize(
    ("final", "answer", "value"),
    [("'a text'", "a text", None), ("[1, 2]", "[1, 2]", [1, 2]), ("12", "12", 12), ("0", "0", 0)],
)
def test_a_value_is_told_where_it_is_not_the_text_once_more(final: str, answer: str, value: object) -> None:
    data = told(final).data
    assert (data["answer"], data["value"], data["is_shortened"]) == (answer, value, False)


def test_of_a_long_answer_its_ends_are_told_and_where_the_whole_is() -> None:
    reply = told("'first' + 'x' * 2_000_000 + 'last'")
    answer = reply.data["answer"]
    start, line, end = answer.split("\n")
    assert (start[:6], end[-5:]) == ("firstx", "xlast")
    assert (
        line == f"[… 1,980,009 of 2,000,009 characters left out; for the whole answer: jupyter rlm show '{NOTEBOOK}' …]"
    )
    assert len(start + end) == 20_000
    assert (reply.data["value"], reply.data["is_shortened"]) == (None, True)
    assert reply.text.startswith(f"{answer}\n\nSource: ")
    assert "jupyter" not in told("'x' * 30_000", notebook=None).data["answer"]


def test_long_data_are_told_as_text_alone() -> None:
    data = told("list(range(2_000))").data
    assert (data["answer"][-6:], data["value"], data["is_shortened"]) == (" 1999]", None, False)
    assert told("list(range(100_000))").data["value"] is None
