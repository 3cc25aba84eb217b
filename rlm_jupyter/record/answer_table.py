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
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def answer_markdown(ended: RunEnded) -> str:
    """Return the answer of a run in Markdown; empty where there is none.

    A list of objects with the same keys becomes a table, an object with plain values a table of two columns, other
    lists and objects indented JSON; what is no plain data, such as a data frame, stands as it is printed. Anything else
    is the answer's text, whose lines end where it ends them.
    """
    if ended.answer is None:
        return ""
    value = ended.value if ended.is_json else None
    if isinstance(value, dict | list) and value:
        return _rows(value) or _fields(value) or _tree(value)
    if not ended.is_json and "\n" in ended.answer:
        return _fenced(ended.answer, "text")
    return _with_breaks(ended.answer)


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
    return _fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


def _fenced(text: str, kind: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])
    return f"{fence}{kind}\n{text}\n{fence}"


def _with_breaks(text: str) -> str:
    """Return a text in whose paragraphs, drawn as Markdown, each line stands by itself, as its author sees it."""
    lines, is_code = text.split("\n"), False
    for index, line in enumerate(lines[:-1]):
        is_code ^= _FENCE.match(line) is not None
        if not is_code and line.strip() and lines[index + 1].strip() and not line.lstrip().startswith("|"):
            lines[index] = line.rstrip() + "  "
    return "\n".join(lines)


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and len(str(value)) <= _MOST_CELL_CHARS)


def cell(value: object) -> str:
    """Return a cell's content: nothing in it is Markdown, or ends the row."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
