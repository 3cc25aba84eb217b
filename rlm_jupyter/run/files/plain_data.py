"""`plain_data`: json and JSON lines, as a frame where they are a table."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.run.files.encodings import decode
from rlm_jupyter.run.files.unreadable import Note, first_line

_SCALARS = (str, int, float, bool, type(None))


def plain_data(data: bytes, note: Note, *, lines: bool) -> object:
    """Return the data, as a pandas frame where it is rows that are flat and have the same keys.

    Parameters
    ----------
    note
        Told where it is no JSON: then the text itself comes back.
    lines
        Each line is a value of its own.

    Raises
    ------
    Unreadable
        As for `decode`.
    """
    text = decode(data, note)
    try:
        return _table(_json_lines(text) if lines else json.loads(text))
    except (ValueError, RecursionError) as error:
        note(f"taken as text: no JSON ({first_line(error)}).")
        return text


def _json_lines(text: str) -> list[Any]:
    rows = []
    # not splitlines: a JSON text may hold the other line separators of Unicode
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"line {number:,}: {error}") from None
    return rows


def _table(rows: Any) -> Any:
    """Return rows as a frame when they are flat and have the same keys, and pandas is there; else as they are."""
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict) or not rows[0]:
        return rows
    keys = rows[0].keys()
    for row in rows:
        if not isinstance(row, dict) or row.keys() != keys or not all(isinstance(v, _SCALARS) for v in row.values()):
            return rows
    try:
        import pandas as pd
    except ImportError:
        return rows
    columns = {key: [row[key] for row in rows] for key in keys}
    # as objects where something is missing: whole numbers would turn into floats, and large ones into others
    return pd.DataFrame(
        {key: pd.Series(column, dtype=object if None in column else None) for key, column in columns.items()}
    )
