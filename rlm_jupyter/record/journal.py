"""`Journal`: every record of a run, a line each, appended as it happens. The truth while a run goes on."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import decode, dump, encode, load
from rlm_jupyter.record.journal_lock import held, is_open, lock
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunStarted

NAME = "journal.jsonl"
"""The file's name in a run's folder."""
SCHEMA = 1
"""Of the lines; stands in the first one. Raised when an older version would read them wrongly."""
_CHUNK = 65_536


class Journal:
    """An open journal. Each record is handed to the system at once, so that only a power cut can lose it.

    Made by `Journal.open`; to be closed, or used with `with`.
    """

    def __init__(self, file: FileIO, path: Path, objects: Objects, size: int) -> None:
        self._file = file
        self._objects = objects
        self._size = size
        self.path = path

    @classmethod
    def open(cls, path: Path, objects: Objects | None = None) -> Self:
        """Begin a journal, or go on with one; a line that was torn off is removed first.

        Parameters
        ----------
        path
            `NAME.rlm/journal.jsonl`; its folder is made when needed.
        objects
            Where large things go; those of the run's folder, when left out.

        Raises
        ------
        RecordError
            The file can't be written, or a run that is still going on writes it.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b", buffering=0)  # nothing waits in this process
        except OSError as error:
            raise RecordError(f"{path} can't be written: {error.strerror}.") from error
        if not lock(file):
            file.close()
            raise RecordError(f"{path} is being written by a run that is still going on.")
        size = _whole_size(file)
        file.truncate(size)
        if size and _last_line(file, 0)[-1:] != b"\n":
            size += file.write(b"\n")
        return cls(file, path, objects or Objects.of_run(path.parent), size)

    def append(self, *records: Record) -> list[dict[str, Any]]:
        """Write records, all at once.

        Returns
        -------
            What `encode` made of each.

        Raises
        ------
        RecordError
            The disk refuses; the journal is as it was.
        """
        encoded, dumped = list[dict[str, Any]](), list[bytes]()
        for record in records:
            data = encode(record, self._objects)
            encoded.append(data)
            dumped += [dump({"schema": SCHEMA} | data if isinstance(record, RunStarted) else data), b"\n"]
        lines = b"".join(dumped)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            # a torn line in the middle could not be told from damage later
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
            raise RecordError(f"{self.path} can't be written: {error.strerror}.") from error
        self._size += len(lines)
        return encoded

    def close(self) -> None:
        """Wait until all of it is on the disk, and let go of the file. Twice is no harm.

        Raises
        ------
        RecordError
            The disk can't promise to keep it; the file is closed all the same.
        """
        if self._file.closed:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RecordError(f"{self.path} may not outlive a power cut: {error.strerror}.") from error
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path, objects: Objects | None = None) -> list[Record]:
    """Return all records of a journal, in order. A last line that was torn off (the host was killed) is left out.

    Parameters
    ----------
    path
        `NAME.rlm/journal.jsonl`.
    objects
        Where large things are; those of the run's folder, when left out.

    Raises
    ------
    RecordError
        There is no such file, a line is damaged, or a newer version wrote it (named).
    """
    objects = objects or Objects.of_run(path.parent)
    records: list[Record] = []
    version = ""
    for number, data in _lines(path):
        try:
            record = decode(data, objects, version=version or str(data.get("version", "")))
        except RecordError as error:
            raise RecordError(f"{path}, line {number}: {error}") from error
        if isinstance(record, RunStarted):
            version = record.version
        records.append(record)
    if not records and is_open(path):
        raise RecordError(f"{path} holds no record yet: its run has only just begun, in another process.")
    if not records:
        raise RecordError(f"{path} holds no record: its run was ended as it began, or it is damaged.")
    return records


def read_short(path: Path) -> list[Record]:
    """Return the records of a journal without what is kept beside it: outputs are as short as the notebook shows them.

    A record with a text that is kept beside it, and one that is damaged, is left out.

    Raises
    ------
    RecordError
        There is no such file, or a line is no JSON.
    """
    records: list[Record] = []
    for _, data in _lines(path):
        with contextlib.suppress(RecordError):
            records.append(decode(data))
    return records


def read_first(path: Path, contains: bytes = b"") -> RunStarted | None:
    """Return the first record, without reading on; `None` where there is none yet, or none that can be read.

    Parameters
    ----------
    contains
        Bytes that the line must hold; without them it is not even decoded, and `None`.
    """
    with contextlib.suppress(OSError, ValueError, RecordError), path.open("rb") as file:
        line = file.readline()
        return _started(line, path) if contains in line else None
    return None


def read_ends(path: Path, contains: bytes = b"") -> tuple[RunStarted, Record | None] | None:
    """Return the first record and the last (`None` when it was torn off, or is the first), without what is between.

    Parameters
    ----------
    contains
        Bytes that the first line must hold; without them it is not even decoded.
    """
    with contextlib.suppress(OSError, ValueError, RecordError), path.open("rb") as file:
        first = file.readline()
        if contains in first and (started := _started(first, path)) is not None:
            last = _last_line(file, len(first))
            try:
                return started, decode(load(last), Objects.of_run(path.parent), version=started.version)
            except (ValueError, RecordError):
                return started, None
    return None


def set_aside(path: Path) -> Path:
    """Rename a journal that is damaged to `journal.damaged`, `journal-2.damaged`…: none is replaced.

    Raises
    ------
    RecordError
        A run that is still going on writes it, or the folder refuses.
    """
    with held(path) as is_free:
        if not is_free:
            raise RecordError(f"{path} is being written by a run that is still going on.")
        names = (f"{path.stem}{'' if number == 1 else f'-{number}'}.damaged" for number in itertools.count(1))
        moved_to = next(free for name in names if not os.path.lexists(free := path.with_name(name)))
        try:
            return path.rename(moved_to)
        except OSError as error:
            raise RecordError(f"{path} can't be renamed: {error.strerror}.") from error


def _started(line: bytes, path: Path) -> RunStarted | None:
    data = load(line)
    _check_schema(data, path)
    record = decode(data, Objects.of_run(path.parent), version=str(data.get("version", "")))
    return record if isinstance(record, RunStarted) else None


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise RecordError(f"There is no {path}.") from None
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}.") from error
    last = len(lines) - (lines[-1] == b"")
    for number, line in enumerate(lines[:last], 1):
        try:
            data = load(line)
        except ValueError:
            if number == last:
                return
            raise RecordError(f"{path}, line {number}, is damaged.") from None
        if number == 1:
            _check_schema(data, path)
        yield number, data


def _check_schema(data: dict[str, Any], path: Path) -> None:
    schema = data.pop("schema", SCHEMA)
    if schema != SCHEMA:
        raise RecordError(
            f"{path} was written by rlm_jupyter {data.get('version') or '(unknown)'} (schema {schema}); this one "
            f"reads schema {SCHEMA}. Upgrade to read it."
        )


def _whole_size(file: BufferedReader | FileIO) -> int:
    """Return where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    line = _last_line(file, 0)
    try:
        load(line)  # `read` takes it as well without its line feed, which an editor may have removed
        return end
    except ValueError:
        pass  # a power cut can leave a line of zeros
    return end - len(line)


def _last_line(file: BufferedReader | FileIO, least: int) -> bytes:
    """Return the last line, its line feed included, of those after the first `least` bytes."""
    end = file.seek(0, os.SEEK_END)
    size = _CHUNK
    while True:
        start = max(end - size, least)
        file.seek(start)
        tail = file.read(end - start)
        newline = tail.rfind(b"\n", 0, max(len(tail) - 1, 0))
        if newline >= 0 or start == least:
            return tail[newline + 1 :]
        size *= 8
