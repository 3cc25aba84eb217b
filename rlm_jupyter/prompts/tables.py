"""Tables in a text: their columns, the types of these, and the code that reads them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

LEAST_LINES = 3
MOST_NAMES = 30
MOST_NAME_CHARS = 60

_INT = re.compile(r"[+-]?(?:0|[1-9]\d*)")
"""Not 007: with zeros before it, it is the name of something."""
_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_NAME = re.compile(r"[^\W\d][\w .()%/#-]{0,59}")


def table(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines that are rows of a table, in a sentence with code that reads it; nothing where they are not."""
    if len(lines) < LEAST_LINES:
        return ()
    for delimiter in ",;\t|":
        try:
            rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        rows = [row for row in rows if row]
        if len(rows) < LEAST_LINES or len(rows[0]) < 2 or {len(row) for row in rows} != {len(rows[0])}:
            continue
        if any(field.startswith(" ") for row in rows for field in row[1:]):
            continue  # enumerations and verses are written so, tables hardly ever
        kinds = [kind([row[column] for row in rows[1:]]) for column in range(len(rows[0]))]
        head = [name.strip("\ufeff ") for name in rows[0]]
        if not any(kind != "text" for kind in kinds) and not _is_header(head, rows):
            continue
        whole = [kind([row[column] for row in rows[1:]], blank=False) for column in range(len(head))]
        marked = lines[0].startswith("\ufeff")
        return _described(delimiter, head if _is_header(head, rows) else None, kinds, whole, marked=marked)
    return ()


def _is_header(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first row names columns: distinct words, none of which stands below it."""
    return (
        len(set(head)) == len(head)
        and all(_NAME.fullmatch(name) for name in head)
        and not any(name in {row[column] for row in rows[1:]} for column, name in enumerate(head))
    )


def _described(
    delimiter: str, head: Sequence[str] | None, kinds: Sequence[str], whole: Sequence[str], *, marked: bool
) -> tuple[str, ...]:
    text = 'context.lstrip("\\ufeff")' if marked else "context"
    named = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[delimiter]
    given = "" if delimiter == "," else f", delimiter={delimiter!r}"
    shown = [f"{short(head[column]) if head else column} ({kind})" for column, kind in enumerate(kinds[:MOST_NAMES])]
    more = f" and {len(kinds) - MOST_NAMES:,} more" if len(kinds) > MOST_NAMES else ""
    numbers = converted(head, whole) if head else ""
    reader, columns = ("DictReader", "the columns") if head else ("reader", "no header; its columns are")
    return (
        f"It is a table separated by {named}, with {columns} {', '.join(shown)}{more}. "
        f"`import csv, io; rows = list(csv.{reader}(io.StringIO({text}){given})){numbers}`",
    )


def converted(names: Sequence[str], kinds: Sequence[str]) -> str:
    """Return the code that makes numbers of columns in which every value is one: as text, 9 is more than 10."""
    lines = []
    for kind in ("int", "float"):
        its = [name for name, its_kind in zip(names, kinds, strict=True) if its_kind == kind][:MOST_NAMES]
        if its:
            lines.append(f"\nfor row in rows:\n    row.update({{name: {kind}(row[name]) for name in {its!r}}})")
    return "".join(lines)


def kind(values: Sequence[str], *, blank: bool = True) -> str:
    """Name the type of a column's values; `blank`: some of them may be empty."""
    if not blank and not all(map(str.strip, values)):
        return "text"
    given = [value.strip() for value in values if value.strip()]
    for name, pattern in (("int", _INT), ("float", _FLOAT), ("number with a decimal comma", _COMMA), ("date", _DATE)):
        if given and all(map(pattern.fullmatch, given)):
            return name
        if name == "number with a decimal comma" and given and any(map(_COMMA.fullmatch, given)):
            mixed = all(_COMMA.fullmatch(value) or _INT.fullmatch(value) for value in given)
            return name if mixed else "text"
    return "text"


def short(name: str) -> str:
    """Return a name as it is shown: in one line, and not too long."""
    name = " ".join(name.split()).strip("\ufeff")
    return name if len(name) <= MOST_NAME_CHARS else f"{name[:MOST_NAME_CHARS]}…"
