"""Columns of a table: the types of what stands in them, and the code that makes numbers of what is a number."""

from __future__ import annotations

import re
from collections.abc import Sequence

LEAST_LINES = 3
MOST_NAMES = 30
MOST_NAME_CHARS = 60
MOST_CODE_CHARS = 2_000

_PLAIN = {
    "int": r"[+-]?(0|[1-9]\d{0,17})",
    "float": r"[+-]?(0|[1-9]\d{0,17})(\.\d+)?",
    "number with an exponent": r"[+-]?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d+)?",
}
"""Not 007: with zeros before it, it is the name of something; nor what has more digits than a number needs."""
_DIGITS_OF = {"int": "", "float": ".replace('.', '', 1)"}
"""Leaves the digits of a number without its sign."""
_PHONE = re.compile(r"\+\d{7,}")
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
"""2,748 is read as a number of inhabitants here, and as less than three there."""
_DOT_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}|[+-]?\d{1,3}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
MISSING = frozenset({"", "-", "--", "?", ".", "na", "n/a", "nan", "n.a.", "#n/a", "none", "null", "missing", "unknown"})
"""What stands for a number that is not known."""
_LEAST_ALIKE, _FEW = 4, 40
"""Rows, beside one that is unlike them."""
_MOST_ODD_CHARS = 200


def converted(names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the code that makes numbers of columns in which every value is one: as text, 9 is more than 10.

    In rows that were not seen, it leaves what is no number, or is not there; of columns with blanks around values, all.
    """
    updates = []
    for its_kind, digits in _DIGITS_OF.items():
        its = [
            name
            for index, (name, found) in enumerate(zip(names, kinds, strict=True))
            if found == its_kind and "`" not in name and all(row[index] == row[index].strip() for row in rows)
        ]
        while len(its) > MOST_NAMES or len(repr(its)) > MOST_CODE_CHARS:
            its = its[: min(MOST_NAMES, len(its) - 1)]
        if its:
            updates.append(
                f"\n    for name in {its!r}:"
                f"\n        if str(row.get(name)).lstrip('+-'){digits}.isdecimal():"
                f"\n            row[name] = {its_kind}(row[name])"
            )
    return "".join(["\nfor row in rows:", *updates]) if updates else ""


def kinds_of(delimiter: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Name the types of all columns."""
    columns = list(zip(*rows, strict=True))
    kinds = [kind(column) for column in columns]
    if delimiter != ";":
        return kinds
    # where numbers have decimal commas, which semicolons hint at, 2.748 may be two thousand and more
    return [
        "text" if its == "float" and all(_DOT_THOUSANDS.fullmatch(value.strip() or "0") for value in column) else its
        for its, column in zip(kinds, columns, strict=True)
    ]


def kind(values: Sequence[str]) -> str:
    """Name the type of a column's values, without blanks around them; some may be empty."""
    given = [value.strip() for value in values if value.strip()]
    if not given or any(map(_PHONE.fullmatch, given)):
        return "text"
    for name, pattern in _PLAIN.items():
        if all(re.fullmatch(pattern, value) for value in given):
            return name
    if all(map(_DATE.fullmatch, given)):
        return "date"
    # without a comma, whole numbers stand among them; with one, some must show that it isn't one of thousands
    with_comma = [value for value in given if not re.fullmatch(_PLAIN["int"], value)]
    is_decimal = all(map(_COMMA.fullmatch, with_comma)) and not all(map(_THOUSANDS.fullmatch, with_comma))
    return "number with a decimal comma" if is_decimal else "text"


def short(name: str) -> str:
    """Return a name as it is shown: in one line, and not too long."""
    name = " ".join(name.split()).strip("\ufeff")
    return name if len(name) <= MOST_NAME_CHARS else f"{name[:MOST_NAME_CHARS]}…"


def without_odd(
    delimiter: str, body: Sequence[Sequence[str]], *, is_named: bool
) -> tuple[str, Sequence[Sequence[str]]]:
    """Leave out a first row of units, a last one of totals; returns what is said of it, and the rows that are alike.

    Such a row has text where all others have numbers, or nothing where all others have something.

    Parameters
    ----------
    is_named
        What stands above may be names; else the first row may be these.
    """
    last, first = (body[-1], body[:-1], "last row"), (body[0], body[1:], "first row below the names")
    for row, others, which in (last, first)[: 1 + is_named]:
        # beside a few first: what is like those is like the others
        if len(others) >= _LEAST_ALIKE and _is_odd(delimiter, row, others[:_FEW]) and _is_odd(delimiter, row, others):
            shown = repr([short(cell) for cell in row])
            shown = shown if len(shown) <= _MOST_ODD_CHARS else f"{shown[: _MOST_ODD_CHARS - 1]}…"
            return f" The {which} is unlike the others: {shown.replace('`', chr(39))}.", others
    return "", body


def _is_odd(delimiter: str, row: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    return any(
        (cell.strip() and its != "text" and kind([cell]) == "text" and cell.strip().lower() not in MISSING)
        or (not cell.strip() and all(other[index].strip() for other in others))
        for index, (cell, its) in enumerate(zip(row, kinds_of(delimiter, others), strict=True))
    )


def with_gaps(kinds: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Say of types whether some cells of their columns are empty."""
    return [
        f"{its}, or empty" if its != "text" and any(not row[index].strip() for row in rows) else its
        for index, its in enumerate(kinds)
    ]
