"""`PromptTemplate`: a question, or a context, with the names of columns in it."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rlm_jupyter.run.files.blank import is_blank
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

Row = Mapping[str, Any]


class MissingValueError(Exception):
    """A row has nothing in a column that is needed."""


class PromptTemplate:
    """A text with `{column}` in it; `{{` and `}}` stand for braces.

    Parameters
    ----------
    text
        Column names are taken as they are, spaces and dots included.

    Raises
    ------
    ConfigurationError
        A brace is not closed, or a name has a format or a conversion.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ConfigurationError(
                f"The template {quoted(text)} can't be read: {error}. A brace of the text itself is written twice."
            ) from None
        self._parts: list[tuple[str, str | None]] = []
        for literal, name, form, conversion in parts:
            if form or conversion or name == "":
                raise ConfigurationError(
                    f"The template {quoted(text)} has more than the name of a column between two braces: {{name}} is "
                    "all that there is, and a brace of the text itself is written twice."
                )
            self._parts.append((literal, name))

    @property
    def columns(self) -> list[str]:
        """The columns that it names, in order."""
        return [name for _, name in self._parts if name is not None]

    def fill(self, row: Row) -> str:
        """Return the text for a row.

        Raises
        ------
        MissingValueError
            A column has no value there.
        """
        return "".join(literal + ("" if name is None else str(value_of(row, name))) for literal, name in self._parts)


class ContextColumn:
    """What a row is about: a column as it is, a template, or with `@` before it the path of a file or folder.

    Parameters
    ----------
    text
        The name of a column; with braces in it a template; `@` in front of either.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        name = text.removeprefix("@")
        self._is_path = name != text
        self._template = PromptTemplate(name) if "{" in name else None
        self.columns = [name] if self._template is None else self._template.columns

    def fill(self, row: Row) -> object:
        """Return the context of a row; as for `PromptTemplate.fill`."""
        value = value_of(row, self.columns[0]) if self._template is None else self._template.fill(row)
        if is_blank(value):
            raise _missing(self.columns[0])
        return Path(str(value)) if self._is_path else value


def value_of(row: Row, name: str) -> Any:
    """Return what a row has in a column.

    Raises
    ------
    MissingValueError
        Nothing: it has no such column, `None`, blanks alone, or not-a-number, as frames have it for nothing.
    """
    value = row.get(name)
    if value is None or (isinstance(value, float) and value != value) or (isinstance(value, str) and is_blank(value)):
        raise _missing(name)
    return value


def _missing(name: str) -> MissingValueError:
    return MissingValueError(f"nothing stands in its column {name!r}")


def check_columns(wanted: Collection[str], known: Collection[str]) -> None:
    """Refuse a column that no row has.

    Raises
    ------
    ConfigurationError
        Names it, and those that there are.
    """
    for name in wanted:
        if name not in known:
            raise ConfigurationError(f"No row has a column {name!r}; {listed(known)}.")


def listed(columns: Collection[str]) -> str:
    """Say which columns there are, in quotes: a blank belongs to the name."""
    if not columns:
        return "there is no column with a name"
    return f"the columns are: {', '.join(map(repr, list(columns)[:20]))}"
