"""`SavedRun`: a run on disk, with what it takes to resume it: its bill, its limits, its unfinished children."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.record import catalog, journal_lock, notebook, store
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.edits import edited_cells
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import ConfigurationError, NoRunError, RecordError
from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    Record,
    ReplyReceived,
    RunEnded,
    RunResumed,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import CellPosition, ContextInfo, PackedContext, Usage


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run, with all that it had started, had used."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    subcalls: int = 0
    seconds: float = 0.0
    tool_calls: int = 0


Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class SavedRun:
    """A run as it stands on disk. Made by `load`."""

    files: RunFiles
    trajectory: Trajectory
    journal: tuple[Record, ...] | None
    """The records that its journal holds; `None` where that is damaged."""
    stamp: Stamp
    """Of its files when they were read."""

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """Read a run.

        Parameters
        ----------
        run
            Its id, its name, or the path of its notebook or folder.

        Raises
        ------
        RecordError
            There is no such run, or it can't be read.
        """
        files = catalog.find(run)
        stamp = _stamp(files)  # before it is read: what changes meanwhile is read anew
        records, journaled = read_files(files)
        return cls(files, Trajectory(records), None if journaled is None else tuple(journaled), stamp)

    @classmethod
    def newest(cls, folder: str | Path | None = None) -> Self:
        """Read the run that was started last.

        Parameters
        ----------
        folder
            As for `catalog.list_runs`.

        Raises
        ------
        NoRunError
            There is none.
        """
        newest = next(iter(catalog.list_runs(folder)), None)
        if newest is None:
            raise NoRunError(f"There are no runs in {folder or store.FOLDER}: name one.")
        return cls.load(newest.files.notebook)

    def latest(self) -> SavedRun:
        """Return the run as it stands on disk now: this, where nothing of it has changed."""
        return self if _stamp(self.files) == self.stamp else SavedRun.load(self.files.notebook)

    @property
    def journaled(self) -> int:
        """How many of its records the journal holds; -1 where that is damaged."""
        return -1 if self.journal is None else len(self.journal)

    @cached_property
    def edited(self) -> dict[CellPosition, str]:
        """The cells that a person has edited in its notebook (`edited_cells`)."""
        return edited_cells(self.files, self.journal or ())

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them, in order."""
        return self.trajectory.records

    @property
    def is_open(self) -> bool:
        """Whether a process is at work on it."""
        return journal_lock.is_open(self.files.journal)

    @property
    def has_answer(self) -> bool:
        """Whether it ended with an answer that it declared, or that a policy accepted."""
        ended = self.trajectory.ended
        return ended is not None and ended.answer is not None and ended.stop_reason in {"answered", "terminated"}

    @property
    def cells(self) -> int:
        """How many cells would be executed again."""
        cells = (cell for iteration in self.trajectory.iterations for cell in iteration.cells)
        return sum(cell.status in {"ok", "error"} for cell in cells)

    def earlier(self) -> list[tuple[SavedRun, bool]]:
        """Return the runs that were asked in its kernel before it, and whether `history` has them.

        Raises
        ------
        RecordError
            The record of one of them is not to be found beside it.
        """
        found = []
        for one in self.trajectory.started.options.get("after", []):
            try:
                files = catalog.find(one["run_id"], self.files.shown.parent)
            except RecordError:
                raise RecordError(
                    f"{self.files.name} was asked in the kernel of {one['run_id']}, whose record is not beside it."
                ) from None
            found.append((SavedRun.load(files.notebook), one["told"]))
        return found

    @property
    def cells_again(self) -> int:
        """How many cells would be executed again, with those of the runs before it in its kernel."""
        return self.cells + sum(run.cells for run, _ in self.earlier())

    def context(self) -> PackedContext:
        """Return its context.

        Raises
        ------
        RecordError
            It is not with the run any more.
        """
        return self.files.load_context()

    @property
    def context_infos(self) -> list[ContextInfo]:
        """What its kernel had as `context_0`, `context_1`…; the last was `context`."""
        started = self.trajectory.started
        before = started.options.get("contexts", ())
        infos = [ContextInfo(**{**info, "details": tuple(info["details"])}) for info in before]
        return infos if started.context.type_name == "none" else [*infos, started.context]

    def contexts(self, first: int = 0) -> list[PackedContext]:
        """Return the contexts of its kernel, from `context_{first}` on.

        Raises
        ------
        RecordError
            One is not with the run any more.
        """
        infos = self.context_infos[first:]
        if not infos:
            return []
        newest = [self.context()] if self.trajectory.started.context == infos[-1] else [self._context(infos[-1])]
        return [*map(self._context, infos[:-1]), *newest]

    def _context(self, info: ContextInfo) -> PackedContext:
        """Return a context that it had beside its own: from the objects, or of another prompt in its notebook."""
        try:
            return self.files.objects.get_context(info)
        except RecordError:
            for number in notebook.run_ids(self.files.shown):
                with contextlib.suppress(RecordError):
                    inline = notebook.read_context(self.files.shown, number)
                    if inline is not None and inline.info.sha256 == info.sha256:
                        return inline
            raise

    def limits(self, changes: dict[str, Any]) -> Limits:
        """Return its limits as they were last, with changes.

        Raises
        ------
        ConfigurationError
            A change is not possible.
        """
        recorded = (last_resumption(self.records) or self.trajectory.started).limits
        known = {field.name for field in fields(Limits)}
        return Limits(**{**{name: value for name, value in recorded.items() if name in known}, **changes})

    def children(self) -> list[SavedRun]:
        """Return the runs that it started, and those that they started: whatever of them can be read."""
        beside = self.files.notebook.parent
        folder = beside if beside.name == CHILDREN else self.files.folder / CHILDREN
        found = []
        for path in sorted(folder.glob("*.rlm")) if folder.is_dir() else []:
            try:
                found.append(SavedRun.load(path))
            except (RecordError, ConfigurationError):
                continue  # killed before its first record was whole
        return found

    def unclaimed(self, among: Sequence[SavedRun]) -> dict[str, list[Path]]:
        """Return its children that have not answered, by the SHA-256 of what they were given; samples as `sample N`."""
        cancelled = {one.child: one.stop_reason == "cancelled" for one in self.trajectory.samples}
        settled = {call.child: call for call in self.trajectory.subcalls if call.child is not None}
        found: dict[str, list[Path]] = defaultdict(list)
        for child in among:
            started, ended = child.trajectory.started, child.trajectory.ended
            call = settled.get(started.run_id)
            stopped = ended is None or ended.stop_reason == "cancelled"
            if started.parent != self.trajectory.run_id:
                continue
            if (number := started.options.get("sample")) is not None:
                if cancelled.get(started.run_id, True):
                    found[f"sample {number}"].append(child.files.notebook)
            elif call is None or (call.failed and stopped):
                found[started.context.sha256].append(child.files.notebook)
        return found

    def spent(self) -> Spent:
        """Return what the whole tree had used: what the ledger said at the last end, and what was recorded since."""
        children = self.children()
        usage, cost, seconds = _since_end(self.records)
        by_path = {child.files.notebook: child for child in children}
        ended = _last_end(self.records)
        for run in (self, *children):
            for path in (path for paths in run.unclaimed(children).values() for path in paths):
                # the ledger's word at an end covers what children had used by then
                child = by_path[path].trajectory
                more, priced = child.bill if ended is None else _since_end(child.records)[:2]
                usage, cost = usage + more, _sum(cost, priced)
        if ended is not None:
            usage, cost, seconds = usage + ended.usage, _sum(cost, ended.cost), seconds + ended.seconds
        calls = [call for run in (self, *children) for call in run.trajectory.subcalls if not call.refused]
        tools = sum(call.kind == "tool" for call in calls)
        return Spent(usage, cost, len(calls) - tools, seconds, tools)


def _last_end(records: Sequence[Record]) -> RunEnded | None:
    return next((record for record in reversed(records) if isinstance(record, RunEnded)), None)


def _since_end(records: Sequence[Record]) -> tuple[Usage, float | None, float]:
    """Return usage, cost and seconds of what was recorded after the last end."""
    usage, seconds = Usage(), 0.0
    priced: float | None = 0.0
    for record in reversed(records):
        if isinstance(record, RunEnded):
            break
        if isinstance(record, ReplyReceived | SubcallSettled | SampleSettled | DirectReplied | ConversationCompacted):
            usage, priced = usage + record.usage, _sum(priced, record.cost)
        if isinstance(record, ReplyReceived | CellFinished | ConversationCompacted):
            seconds += record.seconds
    return usage, priced, seconds


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def last_resumption(records: Sequence[Record]) -> RunResumed | None:
    """Return how the run was resumed the last time, if it was."""
    return next((record for record in reversed(records) if isinstance(record, RunResumed)), None)


def _stamp(files: RunFiles) -> Stamp:
    """Return what tells whether a run's files have changed: inode, size and time of change of each."""
    stamps: list[tuple[int, int, int] | None] = []
    for path in (files.journal, files.shown):
        try:
            found = path.stat()
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return tuple(stamps)
