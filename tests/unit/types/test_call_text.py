"""Calls as text: what is written is read, and nothing else is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.types import call_text

PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.from_regex(r"\A[a-zA-Zé_]\w{0,12}\Z")


@given(
    NAMES | st.tuples(NAMES, NAMES).map(".".join),
    st.lists(PLAIN, max_size=4),
    st.dictionaries(NAMES, PLAIN, max_size=4),
)
def test_what_is_written_is_read(name: str, positional: list[Any], named: dict[str, Any]) -> None:
    read = call_text.read(call_text.write(name, positional, named))
    assert read == call_text.Call(name, tuple(positional), named)


@given(st.text(max_size=80))
def test_any_other_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    try:
        read = call_text.read(text)
    except ValueError:
        return
    assert text.startswith(f"{read.name}(")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "search",
        "search(",
        "search(1",
        "search(1,",
        "search(1,2)",
        "search(1) ",
        "search(1) or 2",
        "search(a)",
        "search(k=1, 2)",
        "search(k=)",
        "search(__import__('os'))",
        "1search()",
        "a..b()",
        ".b()",
        "search(" + "[" * 100_000 + ")",
    ],
)
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        call_text.read(text)


def test_numbers_that_json_lacks_come_through() -> None:
    [number] = call_text.read(call_text.write("f", [math.nan], {})).positional
    assert math.isnan(number)
