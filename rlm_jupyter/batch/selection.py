"""`select`: the runs behind a batch's results, those whose rows meet a condition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.batch.rows import BadRow, read_rows
from rlm_jupyter.batch.where import Where
from rlm_jupyter.record import catalog
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import ConfigurationError, NoRunError

SUFFIXES = (".jsonl", ".csv", ".parquet")
"""Of a batch's results."""
_OURS = {"key", "stop_reason", "path"}
"""Columns that they have."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of a batch's runs."""

    runs: list[tuple[RunFiles, float | None]]
    """Each with the score of its answer, where it has one."""
    rows: int
    """How many rows there are."""
    missing: int
    """How many rows met the condition and have no run any more, or never had."""


def select(results: str | Path, where: str | None = None) -> Selection:
    """Return the runs of a batch whose rows meet a condition (`Where`); all of them without one.

    Raises
    ------
    ConfigurationError
        The file can't be read, or no batch has written it; the condition is none, or names no column; no row meets it.
    """
    path = Path(results).expanduser().absolute()
    condition = None if where is None else Where(where)
    rows = [row for row in read_rows(path) if not isinstance(row, BadRow)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not _OURS.issubset(columns):
        raise ConfigurationError(f"{results} is no file of results that a batch has written.")
    if condition is not None:
        condition.check(columns)
    chosen = rows if condition is None else [row for row in rows if condition.holds(row)]
    if not chosen:
        raise ConfigurationError(f"None of the {len(rows):,} rows of {results} meets --where {where}.")
    runs: list[tuple[RunFiles, float | None]] = []
    for row in chosen:
        if (files := _files(path.parent, row.get("path"))) is not None:
            runs.append((files, _score(row.get("score"))))
    if not runs:
        raise ConfigurationError(f"The runs of {results} are not in {path.name}.batch beside it any more.")
    return Selection(runs, len(rows), len(chosen) - len(runs))


def _files(folder: Path, path: Any) -> RunFiles | None:
    if not isinstance(path, str) or not path:
        return None
    try:
        return catalog.find(folder / path)
    except NoRunError:
        return None


def _score(value: Any) -> float | None:
    try:
        score = float(value)
    except (TypeError, ValueError):
        return None
    return score if math.isfinite(score) else None
