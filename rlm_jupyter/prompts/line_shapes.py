"""`line_shape`: lines that all have one shape, such as a log's, and the code that takes them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm_jupyter.prompts.tables import LEAST_LINES, converted, kind, short

_TIME = re.compile(
    r"[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:)"
)
_CLF = re.compile(r"\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:")
_PAIR = re.compile(r"([^\s=]+)=(\S*)")
_FIELD = re.compile(r"([^\s:=][^:=]{0,39}?)(: |=)(.*)")
_SEPARATORS = (" || ", " | ", "\t", "; ", ", ")
_MARKS = (
    re.compile(r"[\[(]?[\dT:.,/+-]*\d[\dT:.,/+-]*Z?[\])]?"),  # a date, a time, a number
    re.compile(r"[A-Z]{2,10}:?"),  # a level
    re.compile(r"[\[(<].*[\])>]:?"),
    re.compile(r".*:"),
)
"""What words at the beginning of a log's lines are alike in, each in its place."""
_MOST_MARKED = 7
_EXAMPLE_CHARS = 200


def line_shape(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines of one shape, in a sentence with code that takes them apart; nothing where they have none."""
    return _pairs(lines) or _labelled(lines) or _log(lines) if len(lines) >= LEAST_LINES else ()


def _pairs(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines that are nothing but `key=value`, all with the same keys."""
    if _PAIR.sub("", lines[0]).strip():  # most texts are told by their first line
        return ()
    keys = [tuple(match[1] for match in _PAIR.finditer(line)) for line in lines]
    plain = all(_PAIR.sub("", line).strip() == "" for line in lines)
    if not plain or len(set(keys)) != 1 or not keys[0]:
        return ()
    values = [[match[2] for match in _PAIR.finditer(line)] for line in lines]
    return (
        f"Each line has key=value for the keys {', '.join(map(short, keys[0]))}. "
        '`rows = [dict(pair.split("=", 1) for pair in line.split()) for line in context.splitlines()]'
        f"{_as_numbers(keys[0], values)}`",
    )


def _labelled(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines such as `User: u1 || Label: order`: the same labels in each, with a mark between them."""
    for separator in _SEPARATORS:
        first = lines[0].split(separator)
        if len(first) < 2 or not all(map(_FIELD.fullmatch, first)):
            continue
        rows = [[_FIELD.fullmatch(part) for part in line.split(separator)] for line in lines]
        fields = [[field for field in row if field is not None] for row in rows]
        if any(len(found) < max(2, len(row)) for found, row in zip(fields, rows, strict=True)):
            continue
        labels = {tuple(field[1] for field in row) for row in fields}
        signs = {field[2] for row in fields for field in row}
        if len(labels) > 1 or len(signs) > 1 or len({*(names := labels.pop())}) < len(names):
            continue
        values = [[field[3] for field in row] for row in fields]
        return (
            f"Each line has {', '.join(map(short, names))}, separated by {separator!r}. "
            f"`rows = [dict(part.split({signs.pop()!r}, 1) for part in line.split({separator!r})) "
            f"for line in context.splitlines() if line.strip()]{_as_numbers(names, values)}`",
        )
    return ()


def _as_numbers(names: Sequence[str], values: Sequence[Sequence[str]]) -> str:
    return converted(names, [kind([row[index] for row in values], blank=False) for index in range(len(names))])


def _log(lines: Sequence[str]) -> tuple[str, ...]:
    timed = sum(bool(_TIME.match(line) or _CLF.match(line)) for line in lines)
    if timed < 0.6 * len(lines):
        return ()
    rest = "" if timed == len(lines) else ", though not every one: some go on in further lines"
    return (f"It is a log: its lines begin with a time{rest}. `{_words(lines) or 'lines = context.splitlines()'}`",)


def _words(lines: Sequence[str]) -> str:
    """Return code that splits lines before their text, and shows the first one split; empty where they vary."""
    if not all(map(_TIME.match, lines)):
        return ""
    split = [line.split(None, _MOST_MARKED) for line in lines]
    places = range(min(_MOST_MARKED, *(len(words) - 1 for words in split)))
    marked = [place for place in places if any(all(mark.fullmatch(row[place]) for row in split) for mark in _MARKS)]
    example = repr(lines[0].split(None, marked[-1] + 1))[:_EXAMPLE_CHARS] if marked else ""
    # times alone tell nothing apart
    if not any(all(mark.fullmatch(row[marked[-1]]) for row in split) for mark in _MARKS[1:]) or "`" in example:
        return ""
    code = f"rows = [line.split(None, {marked[-1] + 1}) for line in context.splitlines() if line.strip()]"
    return f"{code}\n# rows[0] is {example}"
