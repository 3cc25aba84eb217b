"""Tables in a text: their columns, the types of these, and the code that reads them.

Only samples are seen: what the code converts, it converts where it is a number, and leaves all else as it stands.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from rlm_jupyter.prompts.columns import (
    LEAST_LINES,
    MISSING,
    MOST_CODE_CHARS,
    MOST_NAMES,
    converted,
    kinds_of,
    short,
    with_gaps,
    without_odd,
)

_MOST_WITHOUT_HEADER = 200
"""Columns whose names would fit a sample: above, there may be a header that is not in it."""

_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""Commas last: they stand in numbers and in texts, too."""
_GROUPED = re.compile(
    r"(?<![^\s€$£(])[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?:\d{1,3}(?:\.\d{3})+|\d+),\d+)(?![^\s%€$£)])"
)
"""A number that has commas in it."""
_RULE = re.compile(r":?-+:?")
"""What stands below the names in Markdown."""
_NAME = re.compile(r"[^\W\d][\w .()%/#-]{0,59}")
_PERIOD = re.compile(r"(?:1[5-9]|2[01])\d\d(?:-\d\d){0,2}|\d{1,2}/\d{1,2}/(?:\d\d|\d{4})")
"""A year, a month or a day: they name columns, too."""
_WRITTEN = re.compile(r"[+-]?\d[\d.]*[eE][+-]?\d+|\d[\d:.-]+T[\d:.+-]+Z?")
"""Numbers and times that have letters in them."""
_DIGIT = re.compile(r"\d")
_MANY = 10
_COMMON = re.compile(
    r"\b(?:id|key|name|title|city|town|country|state|region|date|day|time|year|type|kind|category|class|label|status"
    r"|text|comment|review|sentence|sentiment|question|answer|description|note|e?mail|phone|address|url|link|author|user"
    r"|customer|product|item|price|amount|total|count|score|language|gender|role|code|number|value|source|target|ort|stadt|land|datum|titel|nom|ville|pays|nombre|ciudad)\b"
)
"""Words that columns have for names everywhere."""


def table(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines that are rows of a table, in a sentence with code that reads it; nothing where they are not."""
    if not lines:
        return ()
    first = lines[0].lstrip("\ufeff")
    is_marked = first != lines[0]
    lines = [first, *lines[1:]] if first.strip() else lines[1:]
    for delimiter in _DELIMITERS:
        rows = _rows(lines, delimiter)
        if rows and (found := _described(delimiter, rows, is_marked=is_marked)):
            return found
    return ()


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Split lines into rows of the same length; empty where they are none, or where that cuts something."""
    if delimiter == "," and all("," in line and "," not in _GROUPED.sub("", line) for line in lines):
        return []
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    rows = [row for row in rows if row]
    if len(rows) < LEAST_LINES or len(rows[0]) < 2 or {len(row) for row in rows} != {len(rows[0])}:
        return []
    if any(field.startswith(" ") for row in rows for field in row[1:]):
        return []  # enumerations and verses are written so, tables hardly ever
    columns = list(zip(*rows, strict=True))
    if any(all(map(_is_open, column)) for column in columns):
        return []  # the arguments of a call, the items of a list
    filled = sum(any(map(str.strip, column)) for column in columns)
    return rows if filled > 1 else []


def _is_open(field: str) -> bool:
    return any(field.count(pair[0]) != field.count(pair[1]) for pair in ("()", "[]", "{}"))


def _described(delimiter: str, rows: Sequence[Sequence[str]], *, is_marked: bool) -> tuple[str, ...]:
    is_ruled = delimiter == "|" and all(map(_RULE.fullmatch, rows[1]))
    body = rows[1 + is_ruled :]
    is_named = all(map(str.strip, rows[0])) and len({*rows[0]}) == len(rows[0])
    odd, body = without_odd(delimiter, body, is_named=is_named)
    kinds = kinds_of(delimiter, body)
    is_header = True if is_ruled else _has_header(rows[0], body, kinds)
    if set(kinds) == {"text"} and is_header is False:
        return ()  # neither names nor numbers: such lines need not be a table
    names: Sequence[str] | None = None
    if is_header:
        names = _unique(rows[0])
        shown = [short(name) or "''" for name in names[:MOST_NAMES]]
    else:
        odd, body = without_odd(delimiter, rows, is_named=False)
        kinds = kinds_of(delimiter, body)
        shown = [*map(str, range(min(len(kinds), MOST_NAMES)))]
    code = _code(delimiter, rows, names, is_ruled=is_ruled, is_marked=is_marked)
    if len(code) > MOST_CODE_CHARS:
        return ()
    numbers = converted(names, kinds, body) if names else ""
    is_bare = is_header is False and len(kinds) <= _MOST_WITHOUT_HEADER
    columns = (
        "the columns" if names else "no header; its columns are" if is_bare else "columns that the first row may name:"
    )
    listed = ", ".join(f"{name} ({its})" for name, its in zip(shown, with_gaps(kinds, body), strict=False))
    more = f" and {len(kinds) - MOST_NAMES:,} more" if len(kinds) > MOST_NAMES else ""
    return (
        f"It is a table separated by {_DELIMITERS[delimiter]}, with {columns} {listed}{more}.{odd} "
        f"`import csv, io; rows = {code}{numbers}`",
    )


def _has_header(head: Sequence[str], body: Sequence[Sequence[str]], kinds: Sequence[str]) -> bool | None:
    """Return whether a first row names the columns of the rows below, whose types are given; `None`: nothing tells."""
    cells = [cell.strip() for cell in head]
    columns = list(zip(*body, strict=True))
    if all(kind == "text" for kind in kinds):
        return _is_named_in_style(cells, columns)
    found = _is_above_numbers(cells, columns, kinds)
    stands_below = any(
        cell and not _is_number(cell) and cell in column for cell, column in zip(cells, columns, strict=True)
    )
    return None if found and stands_below else found


def _unique(head: Sequence[str]) -> list[str]:
    """Return the names of columns, each in one line and given once: rows are dicts of them."""
    names = [" ".join(name.split()) for name in head]
    taken, seen, found = set(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        other = name
        while seen[name] > 1 and other in taken:
            other = f"{name}_{seen[name]}"
            seen[name] += other in taken
        taken.add(other)
        found.append(other)
    return found


def _is_above_numbers(cells: Sequence[str], columns: Sequence[Sequence[str]], kinds: Sequence[str]) -> bool | None:
    """Return whether words stand above numbers, or numbers as in the rows below."""
    numeric = [index for index, kind in enumerate(kinds) if kind != "text"]
    numbers = [index for index in numeric if _is_number(cells[index])]
    named = [index for index in numeric if index not in {*numbers} and cells[index].lower() not in MISSING]
    if not numbers:
        # pandas writes no name above the numbers of rows
        is_index = cells[0] == "" and kinds[0] == "int" and columns[0][0].strip() in {"0", "1"}
        return True if named or is_index else None
    above = [cells[index] for index in numbers]
    if _is_number(cells[0]) or len({*above}) < len(above):
        return None if named else False
    are_places = cells[0] == "" and above == [str(place) for place in range(len(above))]  # as pandas numbers columns
    are_periods = len(above) + len(named) > 1 and all(
        _PERIOD.fullmatch(cells[index]) and not all(map(_PERIOD.fullmatch, columns[index])) for index in numbers
    )
    return True if are_places or are_periods else None if named else False


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number or a date, with a unit or a sign of currency at most: it has no word in it."""
    return any(map(str.isdigit, cell)) and (not any(map(str.isalpha, cell)) or _WRITTEN.fullmatch(cell) is not None)


def _is_named_in_style(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> bool | None:
    """Return whether words above texts are their names, which look other than these; `False`: they are no words."""
    if not all(map(_NAME.fullmatch, cells)) or len({*cells}) < len(cells):
        return False
    if any(cell in column for cell, column in zip(cells, columns, strict=True)):
        return False
    known = sum(_COMMON.search(cell.lower().replace("_", " ")) is not None for cell in cells)
    is_styled = any(
        all(map(style, cells)) and any(not any(map(style, column)) for column in columns)
        for style in (str.islower, str.isupper)
    )
    is_apart = any(
        (all(map(_DIGIT.search, column)) and not _DIGIT.search(cell))
        or (len(column) >= _MANY and min(Counter(column).values()) > 1)  # all else is there twice
        for cell, column in zip(cells, columns, strict=True)
    )
    return True if is_styled or is_apart or 2 * known >= len(cells) else None


def _code(
    delimiter: str, rows: Sequence[Sequence[str]], names: Sequence[str] | None, *, is_ruled: bool, is_marked: bool
) -> str:
    """Return the expression that reads all rows; lines that are blank would be rows, and the first of them the names.

    Where cells are seen that go on over lines, a blank line may be part of one, and only those around are left out.
    """
    text = 'context.lstrip("\\ufeff")' if is_marked else "context"
    if any("\n" in field for row in rows for field in row):
        source = 'io.StringIO(context.strip("\\ufeff\\r\\n "))'
    else:
        source = f"filter(str.strip, io.StringIO({text}))"
    given = "" if delimiter == "," else f", delimiter={delimiter!r}"
    if names is None:
        return f"list(csv.reader({source}{given}))"
    is_named = list(names) != list(rows[0])
    skipped = is_ruled + is_named
    own = f", {names!r}" if is_named else ""
    return f"list(csv.DictReader({source}{own}{given}))" + (f"[{skipped}:]" if skipped else "")
