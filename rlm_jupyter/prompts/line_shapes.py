"""`line_shape`: lines that all have one shape, such as a log's, and the code that takes them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rlm_jupyter.prompts.columns import LEAST_LINES, converted, kind, short

_CLOCK = r"\d\d:\d\d(?::\d\d)?"
_DATED = (
    rf"\d{{4}}[-/.]\d\d[-/.]\d\d(?:[T ]|, | - ){_CLOCK}"
    rf"|(?:\d\d[-/.])?\d\d[-/.]\d\d(?:\d\d)?,? {_CLOCK}"
    rf"|(?:[A-Z][a-z]{{2}},? )?[A-Z][a-z]{{2}} [ \d]\d(?: \d{{4}})? {_CLOCK}"
    rf"|\d\d/[A-Z][a-z]{{2}}/\d{{4}}:{_CLOCK}"
    rf"|\d{{8}}-{_CLOCK}|[A-Z]\d{{4}} {_CLOCK}|1\d{{9}}\.\d+ (?=\D)"
)
_BARE = r"\d{6} \d{6}\b|\d\d:\d\d:\d\d|1\d{9} (?=\D)"
"""What may as well be a timetable's, or a number of something."""
_TIME = re.compile(rf"[\[(]?(?:{_DATED}|{_BARE})")
"""A time as logs write it, by day and clock, or one of them alone: the forms of syslog, klog, web servers, HDFS, …"""
_BEFORE_TIME = re.compile(rf"(?:\S{{1,40}}\s+){{1,4}}?(?:[a-z]+=)?{_TIME.pattern}|[a-z]+={_TIME.pattern}")
"""A line in which a few words stand before its time: a host, a level, a container."""
_HAS_DATE = re.compile(_DATED)
_BARE_TIME = re.compile(r"(?P<day>\d{6}) (?P<clock>\d{6})|\d\d:\d\d:(?P<second>\d\d)|(?P<epoch>1\d{9})")
_DAY_AND_CLOCK = re.compile(r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]) (?:[01]\d|2[0-3])[0-5]\d[0-5]\d")
_LEVEL = re.compile(r"\b(?:trace|debug|info|notice|warn(?:ing)?|error|severe|fatal|critical)\b", re.IGNORECASE)
_MILLISECONDS = re.compile(rf"{_TIME.pattern}[,:]\d{{3}}[\s\]]")
"""What a table with commas would cut."""
_PAIR = re.compile(r'(?<!\S)([^\s=]+)=(?:"([^"]*)"|(\S*))')
"""Only from a blank on: a long word is looked at once."""
_FIELD = re.compile(r"([^\W_](?:[^:=()\[\]{}<>\"']|\([^:=()]*\)){0,39}?)(: |=)(.*)")
"""Its label is words, a unit behind them in parentheses: not a piece of an object or a call as code writes it."""
_MOST_ODD = 0.1
"""Of lines, beside those that have their labels."""
_SEPARATORS = (" || ", " | ", "\t", "; ", ", ", " ")
_BEFORE_KEY = re.compile(r" (?=[^\s=]+=)")
"""Where a line without any other separator is cut: values may have blanks in them (`name=Ada Roth city=Rome`)."""
_MARKS = (
    re.compile(r"[\[(]?(?=[T:.,/+-]*\d)[\dT:.,/+-]+Z?[\])]?"),  # a date, a time, a number
    re.compile(r"[A-Z]{1,10}:?|-|\|"),  # a level, a dash
    re.compile(r"[\[(<].*[\])>]:?"),
    re.compile(r".*:"),
)
"""What words at the beginning of a log's lines are alike in, each in its place."""
_PART = re.compile(r'\[[^\]]*\]|"(?:[^"\\]|\\.)*"|\S+')
"""Of a web server's line: within brackets or quotation marks, or a word."""
_MOST_PARTS = 15
"""More are a sentence's words."""
_BANNER = "--"
"""What the first line of a log begins with that has no time, and says that one begins here."""
_MOSTLY_TIMED, _OFTEN_TIMED = 0.6, 0.3
"""Shares of lines that have a time, and that begin with one: others go on from those."""
_MOST_LABEL_CHARS = 400
_MOST_MARKED = 7
_EXAMPLE_CHARS = 200
_LEVEL_CHARS = 100


def line_shape(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines of one shape, in a sentence with code that takes them apart; nothing where they have none."""
    return _pairs(lines) or _labelled(lines) or _log(lines) if len(lines) >= LEAST_LINES else ()


def _pairs(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines that are nothing but `key=value`, all with the same keys."""
    if "=" not in lines[0] or _PAIR.sub("", lines[0]).strip():  # most texts are told by their first line
        return ()
    found = [list(_PAIR.finditer(line)) for line in lines]
    keys = tuple(match[1] for match in found[0])
    is_plain = all(not _PAIR.sub("", line).strip() for line in lines)
    if not is_plain or not keys or any(tuple(match[1] for match in row) != keys for row in found):
        return ()
    if len(keys) > 1 and all(row[0][0].endswith((",", ";")) for row in found):
        return ()  # that is no part of the value
    if any('"' in line for line in lines):
        # not shlex, for which an apostrophe is a quotation mark, too, and a backslash no character
        pairs = f"{{key: quoted or bare for key, quoted, bare in re.findall(r'{_PAIR.pattern}', line)}}"
    else:
        pairs = 'dict(pair.split("=", 1) for pair in line.split() if "=" in pair)'
    numbers = _as_numbers(keys, [[match[2] or match[3] or "" for match in row] for row in found])
    rows = f'rows = [{pairs} for line in context.split("\\n") if "=" in line]'
    return (
        f"Each line has key=value for the keys {', '.join(map(short, keys))}. "
        f"`{'import re; ' * ('re.' in pairs)}{rows}{numbers}`",
    )


def _labelled(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines such as `User: u1 || Label: order`: the same labels in most, with a mark between them."""
    typical = lines[len(lines) // 2]  # the first may say what the others are
    for separator in _SEPARATORS:
        fields = [_FIELD.fullmatch(part) for part in _cut(typical, separator)]
        names = [field[1] for field in fields if field is not None]
        signs = {field[2] for field in fields if field is not None}
        if len(names) < max(2, len(fields)) or len(signs) > 1 or len({*names}) < len(names):
            continue
        labels = [name + sign for sign in signs for name in names]
        rows = [values for line in lines if (values := _values(_cut(line, separator), labels)) is not None]
        odd = len(lines) - len(rows)
        if len(rows) < LEAST_LINES or odd > _MOST_ODD * len(lines):
            continue
        return _labels_said(separator, names, signs.pop(), rows, odd=odd)
    return ()


def _values(parts: Sequence[str], labels: Sequence[str]) -> list[str] | None:
    """Return what stands behind the labels; `None`: these are others, or not so many."""
    if len(parts) != len(labels) or not all(map(str.startswith, parts, labels)):
        return None
    return [part[len(label) :] for part, label in zip(parts, labels, strict=True)]


def _labels_said(
    separator: str, names: Sequence[str], sign: str, rows: Sequence[Sequence[str]], *, odd: int
) -> tuple[str, ...]:
    numbers = _as_numbers(names, rows)
    parts = _parts(separator, [f"{name}{sign}" for name in names], is_sure=not odd)
    listed = ", ".join(map(short, names))
    said = f"key=value for the keys {listed}" if separator == " " else f"{listed}, separated by {separator!r}"
    which = f"Each line has {said}" + f", but for {odd:,} of {odd + len(rows):,} looked at" * bool(odd)
    return (
        f"{which}. "
        f"`{'import re; ' * ('re.' in parts)}"
        f"rows = [dict(part.split({sign!r}, 1) for part in {parts} if {sign!r} in part) "
        f'for line in context.split("\\n") if line.startswith({names[0] + sign!r})]{numbers}`',
    )


def _cut(line: str, separator: str) -> list[str]:
    if separator != " ":
        return line.split(separator)
    return [] if '"' in line else _BEFORE_KEY.split(line)  # within quotes, a key is none


def _parts(separator: str, labels: Sequence[str], *, is_sure: bool) -> str:
    """Return the code that cuts a line before its labels; a comma, a semicolon and a blank stand in values, too.

    Parameters
    ----------
    is_sure
        Whether a separator of other kinds stands in none of them.
    """
    line = 'line.rstrip("\\r")'
    ahead = "|".join(map(_escaped, labels))
    if (not is_sure or separator.strip() in {",", ";", ""}) and len(ahead) <= _MOST_LABEL_CHARS:
        return f"re.split({f'{_escaped(separator)}(?={ahead})'!r}, {line})"
    return f"{line}.split({separator!r})"


def _escaped(text: str) -> str:
    return re.escape(text).replace("\\ ", " ").replace("\\\t", "\t")


def _as_numbers(names: Sequence[str], values: Sequence[Sequence[str]]) -> str:
    return converted(names, [kind([row[index] for row in values]) for index in range(len(names))], values)


def log(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe a log whose times have a comma in them, which makes it no table."""
    return _log(lines) if len(lines) >= LEAST_LINES and _MILLISECONDS.match(lines[0]) else ()


def _log(lines: Sequence[str]) -> tuple[str, ...]:
    begin = sum(map(bool, map(_TIME.match, lines)))
    timed = begin + sum(bool(_BEFORE_TIME.match(line)) for line in lines if not _TIME.match(line))
    is_log = timed >= _MOSTLY_TIMED * len(lines) or begin >= _OFTEN_TIMED * len(lines)
    is_headed = not _is_timed(lines[0]) and not lines[0].startswith(_BANNER)  # by names of columns, it may be
    if not is_log or is_headed or not _has_times(lines):
        return ()
    where = "begin with a time" if begin == timed else "have a time"
    rest = "" if timed == len(lines) else ", though not every one"
    code, first = _words(lines) or ("lines = context.splitlines()", "")
    # not behind the code, as a comment: a small model goes on with the second row, and the third, without end
    shown = f" Split into rows, the first is {first}." if first else ""
    return (f"It is a log: its lines {where}{rest}.{shown} `{code}`",)


def _is_timed(line: str) -> bool:
    return bool(_TIME.match(line) or _BEFORE_TIME.match(line))


def _has_times(lines: Sequence[str]) -> bool:
    """Return whether what is taken for times is: with a date, or in order as a log's are, or beside levels."""
    found = [match[0] for line in lines if (match := _TIME.match(line) or _BEFORE_TIME.match(line)) is not None]
    if 2 * sum(bool(_HAS_DATE.search(text)) for text in found) >= len(found):
        return True
    if 2 * sum(bool(_LEVEL.search(line, 0, _LEVEL_CHARS)) for line in lines) >= len(lines):
        return True
    times = [time for text in found if (time := _BARE_TIME.search(text)) is not None]
    values = [time[0] for time in times]
    steps = list(pairwise(values))
    if 10 * sum(before > after for before, after in steps) > len(steps):
        return False
    if all(time["second"] for time in times):
        return len({time["second"] for time in times}) > 1  # a timetable's have no seconds but 00
    if all(time["day"] for time in times):
        return all(map(_DAY_AND_CLOCK.fullmatch, values))
    return any(before == after for before, after in steps)  # numbers of records differ


def _words(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return code that takes lines apart, and the first one so; nothing where they vary."""
    if not all(map(_is_timed, lines)):
        return None
    code, example = _quoted(lines) or _split(lines) or ("", "")
    if not code or "`" in example:
        return None
    return code, example if len(example) <= _EXAMPLE_CHARS else f"{example[: _EXAMPLE_CHARS - 1]}…"


def _quoted(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return code for lines with quoted parts, all of so many parts, as web servers write them."""
    rows = [_PART.findall(line) for line in lines] if all('"' in line for line in lines) else []
    if len({len(row) for row in rows}) != 1 or len(rows[0]) > _MOST_PARTS:
        return None
    code = f"rows = [re.findall(r'{_PART.pattern}', line) for line in context.split(\"\\n\") if line.strip()]"
    return f"import re; {code}", repr(rows[0])


def _split(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return code that splits lines before their text."""
    split = [line.split(None, _MOST_MARKED) for line in lines]
    places = range(min(_MOST_MARKED, *(len(words) - 1 for words in split)))
    marks = {
        place: mark for mark in reversed(_MARKS) for place in places if all(mark.fullmatch(row[place]) for row in split)
    }
    if not set(marks.values()) - {_MARKS[0]}:  # times alone tell nothing apart
        return None
    last = max(marks)
    # not splitlines, which cuts lines at characters that stand in them, such as U+2028
    code = f'rows = [line.rstrip().split(None, {last + 1}) for line in context.split("\\n") if line.strip()]'
    return code, repr(lines[0].rstrip().split(None, last + 1))
