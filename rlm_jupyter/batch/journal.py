"""`BatchJournal`: what has been begun and settled of a batch, a line each, appended as it happens."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.batch.asked import Asked
from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.judge import Judgement
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.record.journal_lock import lock
from rlm_jupyter.types.errors import ConfigurationError, RecordError

_NAME = "journal.jsonl"
_SCHEMA = 2


@dataclass
class Past:
    """What a journal tells."""

    rows: dict[str, ResultRow] = field(default_factory=dict)
    """The last of each item, by its identity."""
    begun: dict[str, str] = field(default_factory=dict)
    """Items whose run was begun and came to no row: the name of the run, by the item's identity."""
    spent: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    """Tokens and US dollars of each run that came to a row, by its path."""
    written: set[str] = field(default_factory=set)
    """SHA-256 of each file of results that was written."""
    verdicts: dict[str, Judgement] = field(default_factory=dict)
    """The last of each answer that a judge was asked about, by its digest."""
    judge_tokens: int = 0
    judge_cost: float | None = 0.0
    """US dollars that all verdicts have cost."""


class BatchJournal:
    """The journal of one batch, open and locked. Made by `open`; to be closed.

    A row is in it before it is in the file of results. Where nothing comes to be written, there is none afterwards: a
    batch that has not begun holds no name.
    """

    def __init__(self, file: Any, past: Past, head: bytes) -> None:
        self._file, self._head = file, head
        self.past = past

    @classmethod
    def open(cls, folder: Path, asked: Asked) -> Self:
        """Begin a journal, or go on with one; a line that was torn off is removed first.

        Parameters
        ----------
        folder
            That of the batch; it exists.
        asked
            By which it is known again.

        Raises
        ------
        ConfigurationError
            It is another batch's, is in use, or can't be written.
        """
        path = folder / _NAME
        try:
            file = path.open("a+b", buffering=0)
        except OSError as error:
            raise ConfigurationError(f"{path} can't be written: {error.strerror}.") from None
        try:
            if not lock(file) or not os.fstat(file.fileno()).st_nlink:  # its owner has just removed it
                raise ConfigurationError(f"Another process is at work on this batch ({folder}).")
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            file.truncate(len(whole))
            lines = _read(whole, path)
            head = {"batch": _SCHEMA, "asked": asdict(asked)}
            if lines and (there := Asked(**lines[0]["asked"])).digest != asked.digest:
                raise ConfigurationError(
                    f"{folder} has the runs of another batch ({there.unlike(asked)}): ask the same, or name other "
                    "results."
                )
            return cls(file, _past(lines), b"" if lines else _line(head))
        except BaseException:
            file.close()
            raise

    def begin(self, item: Item) -> None:
        """Write down that the run of an item is begun, or resumed."""
        self._append({"begun": item.identity, "name": item.name})

    def settle(self, item: Item, row: ResultRow) -> None:
        """Write down what came of an item."""
        self._append({"item": item.identity, "result": asdict(row)})
        _take(self.past, item.identity, row)

    def judge(self, digest: str, verdict: Judgement) -> None:
        """Write down what a judge said of an answer, and what that took."""
        self._append({"judged": digest, "verdict": asdict(verdict)})
        _judge(self.past, digest, verdict)

    def write(self, sha256: str) -> None:
        """Write down what the file of results is about to be."""
        self._append({"written": sha256})
        self.past.written.add(sha256)

    def close(self) -> None:
        """Wait until all of it is on the disk, and let go of it."""
        with contextlib.suppress(OSError):
            os.fsync(self._file.fileno())
            if self._head:
                Path(self._file.name).unlink()  # still locked, so that nobody has begun in it
        self._file.close()

    def _append(self, data: dict[str, Any]) -> None:
        rest = memoryview(self._head + _line(data))
        self._head = b""
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise RecordError(f"The journal of the batch can't be written: {error.strerror}.") from error


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _read(content: bytes, path: Path) -> list[dict[str, Any]]:
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in content.splitlines()]
    except ValueError:
        raise ConfigurationError(f"{path} is damaged: name other results.") from None
    if lines and lines[0].get("batch") != _SCHEMA:
        raise ConfigurationError(f"{path} is no journal of a batch that this version reads: name other results.")
    return lines


def _past(lines: list[dict[str, Any]]) -> Past:
    past = Past()
    for line in lines:
        if "begun" in line:
            past.begun[line["begun"]] = line["name"]
        elif "item" in line:
            _take(past, line["item"], ResultRow.from_json(line["result"]))
        elif "judged" in line:
            _judge(past, line["judged"], Judgement(**line["verdict"]))
        elif "written" in line:
            past.written.add(line["written"])
    return past


def _judge(past: Past, digest: str, verdict: Judgement) -> None:
    past.verdicts[digest] = verdict
    past.judge_tokens += verdict.tokens
    past.judge_cost = None if past.judge_cost is None or verdict.cost is None else past.judge_cost + verdict.cost


def _take(past: Past, identity: str, row: ResultRow) -> None:
    past.begun.pop(identity, None)
    past.rows[identity] = row
    if row.path is not None:
        past.spent[row.path] = row.tokens, row.cost
