"""`Layout`: what separates the fields of a table of text, and how many lines stand above its header."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from rlm_jupyter.run.files.unreadable import Note
from rlm_jupyter.types.shortened import shortened

HEAD = 8_192
"""Characters that are looked at."""
_SEPARATORS = ",;\t|"
"""The usual ones."""
_DECLARED = re.compile(r'"?sep=([^\w"])"?', re.IGNORECASE)
"""A first line by which Excel is told."""
_LINE_END = re.compile(r"\r\n?|\n")
_NUMBER = re.compile(r"[+-]?\d[\d.,:/% -]*")
_MOST_TITLES, _MOST_TITLE_CHARS = 5, 200


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a table of text are to be read."""

    separator: str
    above: tuple[str, ...] = ()
    """The lines above the header: a title, or what tells Excel the separator."""

    def tell(self, note: Note) -> None:
        """Say what is left out."""
        if self.above:
            said = "; ".join(filter(None, map(str.strip, self.above)))
            note(f"left out above the table's header: {shortened(said, _MOST_TITLE_CHARS)}.")


def layout_of(text: str, separator: str) -> Layout:
    """Return the layout of a table.

    Parameters
    ----------
    text
        Its first lines suffice.
    separator
        A comma also stands for the other usual ones, whichever the header has most of. What the file itself declares
        (`sep=;`) comes first.
    """
    lines = _LINE_END.split(text[:HEAD])
    lines = lines[:-1] or lines  # the last one may be cut off
    declared = _DECLARED.fullmatch(lines[0])
    if declared is not None and len(lines) > 1:
        titles = _titles(lines[1:], declared[1])
        return Layout(declared[1], (lines[0], *titles))
    titles = _titles(lines, _SEPARATORS if separator == "," else separator)
    header = next((line for line in lines[len(titles) :] if line.strip()), "")
    if separator == ",":
        separator = max(_SEPARATORS, key=lambda mark: len(_fields(header, mark)))
    return Layout(separator, tuple(titles))


def _titles(lines: list[str], separators: str) -> list[str]:
    """Return the lines of a title, without which the rest is a table; mostly there are none.

    With them, pandas would take the title for the only column's name, and the columns before the last for an index.
    """
    count = next((place for place, line in enumerate(lines) if any(mark in line for mark in separators)), 0)
    titles, table = lines[:count], [line for line in lines[count:] if line.strip()]
    if count > _MOST_TITLES or not any(map(str.strip, titles)):
        return []
    is_apart = not titles[-1].strip()
    return titles if any(_is_table(table, mark, is_apart) for mark in separators) else []


def _is_table(lines: list[str], mark: str, is_apart: bool) -> bool:
    """Return whether lines are a header and its rows, and no rows of one column below its name.

    A comma alone tells little: sentences, names and decimals (`1,50`) have one in each row as well.
    """
    header, *rows = [_fields(line, mark) for line in lines]
    if len(header) == 1 or not rows or any(len(row) != len(header) for row in rows):
        return False
    may_be_prose = len(header) == 2 or all(field.startswith(" ") for row in (header, *rows) for field in row[1:])
    return mark != "," or is_apart or not may_be_prose or any(map(_names_numbers, header, zip(*rows, strict=True)))


def _names_numbers(title: str, column: tuple[str, ...]) -> bool:
    filled = [field.strip() for field in column if field.strip()]
    return bool(filled) and not _NUMBER.fullmatch(title.strip()) and all(map(_NUMBER.fullmatch, filled))


def _fields(line: str, mark: str) -> list[str]:
    return next(csv.reader([line], delimiter=mark), [])
