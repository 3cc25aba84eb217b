"""`ResultsFile`: the rows of a batch as JSON lines, CSV or Parquet; whole at every moment."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.record import atomic
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.files.unreadable import INSTALL
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

_KINDS = (".jsonl", ".csv", ".parquet")
_NUMBERS = {"row": "int64", "tokens": "int64", "cost": "float64", "seconds": "float64", "score": "float64"}
_TEXTS = {"key", "draft", "stop_reason", "path", "error", "score_reason", "scored_by"}
"""Columns that are so in Parquet whatever is in them."""


class ResultsFile:
    """Where the results go, and in which form.

    Parameters
    ----------
    path
        Ends in `.jsonl`, `.csv` or `.parquet`.
    answer_type
        What answers are to be: the fields of an object are columns of their own in CSV and Parquet, `answer.FIELD`.
        An object in a column is JSON there.

    Raises
    ------
    ConfigurationError
        It is no such path, there is no folder for it, or a library is missing.
    """

    def __init__(self, path: object, answer_type: AnswerType | None) -> None:
        if not isinstance(path, str | Path):
            raise ConfigurationError(f"out is the path of the file of results, not {quoted(path)}.")
        self.path = Path(path).expanduser().absolute()
        self.fault = ""
        """Why the file is not what it should be."""
        self._identity: atomic.Identity | None = None
        self._fields = [] if answer_type is None else [*answer_type.schema.get("properties", {})]
        if self.path.suffix.lower() not in _KINDS:
            raise ConfigurationError(f"The results go to a file whose name ends in {', '.join(_KINDS)}, not {path}.")
        if self.path.suffix.lower() == ".parquet":
            try:
                import pyarrow.parquet  # noqa: F401
            except ImportError:
                raise ConfigurationError(f"{path} needs pyarrow: {INSTALL}") from None
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"There is no folder {self.path.parent} for the results: make it first.")

    @property
    def folder(self) -> Path:
        """Of the batch: its journal, and the notebooks of its runs."""
        return self.path.with_name(f"{self.path.name}.batch")

    def check_ours(self, written: set[str]) -> None:
        """Refuse to replace a file that no run of this batch has written.

        Parameters
        ----------
        written
            SHA-256 of each that one did.

        Raises
        ------
        ConfigurationError
            Somebody else's is there, or it was changed.
        """
        self._identity = atomic.identity(self.path)
        if self._identity is None:
            return
        if not self.path.is_file() or hashlib.sha256(self.path.read_bytes()).hexdigest() not in written:
            raise ConfigurationError(
                f"{self.path} is there, and is not what this batch has written: rename it, or name other results."
            )

    def write(self, rows: Sequence[ResultRow], announce: Callable[[str], None]) -> None:
        """Replace the file by one with these rows; one that somebody has changed meanwhile stays.

        Parameters
        ----------
        announce
            Told the SHA-256 of what it is about to be.
        """
        if self.fault:
            return
        if atomic.identity(self.path) != self._identity:
            self.fault = f"{self.path} was changed by somebody else, so its rows are in {self.folder} alone"
            return
        content = self._encoded(rows)
        announce(hashlib.sha256(content).hexdigest())
        try:
            self._identity = atomic.replace(self.path, [content], staging=self.folder / atomic.STAGING)
        except OSError as error:
            self.fault = f"{self.path} can't be written: {error.strerror}"

    def _encoded(self, rows: Sequence[ResultRow]) -> bytes:
        match self.path.suffix.lower():
            case ".jsonl":
                return "".join(json.dumps(row.as_dict()) + "\n" for row in rows).encode()
            case ".csv":
                return self._csv(rows)
        return self._parquet(rows)

    def _flat(self, row: ResultRow) -> dict[str, Any]:
        """Return the columns of a table."""
        data = row.as_dict()
        if not self._fields:
            return data
        answer = data.pop("answer")
        found = answer if isinstance(answer, dict) else {}
        return data | {f"answer.{name}": found.get(name) for name in self._fields}

    def _columns(self, rows: Sequence[ResultRow]) -> list[str]:
        columns = [*dict.fromkeys(name for row in [ResultRow(key=""), *rows] for name in self._flat(row))]
        return sorted(columns, key=lambda name: (name not in {"key", "row"}, not name.startswith(("answer", "draft"))))

    def _csv(self, rows: Sequence[ResultRow]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns(rows))
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in self._flat(row).items()})
        return text.getvalue().encode(errors="backslashreplace")

    def _parquet(self, rows: Sequence[ResultRow]) -> bytes:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        flat = [self._flat(row) for row in rows]
        arrays = {name: _array(name, [row.get(name) for row in flat]) for name in self._columns(rows)}
        sink = pa.BufferOutputStream()
        write_table(pa.table(arrays), sink)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _cell(value: object) -> object:
    """Return what stands in a cell of a table: a text as it is, else JSON; nothing for nothing."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _array(name: str, values: list[Any]) -> Any:
    """Return a column of Parquet."""
    import pyarrow as pa

    if name in _NUMBERS:
        return pa.array(values, _NUMBERS[name])
    # of objects one struct would be made, in which each has the keys of them all
    if name not in _TEXTS and not any(map(_has_object, values)):
        with contextlib.suppress(pa.ArrowException, UnicodeError, OverflowError):  # of several kinds, or no text at all
            return pa.array(values)
    return pa.array(list(map(_encodable, values)), pa.string())


def _encodable(value: object) -> str | None:
    """Return the same as a text that any file takes."""
    text = _cell(value)
    return None if text is None else str(text).encode(errors="backslashreplace").decode()


def _has_object(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_object, value)))
