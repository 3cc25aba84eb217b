"""`read_rows`: the rows of a batch, from whatever holds them."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.run.files.unreadable import INSTALL
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

TEXT = "text"
"""The column of items that are texts."""
_KINDS = ".jsonl, .ndjson, .csv, .tsv or .parquet"


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
        Dicts or texts, a pandas or polars frame, or the path of a file of JSON lines, CSV or Parquet.

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
    rows: list[Mapping[str, Any]] = to_records("records") if library == "pandas" else to_records()
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
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                return _json_lines(path)
            case ".csv" | ".tsv":
                return _separated(path)
            case ".parquet":
                return _parquet(path)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} can't be read: it is not UTF-8.") from None
    raise ConfigurationError(f"{path} is no file of items: its name ends in {_KINDS}.")


def _json_lines(path: Path) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
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


def _separated(path: Path) -> list[Mapping[str, Any]]:
    csv.field_size_limit(sys.maxsize if sys.platform != "win32" else 2**31 - 1)
    rows: list[Mapping[str, Any]] = []
    names: list[str] | None = None
    begins = 1
    with path.open(newline="", encoding="utf-8-sig") as file:
        # strict: else a quote that is not closed takes all that follows, up to the next quote, for one value
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            for values in reader:
                if names is None and values:
                    names = values
                    _check_names([name for name in names if name], str(path))
                elif names is not None and len(values) > len(names):
                    why = f"line {reader.line_num} of {path.name} has more values than there are columns"
                    rows.append(BadRow(why))
                elif names is not None and values:
                    row = dict(itertools.zip_longest(names, (value or None for value in values)))
                    row.pop("", None)  # such as the index that pandas writes: nothing can refer to it
                    rows.append(row)
                begins = reader.line_num + 1
        except csv.Error as error:
            raise ConfigurationError(f"{path} can't be read: {_csv_fault(error, begins)}.") from None
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
