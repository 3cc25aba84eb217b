"""`Recording`: the records of a run, taken one after the other while it is played back.

The loop itself drives it (`player.Player`). What it asks for, a reply or a cell's outputs, comes from the recording;
what it records is matched with what stands there. Where the two differ the recording is right: the model was told that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlm_jupyter.record.saved_run import Spent, last_resumption
from rlm_jupyter.replay.diff import Difference
from rlm_jupyter.replay.recorded_calls import RecordedCalls
from rlm_jupyter.replay.stops import counts, goes_on_in_its_last, stopped_in, superseded
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    IterationRated,
    NoticeGiven,
    NoticeKind,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellPosition, CellRun, Usage

_SENT_BACK: frozenset[NoticeKind] = frozenset({"sent_back", "wrong_form", "wrong_files"})


class RecordEnds(Exception):
    """A run that is only replayed came to where its record ends."""


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """How a recording is played back."""

    reexecutes: bool = True
    """Cells are executed again; else the kernel stays empty, or has what they did already."""
    reexecutes_stopped: bool = False
    """So is the cell in which the run was stopped: it was not stopped for that cell."""
    is_live: bool = False
    """The kernel is as the record leaves it."""
    only: bool = False
    """Nothing new is to happen: no model is there, and where the record ends, it ends."""
    copies: bool = False
    """The records are those of another run, written down anew: what they cost was paid there."""
    settled: int = 0
    """Up to which iteration the run is known to have gone on, whatever its cells do now."""
    spent: Spent | None = None
    """Of a root: what its ledger goes on from."""
    unclaimed: Mapping[str, list[Path]] = field(default_factory=dict)
    """Children that had not answered, by the SHA-256 of what they were given: they are resumed."""
    sub_models: Sequence[str] = ()
    """Answer sub-calls from now on, by depth; for the record."""
    sampling: Mapping[str, object] = field(default_factory=dict)
    configured: Mapping[str, object] = field(default_factory=dict)  # both from now on, for the record
    owed: Sequence[SubcallSettled] = ()
    """Answers that a cell is to get which is not among the records: it was edited."""


class Recording:
    """The records of a run, taken one after the other.

    Parameters
    ----------
    records
        In order; the first is `RunStarted`.
    playback_options
        How they are played.

    Raises
    ------
    RecordError
        There is no `RunStarted`.
    """

    def __init__(self, records: Sequence[Record], playback_options: PlaybackOptions | None = None) -> None:
        if not records or not isinstance(records[0], RunStarted):
            raise RecordError("There is nothing in this record to go on from.")
        self.options = playback_options or PlaybackOptions()
        self.started = records[0]
        self.model = (last_resumption(records) or self.started).model
        """That drove the run last."""
        self.ended = next((record for record in reversed(records) if isinstance(record, RunEnded)), None)
        """How the run had ended, when it had."""
        self.differences: list[Difference] = []
        self.passed_over: list[int] = []
        """Iterations with cells that were not executed again, because they had been interrupted."""
        self.changed: list[tuple[int, int]] = []
        """Cells with other outputs now."""
        settled = [record for record in records if isinstance(record, SubcallSettled)]
        self.calls = RecordedCalls(settled)
        self.samples = tuple(record for record in records if isinstance(record, SampleSettled))
        self.direct = tuple(record for record in records if isinstance(record, DirectReplied))
        owed = [call for call in [*settled, *self.options.owed] if not call.failed]
        self.owed = RecordedCalls(owed)
        self.last_iteration = max((getattr(record, "iteration", 0) for record in records), default=0)
        self._left = deque(records[1:])
        again = self.options.only or self.options.reexecutes_stopped or goes_on_in_its_last(records)
        self._superseded = superseded(records, again=again)
        self.stopped_in = stopped_in(records, again=again)
        """Iteration and block of the cells in which a person had stopped the run, and which are not executed again."""
        self.undone = {record.undoes for record in records if isinstance(record, NoticeGiven) and record.undoes}
        """Those that a person had undone: they are not executed again."""
        self._settled = max(self.options.settled, _settled(records, self.ended if self.options.only else None))
        self._sent_back = {
            record.iteration
            for record in records
            if (isinstance(record, NoticeGiven) and record.kind in _SENT_BACK)
            or (isinstance(record, RunEnded) and not record.is_judged)
        }
        self._wrong_files = {
            record.iteration: record.text
            for record in records
            if isinstance(record, NoticeGiven) and record.kind == "wrong_files"
        }
        self._exited = {
            record.iteration for record in records if isinstance(record, NoticeGiven) and record.kind == "exited"
        }
        self._last_executed = {
            record.iteration: record.block
            for record in records
            if isinstance(record, CellFinished) and record.status != "skipped"
        }
        self._revivals = deque(record for record in self._left if isinstance(record, NoticeGiven) and record.restored)
        self._pending = sum(map(self._drives, self._left))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that the run's code has to go over."""
        return not self._pending

    @property
    def revival_position(self) -> CellPosition | None:
        """The cell after which the next kernel to die was as it went on, if it did."""
        if not self._revivals:
            return None
        restored = self._revivals[0].restored
        return restored["iteration"], restored["block"]

    @property
    def undoes_next(self) -> bool:
        """Whether a person had the last cell undone in place of the one that was just taken."""
        return bool(self._left) and isinstance(self._left[0], NoticeGiven) and bool(self._left[0].undoes)

    def revival(self) -> NoticeGiven | None:
        """Return what was said of the kernel's new beginning, after the cell that it died in."""
        for record in self._left:
            if isinstance(record, NoticeGiven):
                return record
            if counts(record) or isinstance(record, CellFinished | OutputsShown):
                break
        return None

    def went_on(self, iteration: int) -> bool:
        """Return whether the run is known to have gone on after this iteration."""
        return iteration <= self._settled

    def was_sent_back(self, iteration: int) -> bool:
        """Return whether an answer of this iteration was not accepted."""
        return iteration in self._sent_back

    def wrong_files(self, iteration: int) -> str:
        """Return what the model was told in this iteration of files that were not as they were asked for."""
        return self._wrong_files.get(iteration, "")

    def exited(self, cell: CellFinished) -> bool:
        """Return whether this cell ended where it called `exit()`, so that the blocks after it were skipped."""
        return cell.iteration in self._exited and self._last_executed.get(cell.iteration) == cell.block

    def reply(self) -> tuple[list[Record], ReplyReceived | None]:
        """Return the next reply that counted, with what comes before it; `None` when there is none."""
        for record in self._left:
            if isinstance(record, ReplyReceived) and counts(record):
                return self._through(record), record
        return [], None

    def cell(self, iteration: int, block: int) -> tuple[list[Record], CellFinished | None]:
        """Return what was recorded of a cell, and what comes before that; `None` when there is nothing."""
        for record in self._left:
            if counts(record) or isinstance(record, OutputsShown):
                break
            if self._is_cell(record) and isinstance(record, CellFinished):
                if (record.iteration, record.block) == (iteration, block):
                    return self._through(record)[:-1], record
                if record.block > block:
                    break
        return [], None

    def match(self, record: Record) -> list[Record]:
        """Return the recorded counterpart of what the run's code says now, with what comes before it; else nothing."""
        for one in self._left:
            if _corresponds(one, record):
                return self._through(one)
            if counts(one) or (isinstance(record, NoticeGiven | CellFinished) and isinstance(one, OutputsShown)):
                break
            if isinstance(record, NoticeGiven) and self._is_cell(one):
                break
        return []

    def rest_of_iteration(self) -> list[Record]:
        """Return all up to the next reply that counted."""
        taken: list[Record] = []
        while self._left and not counts(self._left[0]):
            taken.append(self._pop())
        return taken

    def append(self, record: RunResumed) -> None:
        """Add how it is resumed to what is recorded."""
        self._left.append(record)

    def rest(self) -> list[Record]:
        """Return all that is left."""
        return [self._pop() for _ in range(len(self._left))]

    def note(self, iteration: int, block: int | None, text: str) -> None:
        """Note that something went otherwise."""
        self.differences.append(Difference(iteration, block, text))
        if block is not None and (iteration, block) not in self.changed:
            self.changed.append((iteration, block))

    def _through(self, last: Record) -> list[Record]:
        taken = [self._pop()]
        while taken[-1] is not last:
            taken.append(self._pop())
        return taken

    def _pop(self) -> Record:
        record = self._left.popleft()
        self._pending -= self._drives(record)
        if self._revivals and record is self._revivals[0]:
            self._revivals.popleft()
        return record

    def _is_cell(self, record: Record) -> bool:
        return isinstance(record, CellFinished) and id(record) not in self._superseded

    def _drives(self, record: Record) -> bool:
        """Return whether the run's code comes by this record."""
        told = isinstance(record, NoticeGiven | OutputsShown | IterationRated)
        return told or counts(record) or self._is_cell(record)


def copied(record: Record) -> Record:
    """Return a record for a run that takes it over: what it cost was paid by another."""
    if isinstance(record, ReplyReceived | SubcallSettled | ConversationCompacted):
        return replace(record, usage=Usage(), cost=0.0)
    return record


def recorded_cell(cell: CellFinished) -> CellRun:
    """Return what came of executing it, as recorded."""
    return CellRun(cell.status, cell.outputs, cell.execution_count, cell.seconds)


def _corresponds(recorded: Record, now: Record) -> bool:
    if type(recorded) is not type(now):
        return False
    match recorded, now:
        case NoticeGiven(kind="refused"), NoticeGiven(kind="refused"):
            return True  # what the person wrote stands in the record alone
        case NoticeGiven(undoes=undone), NoticeGiven(undoes=undone_now) if undone:
            return undone == undone_now
        case NoticeGiven(text=text), NoticeGiven(text=said):
            return text == said
        case CellFinished(iteration=i, block=b), CellFinished(iteration=j, block=c):
            return (i, b) == (j, c)
    return isinstance(recorded, OutputsShown | IterationRated)


def _settled(records: Sequence[Record], last: RunEnded | None) -> int:
    """Return the last iteration after which the run went on: a reply came, or it ended without an answer.

    One that it ended with before that was judged is judged again.

    Parameters
    ----------
    last
        How the run ended, where it is only replayed, and ends so again.
    """
    settled = shown = 0
    for record in records:
        if isinstance(record, OutputsShown):
            shown = record.iteration
        elif counts(record) and isinstance(record, ReplyReceived):
            settled = record.iteration - 1
        elif isinstance(record, RunEnded) and record.stop_reason not in {"answered", "terminated"}:
            settled = max(settled, shown if record.is_judged or record is last else shown - 1)
    return settled
