"""Where the fenced blocks of a text begin and end (CommonMark 0.31, fenced code blocks)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from rlm_jupyter.parsing import source as sources

CODE_TAGS = ("repl", "python", "py")
"""Tags of blocks that can become cells."""
_FENCE = re.compile(
    r"(?:^ {0,3}(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)"
    rf"|(?<=\S)[ \t]+(?P<late>`{{3,}})(?P<tag>(?:{'|'.join(CODE_TAGS)})[ \t\r]*))$",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that is a fence; or one that ends with the opening of a block, which weak models write after a sentence."""
_TOKEN = re.compile(
    r"#[^\n]*|\"{3}|'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|^ {0,3}(?:```|~~~)",
    re.MULTILINE | re.DOTALL,
)
"""Comments, strings, the beginnings of triple-quoted strings, and of lines that are fences."""
_TRIPLE_END = {quotes: re.compile(rf"\\.|{quotes}", re.DOTALL) for quotes in ('"""', "'''")}
_INNER_FENCES = 16
"""How many fences inside the strings of one block are looked past: reading must stay linear in the text."""


class _Line(NamedTuple):
    """A line that may open or close a block."""

    start: int
    end: int
    marker: str
    info: str
    closes: bool
    """Whether it can close one: only what stands at the beginning of a line can."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: offsets into the text."""

    start: int
    """Of the opening line, or of the fence that ends it."""
    body: int
    body_end: int
    """Without the line break before the closing line."""
    end: int
    """After the closing line and its line break."""
    lang: str
    """The tag, in lower case; may be empty."""
    closed: bool
    certain: bool = True
    """Whether it ends here whatever the text goes on with: no string of it may be open still."""


def find_fences(text: str) -> list[Fence]:
    """Return the fenced blocks of `text`, in order, not nested.

    A block of Python ends at the first closing line with which it parses, so that a fence inside a string
    doesn't end it; if it parses with none, at the first. A block that is never closed reaches to the end.
    """
    lines = [_line(match) for match in _FENCE.finditer(text) if match["marker"] or not _is_quote(text, match.start())]
    fences: list[Fence] = []
    index = 0
    while index < len(lines):
        opening = lines[index]
        tag = opening.info.split(maxsplit=1)
        if opening.marker[0] == "`" and "`" in opening.info:
            index += 1  # ```code``` within a line
            continue
        lang = tag[0].lower() if tag else ""
        body = min(opening.end + 1, len(text))
        closing = next((i for i in range(index + 1, len(lines)) if _closes(lines[i], opening)), None)
        if closing is None:
            fences.append(Fence(opening.start, body, len(text), len(text), lang, closed=False))
            break
        certain = True
        if lang in CODE_TAGS:
            closing, certain = _end_of_python(text, lines, index, closing)
        end = lines[closing]
        body_end = end.start - 1 if end.start > body else body
        if body_end > body and text[body_end - 1] == "\r":
            body_end -= 1
        fences.append(Fence(opening.start, body, body_end, min(end.end + 1, len(text)), lang, True, certain))
        index = closing + 1
    return fences


def _is_quote(text: str, position: int) -> bool:
    """Return whether this is in a line of a block quote: a text that the model quotes opens no block."""
    return text[text.rfind("\n", 0, position) + 1 : position].lstrip().startswith(">")


def _line(match: re.Match[str]) -> _Line:
    if match["marker"]:
        return _Line(match.start(), match.end(), match["marker"], match["info"], not match["info"].strip())
    return _Line(match.start("late"), match.end(), match["late"], match["tag"], closes=False)


def _closes(line: _Line, opening: _Line) -> bool:
    return line.closes and line.marker[0] == opening.marker[0] and len(line.marker) >= len(opening.marker)


def _end_of_python(text: str, lines: list[_Line], opening: int, first: int) -> tuple[int, bool]:
    """Return the closing line of a block of Python, as an index of `lines`; `first` is the first that could be it.

    Whether that is certain is told, too: it is not as long as a string that begins in the block has no end.

    Only inside a triple-quoted string can a line be a fence and the source still be Python, so it is enough
    to find the first fence outside of strings, and to see that it parses.
    """
    position = lines[opening].end + 1
    if text.find('"""', position, lines[first].start) < 0 and text.find("'''", position, lines[first].start) < 0:
        return first, True
    candidates = {lines[i].start: i for i in range(opening + 1, min(opening + _INNER_FENCES, len(lines)))}
    limit = lines[max(candidates.values())].end
    while token := _TOKEN.search(text, position, limit):
        position = token.end()
        if token[0] in _TRIPLE_END:
            closing_quotes = (m for m in _TRIPLE_END[token[0]].finditer(text, position, limit) if m[0] == token[0])
            end = next(closing_quotes, None)
            if end is None:
                return first, False
            position = end.end()
        elif token.start() in candidates:
            found = candidates[token.start()]
            if found == first or not _closes(lines[found], lines[opening]):
                return first, True
            source = text[lines[opening].end + 1 : lines[found].start]
            return (found if sources.tree(source) is not None else first), True
    return first, False
