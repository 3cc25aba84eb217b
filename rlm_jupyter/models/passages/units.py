"""The units of a text that can answer a question: sentences of prose, lines of a log, a table or a list."""

from __future__ import annotations

import re
from collections import Counter

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"”')\]*_])|(?<=[.!?][*_]{2}))\s+(?![a-z])")
_HEADING = re.compile(r"^(?:#{1,6} .+|.{1,80}\n([=*~-])\1{2,})$", re.MULTILINE)
_BLOCK_END = re.compile(r"\n\s*\n")
_WRAPPED = 0.5
"""The share of a block's line ends at which the next word had no room: above it, the block is wrapped prose."""
_ALIKE = 0.5
"""The share of a block's lines that begin alike: above it, they are records, however long they are."""
_LONG_CHARS = 400
"""A longer line is a paragraph, and no record."""


def units(text: str) -> list[str]:
    """Return the sentences of `text`, and the lines where it consists of lines, each on one line; without headings."""
    found: list[str] = []
    for block in _BLOCK_END.split(_HEADING.sub("", text)):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        for part in [block] if _is_prose(lines) else lines:
            found += [part] if part is not block and len(part) <= _LONG_CHARS else _SENTENCE_END.split(part)
    return [line for unit in found if (line := " ".join(unit.split()))]


def _is_prose(lines: list[str]) -> bool:
    """Tell whether lines are prose that was wrapped: they end where the next word would not have fitted."""
    if len(lines) < 2:
        return True
    firsts = [line.split(maxsplit=1)[0] for line in lines]
    begun = Counter(
        first if first[0].isalpha() and first != line else "" for first, line in zip(firsts, lines, strict=True)
    )
    if begun.most_common(1)[0][1] > max(1, _ALIKE * len(lines)) or _is_table(lines):
        return False
    width = max(map(len, lines))
    full = sum(len(line) + 1 + len(first) > width for line, first in zip(lines, firsts[1:], strict=False))
    return full >= _WRAPPED * (len(lines) - 1)


def _is_table(lines: list[str]) -> bool:
    """Tell whether three lines or more have the same number of a separator of columns."""
    return len(lines) > 2 and any(
        lines[0].count(separator) and len({line.count(separator) for line in lines}) == 1 for separator in "\t|;,"
    )
