"""`line_shape`: lines that all have one shape, such as a log's, and the code that takes them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm_jupyter.prompts.tables import LEAST_LINES, converted, kind, short

_CLOCK = r"\d\d:\d\d(?::\d\d)?"
_TIME = re.compile(
    r"[\[(]?(?:"
    rf"\d{{4}}[-/.]\d\d[-/.]\d\d(?:[T ]|, | - ){_CLOCK}"
    rf"|(?:\d\d[-/.])?\d\d[-/.]\d\d(?:\d\d)?,? {_CLOCK}"
    rf"|(?:[A-Z][a-z]{{2}},? )?[A-Z][a-z]{{2}} [ \d]\d(?: \d{{4}})? {_CLOCK}"
    rf"|\d\d/[A-Z][a-z]{{2}}/\d{{4}}:{_CLOCK}"
    rf"|\d{{8}}-{_CLOCK}|\d{{6}} \d{{6}}\b|[A-Z]\d{{4}} {_CLOCK}"
    r"|\d\d:\d\d:\d\d|1\d{9}(?:\.\d+)? (?=\D))"
)
"""A time as logs write it, by day and clock, or one of them alone: the forms of syslog, klog, web servers, HDFS, …"""
_BEFORE_TIME = re.compile(rf"(?:\S{{1,40}}\s+){{1,4}}?(?:[a-z]+=)?{_TIME.pattern}|[a-z]+={_TIME.pattern}")
"""A line in which a few words stand before its time: a host, a level, a container."""
_MILLISECONDS = re.compile(rf"{_TIME.pattern}[,:]\d{{3}}[\s\]]")
"""What a table with commas would cut."""
_PAIR = re.compile(r'([^\s=]+)=("[^"]*"|\S*)')
_FIELD = re.compile(r"([^\s:=][^:=]{0,39}?)(: |=)(.*)")
_SEPARATORS = (" || ", " | ", "\t", "; ", ", ")
_MARKS = (
    re.compile(r"[\[(]?[\dT:.,/+-]*\d[\dT:.,/+-]*Z?[\])]?"),  # a date, a time, a number
    re.compile(r"[A-Z]{1,10}:?|-|\|"),  # a level, a dash
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
    quoted = any('"' in line for line in lines)
    keys = [tuple(match[1] for match in _PAIR.finditer(line)) for line in lines]
    plain = all(_PAIR.sub("", line).strip() == "" for line in lines)
    if not plain or len(set(keys)) != 1 or not keys[0]:
        return ()
    values = [[match[2] for match in _PAIR.finditer(line)] for line in lines]
    pairs = (
        'pair.split("=", 1) for pair in shlex.split(line)' if quoted else 'pair.split("=", 1) for pair in line.split()'
    )
    return (
        f"Each line has key=value for the keys {', '.join(map(short, keys[0]))}. "
        f"`{'import shlex; ' * quoted}rows = [dict({pairs}) for line in context.splitlines()]"
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


def log(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe a log whose times have a comma in them, which makes it no table."""
    return _log(lines) if len(lines) >= LEAST_LINES and _MILLISECONDS.match(lines[0]) else ()


def _log(lines: Sequence[str]) -> tuple[str, ...]:
    begin = sum(map(bool, map(_TIME.match, lines)))
    timed = begin + sum(bool(_BEFORE_TIME.match(line)) for line in lines if not _TIME.match(line))
    if timed < 0.6 * len(lines):
        return ()
    where = "begin with a time" if begin == timed else "have a time"
    rest = "" if timed == len(lines) else ", though not every one: some go on in further lines"
    code, first = _words(lines) or ("lines = context.splitlines()", "")
    # not behind the code, as a comment: a small model goes on with the second row, and the third, without end
    shown = f" Split into rows, the first is {first}." if first else ""
    return (f"It is a log: its lines {where}{rest}.{shown} `{code}`",)


def _words(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return code that splits lines before their text, and the first one split; nothing where they vary."""
    if not all(_TIME.match(line) or _BEFORE_TIME.match(line) for line in lines):
        return None
    split = [line.split(None, _MOST_MARKED) for line in lines]
    places = range(min(_MOST_MARKED, *(len(words) - 1 for words in split)))
    marks = {
        place: mark for mark in reversed(_MARKS) for place in places if all(mark.fullmatch(row[place]) for row in split)
    }
    last = max(marks, default=0)
    example = repr(lines[0].split(None, last + 1))[:_EXAMPLE_CHARS]
    if not set(marks.values()) - {_MARKS[0]} or "`" in example:  # times alone tell nothing apart
        return None
    return f"rows = [line.split(None, {last + 1}) for line in context.splitlines() if line.strip()]", example
