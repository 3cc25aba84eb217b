"""A typed answer that stands nowhere is asked about once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.policies import PolicyContext
from tests.unit.policies.cases import final, policy

TEXT = "Outputs:\nthe total is 1,234 for Ada Byron\n\nIteration 2 of 25. Left: 77 sub-calls."


def context(code: str, *, task: str = "How much?", variables: Any = None) -> PolicyContext:
    return PolicyContext(task=task, history=[{"code": code, "output": TEXT}], variables=variables or {})


@pytest.mark.parametrize(
    ("answer", "code", "asks"),
    [
        ("25", "FINAL(25)", True),
        ("77", "FINAL('77')", True),
        ("123", "FINAL(123)", True),
        ("234", "FINAL('234')", True),
        ("1234", "FINAL(1234)", False),
        ("1,234", "FINAL('1,234')", False),
        ("ada  byron.", "FINAL('ada  byron.')", False),
        ("Grace Hopper", "FINAL('Grace Hopper')", True),
        ("25", "FINAL(len(x))", False),
        ("25", "FINAL_VAR('x')", False),
        ("yes", "FINAL('yes')", False),
        ("a" * 61, f"FINAL({'a' * 61!r})", False),
    ],
)
def test_only_what_was_typed_and_stands_nowhere_is_asked_about(answer: str, code: str, asks: bool) -> None:
    verdict = policy("grounded").should_terminate(final(answer), context(code))
    assert verdict == ((False, None) if asks else (True, answer))


def test_prompt_and_variables_count_and_it_asks_once() -> None:
    asking = policy("grounded")
    assert asking.should_terminate(final("25"), context("FINAL(25)", task="24 or 25?")) == (True, "25")
    assert asking.should_terminate(final("25"), context("FINAL(25)", variables={"n": 25})) == (True, "25")
    assert asking.should_terminate(final("25"), context("FINAL(25)"))[0] is False
    assert asking.should_terminate(final("25"), context("FINAL(25)")) == (True, "25")
    asking.reset()
    assert asking.should_terminate(final("25"), context("FINAL(25)"))[0] is False
    assert policy("grounded", max_chars=1).should_terminate(final("25"), context("FINAL(25)"))[0] is True


async def test_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    look, guess = "```repl\nprint(context[:4])\n```", "```repl\nFINAL(25)\n```"
    model = ScriptedModel([look, guess, "```repl\nprint(len(context))\n```", "```repl\nFINAL(9)\n```"])
    result = await RLM(model, termination="grounded").acompletion("How long?", "some text")
    assert (result.answer, len(result.trajectory.iterations)) == ("9", 4)
    assert "grounded did not accept it" in model.requests[2][-1].content
    again = ScriptedModel([look, guess, guess])
    assert (await RLM(again, termination="grounded").acompletion("How long?", "some text")).answer == "25"
    off = ScriptedModel([look, guess])
    assert (await RLM(off).acompletion("How long?", "some text")).answer == "25"
