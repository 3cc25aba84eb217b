"""`read_rows`: the rows of a batch, from whatever holds them."""

from __future__ import annotations

import csv
import itertools
import json
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rlm_jupyter.batch.text_file import TextFile
from rlm_jupyter.run.files.layout import HEAD, layout_of
from rlm_jupyter.run.files.tables import workbook
from rlm_jupyter.run.files.unreadable import INSTALL, Note, Unreadable, first_line, on_stderr
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened

TEXT = "text"
"""The column of items that are texts."""
_KINDS = ".jsonl, .ndjson, .csv, .tsv (also with .gz, .bz2 or .xz behind it), .parquet, .xlsx or .xlsm"
_MOST_SHEET_CHARS = 200


class BadRow(dict[str, Any]):
    """A row that can't be read: without columns, and `why`."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


def read_rows(items: object) -> list[Mapping[str, Any]]:
    """Return the rows.

    Parameters
    ----------
    items
        Dicts or texts, a pandas or polars frame, or the path of a file of JSON lines, CSV, Parquet or Excel.

    Raises
    ------
    ConfigurationError
        There are none, or they can't be read.
    """
    if isinstance(items, str | Path):
        rows = _of_file(Path(items).expanduser())
    elif library := _library_of(items):
        rows = _of_frame(items, library)
    elif isinstance(items, Iterable) and not isinstance(items, Mapping | bytes):
        rows = [_row(number, item) for number, item in enumerate(items)]
    else:
        raise ConfigurationError(
            f"The items of a batch are dicts, texts, a frame or the path of a file, not {quoted(items)}."
        )
    if not rows:
        raise ConfigurationError("There are no items, so there is nothing to do.")
    return rows


def _row(number: int, item: object) -> Mapping[str, Any]:
    if isinstance(item, str):
        return {TEXT: item}
    if not isinstance(item, Mapping):
        raise ConfigurationError(f"Item {number} is neither a dict nor a text: {quoted(item)}.")
    return item


def _library_of(items: object) -> str:
    """Return `pandas` or `polars` where an object, or what its class is made of, is of one of them; else nothing."""
    modules = (cls.__module__.partition(".")[0] for cls in type(items).__mro__)
    return next((module for module in modules if module in {"pandas", "polars"}), "")


def _of_frame(items: Any, library: str) -> list[Mapping[str, Any]]:
    if library == "polars" and hasattr(items, "collect"):  # a LazyFrame
        from polars.exceptions import PolarsError

        try:
            items = items.collect()
        except (PolarsError, OSError) as error:
            said = " ".join(str(error).split())
            raise ConfigurationError(f"The items, a polars LazyFrame, can't be collected: {said}") from None
    to_records = getattr(items, "to_dict" if library == "pandas" else "to_dicts", None)
    if to_records is None or not hasattr(items, "columns"):
        name = type(items).__name__
        instead = "to_frame() makes a frame of it" if hasattr(items, "to_frame") else "it is no frame"
        raise ConfigurationError(
            f"The items of a batch are dicts, texts, a frame or the path of a file, not a {library} {name}: {instead}."
        )
    _check_names([str(name) for name in items.columns], "The frame")
    if library == "pandas":  # not-a-number and NaT are what it has for nothing
        items = items.astype(object).where(items.notna(), None)
    rows: list[Mapping[str, Any]] = items.to_dict("records") if library == "pandas" else items.to_dicts()
    return rows


def _check_names(names: Sequence[str], where: str) -> None:
    """Refuse columns of one name: it would not be known which one is meant.

    Raises
    ------
    ConfigurationError
        Names it.
    """
    for name, times in Counter(names).items():
        if times > 1:
            raise ConfigurationError(f"{where} has {times} columns {name!r}: give each a name of its own.")


def _of_file(path: Path) -> list[Mapping[str, Any]]:
    def note(text: str) -> None:
        on_stderr(f"{path}: {text}")

    file = TextFile(path, note)
    try:
        if file.kind in {".jsonl", ".ndjson"}:
            return file.read(partial(_json_lines, path))
        if file.kind in {".csv", ".tsv"}:
            return file.read(partial(_separated, path, "," if file.kind == ".csv" else "\t", note))
        if path.suffix.lower() == ".parquet":
            return _parquet(path)
        if path.suffix.lower() in {".xlsx", ".xlsm"}:
            return _workbook(path, note)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}.") from None
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise ConfigurationError(f"{path} can't be read: it is damaged ({first_line(error)}).") from None
    except Unreadable as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from None
    what = f"{path} is no file of items: its name ends in {_KINDS}. Save it as one of these"
    raise ConfigurationError(f"{what}, or give a frame.", command=f"{what}.")


def _json_lines(path: Path, file: TextIO) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            rows.append(BadRow(f"line {number} of {path.name} is no JSON ({error})"))
            continue
        item = {TEXT: item} if isinstance(item, str) else item
        rows.append(item if isinstance(item, dict) else BadRow(f"line {number} of {path.name} is no JSON object"))
    return rows


def _separated(path: Path, separator: str, note: Note, file: TextIO) -> list[Mapping[str, Any]]:
    csv.field_size_limit(sys.maxsize if sys.platform != "win32" else 2**31 - 1)
    layout = layout_of(file.read(HEAD), separator)
    file.seek(0)
    above = [next(file) for _ in layout.above]
    rows: list[Mapping[str, Any]] = []
    names: list[str] | None = None
    begins = len(above) + 1
    # strict: else a quote that is not closed takes all that follows, up to the next quote, for one value
    reader = csv.reader(file, delimiter=layout.separator, strict=True)
    try:
        for values in reader:
            ends = len(above) + reader.line_num
            if names is None and values:
                names = values
                _check_names([name for name in names if name], str(path))
            elif names is not None and len(values) > len(names):
                rows.append(BadRow(f"line {ends} of {path.name} has more values than there are columns"))
            elif names is not None and values:
                row = dict(itertools.zip_longest(names, (value or None for value in values)))
                row.pop("", None)  # such as the index that pandas writes: nothing can refer to it
                rows.append(row)
            begins = ends + 1
    except csv.Error as error:
        raise ConfigurationError(f"{path} can't be read: {_csv_fault(error, begins)}.") from None
    layout.tell(note)
    return rows


def _csv_fault(error: csv.Error, begins: int) -> str:
    """Say what is wrong with the row that begins in a line."""
    said = str(error)
    if "unexpected end of data" in said:
        return f"a quote in the row of line {begins} is not closed"
    if "expected after" in said:
        return (
            f"in the row of line {begins} a quoted value goes on after its closing quote: a quote is not closed, or "
            "one inside a value is not doubled"
        )
    return f"{said}, in the row of line {begins}"


def _parquet(path: Path) -> list[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError:
        raise ConfigurationError(f"{path} needs pyarrow: {INSTALL}") from None
    with path.open("rb") as file:
        try:
            rows: list[Mapping[str, Any]] = read_table(file).to_pylist()
        except ArrowException as error:
            raise ConfigurationError(f"{path} can't be read: {error}") from None
    return rows


def _workbook(path: Path, note: Note) -> list[Mapping[str, Any]]:
    frame: Any = workbook(path.read_bytes(), note)
    if isinstance(frame, dict):
        what = f"{path} has several filled sheets ({shortened(', '.join(frame), _MOST_SHEET_CHARS)}): save the one"
        raise ConfigurationError(
            f"{what} that holds the items as a file, or give a frame, as load({str(path)!r})[{next(iter(frame))!r}].",
            command=f"{what} that holds the items as a file.",
        )
    return _of_frame(frame.convert_dtypes(), "pandas")  # whole numbers beside empty cells are floats else: 17.0
