"""An answer as people read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_jupyter.record import safe_html
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.values import Usage


def ended(value: Any, *, is_json: bool = True) -> RunEnded:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    return RunEnded("answered", text, value, is_json, 1, 1.0, Usage(), 0.0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("**text**", "**text**"),
        (42, "42"),
        ([], "[]"),
        (
            [{"a": 1, "b": "x|y"}, {"a": None, "b": "two\nlines"}],
            "| a | b |\n| --- | --- |\n| 1 | x\\|y |\n|  | two lines |",
        ),
        ({"vendor": "A*b*", "paid": True}, "|  |  |\n| --- | --- |\n| **vendor** | A\\*b\\* |\n| **paid** | true |"),
        ({"rows": [1, 2]}, '```json\n{\n  "rows": [\n    1,\n    2\n  ]\n}\n```'),
        ([1, "```"], '````json\n[\n  1,\n  "```"\n]\n````'),
        ([{"a": 1}, {"b": 1}], '```json\n[\n  {\n    "a": 1\n  },\n  {\n    "b": 1\n  }\n]\n```'),
    ],
)
def test_data_is_a_table_or_a_tree(value: Any, shown: str) -> None:
    assert answer_markdown(ended(value)) == shown


def test_a_text_that_looks_like_data_is_a_text_and_no_answer_is_nothing() -> None:
    assert answer_markdown(ended('{"a": 1}', is_json=False)) == '{"a": 1}'
    assert answer_markdown(ended(None)) == ""


def test_lines_of_a_text_stay_lines() -> None:
    text = "Ada: 3\nHugo: 5\n\n- one\n- two\n\n```\na\nb\n```\n| a | b |\n|---|---|\n| 1 | 2 |"
    html = safe_html.markdown(answer_markdown(ended(text)))
    assert "Ada: 3<br" in html
    assert "<li>one</li>" in html
    assert "<pre><code>a\nb\n</code></pre>" in html
    assert "<td>1</td>" in html


def test_what_is_no_plain_data_stands_as_it_is_printed() -> None:
    frame = "  name  total_sum\n0  Ann        1.5\n1  Bob        2.0"
    html = safe_html.markdown(answer_markdown(ended(frame, is_json=False)))
    assert f"{frame}\n</code></pre>" in html


def test_what_stands_in_a_cell_stays_text() -> None:
    html = safe_html.markdown(answer_markdown(ended([{"a": "<img src=x>[b](http://c) `d` | $5 and $6"}])))
    assert "<td>&lt;img src=x&gt;[b](http://c) `d` | " in html
    assert "<a" not in html


def test_a_long_list_is_cut() -> None:
    shown = answer_markdown(ended([{"n": n} for n in range(1_000)]))
    assert shown.count("\n| ") == 201
    assert shown.endswith("*… and 800 more rows*")
