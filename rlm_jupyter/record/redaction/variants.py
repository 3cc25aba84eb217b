"""How a known secret may be written: whole, as other formats spell it, or cut."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

_PUBLIC = re.compile(r"(?:[A-Za-z0-9]{1,8}[-_]){0,3}")
"""The part of a key that all of its kind begin with."""
_PART_CHARS = 6
"""So much of a cut key is one, after its public part."""
_TAIL_CHARS = 12


def spellings(value: str) -> list[str]:
    """Return a text as it is, and as it stands in JSON, HTML, Python and addresses."""
    others = (json.dumps(value)[1:-1], html.escape(value), repr(value)[1:-1], quote(value, safe=""))
    return [value, *dict.fromkeys(other for other in others if other != value)]


def places(text: str, part: str) -> Iterator[int]:
    """Yield where a part stands in a text."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def partial(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield where a text holds the beginning, or the end, of a value that was cut."""
    public = _PUBLIC.match(value)
    head = value[: (public.end() if public is not None else 0) + _PART_CHARS]
    for start in places(text, head):
        end = start + len(head)
        while end < len(text) and end - start < len(value) and text[end] == value[end - start]:
            end += 1
        yield start, end
    tail = value[-_TAIL_CHARS:]
    for start in places(text, tail):
        begin, end = start, start + len(tail)
        while begin and end - begin < len(value) and text[begin - 1] == value[-(end - begin) - 1]:
            begin -= 1
        yield begin, end


def path_pattern(path: str) -> str:
    """Return a path as it stands in texts, Python's and JSON's strings, and addresses."""
    first, *parts = [re.escape(part) for part in re.split(r"[\\/]+", path.rstrip("\\/"))]
    separator = r"(?:\\+/?|/+|%2[Ff]|%5[Cc])"
    # one slash at the beginning: in `file:///home` the others are not of the path
    return separator.join([first, *parts]) if first else r"(?:\\?/|%2[Ff])" + separator.join(parts)
