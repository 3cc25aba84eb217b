"""What the model is told."""

from __future__ import annotations

import ast
import re

import pytest

from rlm_jupyter import context as contexts
from rlm_jupyter import parsing, prompts
from rlm_jupyter.types import ContextInfo

SYSTEM = {"output_chars": 20_000, "sub_chars": 350_000, "recursive": False}


@pytest.mark.parametrize("type_name", ["str", "list", "dict", "bytes", "DataFrame", "none", "Thing"])
def test_the_example_of_a_block_is_one_that_would_run(type_name: str) -> None:
    text = prompts.system(type_name, **SYSTEM)  # type: ignore[arg-type]
    first, second = parsing.parse(text).blocks
    ast.parse(first)
    assert second == "FINAL(total)"
    assert "{" not in re.sub(r"\{passage\}", "", text.replace(first, ""))


def test_the_size_of_a_sub_call_and_recursion_are_told_as_they_are() -> None:
    assert "350,000 characters" in prompts.system("str", **SYSTEM)  # type: ignore[arg-type]
    assert "rlm_query" not in prompts.system("str", **SYSTEM)  # type: ignore[arg-type]
    assert "rlm_query(text)" in prompts.system("str", output_chars=1, sub_chars=1, recursive=True)


def test_the_opening_holds_prompt_context_and_limits() -> None:
    info = contexts.pack("a\nb").info
    text = prompts.opening("What?", info, max_iterations=7, left=["9 sub-calls"], history=2)
    assert text.startswith("<prompt>\nWhat?\n</prompt>\n")
    for part in ("str", "3 characters", "7 iterations", "9 sub-calls", "answered 2 prompts before"):
        assert part in text


def test_no_context_is_said() -> None:
    text = prompts.opening("What?", ContextInfo("none", "empty"), max_iterations=7)
    assert "`context` is empty" in text


def test_the_status_counts_down() -> None:
    assert prompts.status(1, 5, []) == "Iteration 2 of 5."
    assert "last one" in prompts.status(4, 5, [])
    assert prompts.status(5, 5, ["$0.10"]) == "No iteration is left. Left: $0.10."
