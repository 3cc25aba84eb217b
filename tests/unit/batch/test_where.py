"""Conditions on the columns of a row: what they mean, and that they are no Python."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_jupyter.batch.where import Where
from rlm_jupyter.types.errors import ConfigurationError

ROW = {
    "key": "n1",
    "score": 1.0,
    "stop_reason": "answered",
    "cost": None,
    "tokens": 120,
    "answer": {"total": 3, "kind": "food"},
    "error": None,
    "ready": True,
}
AS_CSV = {
    "key": "n1", "score": "1.0", "stop_reason": "answered", "cost": None, "tokens": "120", "answer.total": "3",
    "answer.kind": "food", "error": None, "ready": "true",
}  # fmt: skip
AS_CSV_WITHOUT_TYPE = {name: value for name, value in AS_CSV.items() if "." not in name} | {
    "answer": '{"total": 3, "kind": "food"}'
}


@pytest.mark.parametrize("row", [ROW, AS_CSV, AS_CSV_WITHOUT_TYPE], ids=["json", "csv", "csv, untyped"])
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("score >= 1", True),
        ("score > 1", False),
        ("0.5 < score <= 1", True),
        ("score == 1 and stop_reason == 'answered'", True),
        ("score < 1 or tokens > 100", True),
        ("not score >= 1", False),
        ("stop_reason != 'answered'", False),
        ("stop_reason in ('answered', 'terminated')", True),
        ("stop_reason not in ['answered']", False),
        ("'answer' in stop_reason", True),
        ("key in ('n2', 'n3')", False),
        ("cost < 1", False),  # it is not known
        ("not cost < 1", True),
        ("cost is None", True),
        ("error == None and cost == None", True),
        ("error is not None", False),
        ("answer.total == 3 and answer.kind == 'food'", True),
        ("answer.total > -1", True),
        ("tokens in (119, 120)", True),
        ("ready == True", True),
        ("stop_reason > 3", False),
        ("stop_reason == 3", False),
    ],
)
def test_a_condition_means_the_same_for_each_kind_of_file(row: dict[str, Any], text: str, holds: bool) -> None:
    assert Where(text).holds(row) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("score >", "is no condition on columns, such as: score >= 1"),
        ("score = 1", "is no condition on columns"),
        ("", "is no condition on columns"),
        ("score", "score compares nothing"),
        ("1", "1 compares nothing"),
        ("print(1) == 1", "print(1) is neither a column nor a plain value"),
        ("__import__('os').system('true')", "compares nothing"),
        ("score + 1 > 2", "score + 1 is neither a column nor a plain value"),
        ("[x for x in y] == 1", "is neither a column nor a plain value"),
        ("(lambda: 1)() == 1", "is neither a column nor a plain value"),
        ("f'{key}' == '1'", "is neither a column nor a plain value"),
        ("b'1' == key", "is neither a column nor a plain value"),
        ("score == 1 and (x := 2) == 2", "is neither a column nor a plain value"),
        ("score >= 1 " * 300, "it has more than 2,000 characters"),
        ("-" * 1500 + "1 < score", ""),
        ("(" * 900 + "score" + ")" * 900 + " > 1", ""),
        ("score > 1\0", ""),
    ],
)
def test_anything_else_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Where(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "holds"),
    [("not " * 400 + "score == 1", True), ("9" * 1900 + " > score", True), ("key.__class__ == 'str'", False)],
)
def test_what_is_odd_is_read_as_it_stands(text: str, holds: bool) -> None:
    assert Where(text).holds(ROW) is holds


def test_a_column_that_no_row_has_is_named() -> None:
    Where("score > 1 and answer.total == 2").check(["score", "answer"])
    Where("answer.total == 2").check(["answer.total"])
    with pytest.raises(ConfigurationError, match=r"names scoer, which is no column: there are key, score\."):
        Where("scoer > 1").check(["key", "score"])
    with pytest.raises(ConfigurationError, match=r"score, which is no column .*--expected"):
        Where("score > 1").check(["key"])
