"""The file of results: what rows are in CSV and Parquet."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.run.answer_type import AnswerType


@pytest.fixture(params=[".csv", ".parquet"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def table(folder: Path, suffix: str, *rows: ResultRow, answer: object = None) -> list[dict[str, Any]]:
    path = folder / f"results{suffix}"
    file = ResultsFile(path, AnswerType.of(answer))
    file.folder.mkdir()
    file.write(rows, lambda sha256: None)
    assert file.fault == ""
    if suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    with path.open(newline="") as written:
        return list(csv.DictReader(written))


@pytest.mark.parametrize("answer", [None, dict[str, int]])
def test_an_object_has_the_keys_that_it_was_answered_with(tmp_path: Path, suffix: str, answer: object) -> None:
    given: list[dict[str, int]] = [{"good": 1}, {"bad": 2}, {}]
    found = table(tmp_path, suffix, *(ResultRow(key="", answer=it) for it in given), answer=answer)
    assert [json.loads(row["answer"]) for row in found] == given


def test_so_has_one_in_a_field_or_a_list(tmp_path: Path, suffix: str) -> None:
    schema = {"type": "object", "properties": {"counts": {"type": "object"}, "parts": {"type": "array"}}}
    given: list[dict[str, Any]] = [{"counts": {"a": 1}, "parts": [{"x": 1}, {"y": 2}]}, {"counts": {}, "parts": []}]
    found = table(tmp_path, suffix, *(ResultRow(key="", answer=it) for it in given), answer=schema)
    assert [{name: json.loads(row[f"answer.{name}"]) for name in given[0]} for row in found] == given


def test_half_a_character_is_written_as_its_code(tmp_path: Path, suffix: str) -> None:
    [row] = table(tmp_path, suffix, ResultRow(key="", answer="a\ud800"))
    assert row["answer"] == r"a\ud800"


@pytest.mark.parametrize(
    ("answer", "column", "good"),
    [(int, "answer", 1), ({"properties": {"n": {"type": "integer"}}}, "answer.n", {"n": 1})],
)
def test_a_draft_leaves_the_columns_of_answers_their_type(
    tmp_path: Path, suffix: str, answer: object, column: str, good: object
) -> None:
    rows = [
        ResultRow(key="a", answer=good),
        ResultRow(key="b", draft="len 0", error="limit reached"),
        ResultRow(key="c", draft={"n": "x"}, error="limit reached"),
    ]
    found = table(tmp_path, suffix, *rows, answer=answer)
    assert [row[column] for row in found] == ([1, None, None] if suffix == ".parquet" else ["1", "", ""])
    assert [row["draft"] or None for row in found] == [None, "len 0", '{"n": "x"}']
    names = list(found[0])
    assert names.index("draft") == names.index(column) + 1
