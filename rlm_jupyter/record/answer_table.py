"""`answer_markdown`: an answer as people read it: data as a table or a tree, a text as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.types.events import RunEnded

_MOST_ROWS = 200
_MOST_COLUMNS = 12
_MOST_CELL_CHARS = 200
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def answer_markdown(ended: RunEnded) -> str:
    """Return the answer of a run in Markdown; empty where there is none.

    A list of objects with the same keys becomes a table, an object with plain values a table of two columns, other
    lists and objects indented JSON. Anything else is the answer's text.
    """
    if ended.answer is None:
        return ""
    value = ended.value if ended.is_json else None
    if not isinstance(value, dict | list) or not value:
        return ended.answer
    return _rows(value) or _fields(value) or _tree(value)


def _rows(value: Any) -> str:
    if not isinstance(value, list) or not isinstance(value[0], dict) or not 0 < len(value[0]) <= _MOST_COLUMNS:
        return ""
    keys = list(value[0])
    if not all(isinstance(row, dict) and list(row) == keys and all(map(_is_plain, row.values())) for row in value):
        return ""
    rows = [[cell(row[key]) for key in keys] for row in value[:_MOST_ROWS]]
    more = f"\n\n*… and {len(value) - _MOST_ROWS:,} more rows*" if len(value) > _MOST_ROWS else ""
    return _table([cell(key) for key in keys], rows) + more


def _fields(value: Any) -> str:
    if not isinstance(value, dict) or not all(map(_is_plain, value.values())) or len(value) > _MOST_ROWS:
        return ""
    return _table(["", ""], [[f"**{cell(key)}**", cell(field)] for key, field in value.items()])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _tree(value: Mapping[str, Any] | Sequence[Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])
    return f"{fence}json\n{text}\n{fence}"


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and len(str(value)) <= _MOST_CELL_CHARS)


def cell(value: object) -> str:
    """Return a cell's content: nothing in it is Markdown, or ends the row."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
