"""`read_rows`: the rows of a batch, from whatever holds them."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping
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
    elif (module := type(items).__module__.partition(".")[0]) in {"pandas", "polars"}:
        records: Any = items
        rows = records.to_dict("records") if module == "pandas" else records.to_dicts()
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
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", restkey="")
            return [
                BadRow(f"line {reader.line_num} of {path.name} has more values than there are columns")
                if "" in row
                else {name: value or None for name, value in row.items()}
                for row in reader
            ]
        except csv.Error as error:
            raise ConfigurationError(f"{path} can't be read: {error}.") from None


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
