"""How a context begins: what of it a model is shown before it has written any code."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rlm_jupyter.prompts import preview as module
from rlm_jupyter.prompts.preview import CHARS, beginning, is_whole
from rlm_jupyter.run.context import pack


def test_a_text_begins_as_it_is_and_ends_with_a_line() -> None:
    text = "".join(f"line {n:04}\n" for n in range(1000))
    shown = beginning(text)
    assert text.startswith(f"{shown}\n")
    assert CHARS - 10 <= len(shown) <= CHARS


@pytest.mark.parametrize("text", ["x" * 5000, "short\n" + "x" * 5000, "ä" * 5000, "\ud800" * 5000])
def test_a_text_without_lines_is_cut(text: str) -> None:
    assert beginning(text) == text[:CHARS]


@pytest.mark.parametrize("text", ["", "a", "a\nb\n", "x" * CHARS, "\ud800ä"])
def test_a_short_one_is_shown_whole(text: str) -> None:
    info = pack(text).info
    assert info.beginning == text
    assert is_whole(info)


@pytest.mark.parametrize("context", ["x" * (CHARS + 1), b"x", ["x"], {"x": 1}, "a\n" * CHARS])
def test_others_are_not_whole(context: object) -> None:
    assert not is_whole(pack(context).info)


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        (b"ab\x00", "b'ab\\x00'"),
        (["a", 2, ("b",), "left out"], "[0] 'a'\n[1] 2\n[2] ('b',)"),
        ({"k": [1, 2], 3: None}, "['k'] [1, 2]\n[3] None"),
        ([], ""),
        ({}, ""),
        ({1, 2}, ""),
        (7, ""),
        (np.zeros(3), ""),
    ],
)
def test_other_data_begin_with_their_first_parts(context: object, shown: str) -> None:
    assert beginning(context) == shown


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_begins_with_its_first_rows(library) -> None:
    shown = beginning(library.DataFrame({"name": [f"row {n}" for n in range(100)]}))
    assert "name" in shown
    assert "row 4" in shown
    assert "row 5" not in shown


def test_no_more_is_shown_of_large_parts() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    for context in (["x" * 10_000_000] * 3, {"k" * 10_000_000: "v" * 10_000_000}, [list(range(1_000_000))], [deep]):
        assert 0 < len(beginning(context)) <= CHARS


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_repr_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Broken" in beginning([Broken()])
    monkeypatch.setattr(module, "_short", lambda value: 1 / 0)
    assert beginning([1]) == ""
