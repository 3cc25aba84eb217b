"""`Trajectory`: the fold of a run's records, and everything that is derived from them.

Long because all that is derived from a run's records is derived here.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.record import delivery
from rlm_jupyter.record.catalog import find
from rlm_jupyter.record.iteration import Iteration, iteration_of
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    IterationRated,
    NoticeGiven,
    OutputsElided,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import Usage

_ANSWER_CHARS = 2_000
"""Of an answer, where a trajectory shows itself."""


class Trajectory:
    """What happened in a run. Grows by `apply`; everything else is derived.

    Records that come after `RunEnded` belong to a run that was resumed.
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records: list[Record] = []
        self.length = 0
        """How many records there are: what was derived holds while it stays the same."""
        self._by_iteration: dict[int, list[Record]] = {}
        self._counted: list[int] = []
        self._views: dict[int, Iteration] = {}
        self._iterations: tuple[Iteration, ...] | None = None
        self._subcalls: list[SubcallSettled] = []
        self._samples: list[SampleSettled] = []
        self._direct: list[DirectReplied] = []
        self._rejected: list[ReplyReceived] = []
        self._undone: set[tuple[int, ...]] = set()
        self._forced: ReplyReceived | None = None
        self._elided_through = 0
        self._compactions: list[ConversationCompacted] = []
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._ended: RunEnded | None = None
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Append a record; costs the same however long the run is.

        Raises
        ------
        RecordError
            The first record is not `RunStarted`, or a later one is.
        """
        if isinstance(record, RunStarted) != (not self._records):
            raise RecordError(f"A run begins with RunStarted, and once; this is {type(record).__name__}.")
        self._records.append(record)
        self.length += 1
        self._ended = record if isinstance(record, RunEnded) else None
        if isinstance(record, OutputsElided):
            self._elided_through = max(self._elided_through, record.through)
        elif isinstance(record, ConversationCompacted):
            if not record.rejected:
                self._compactions.append(record)
            self._spend(record.usage, record.cost)
        elif isinstance(record, SampleSettled):
            self._samples.append(record)
            self._spend(record.usage, record.cost)
        elif isinstance(record, DirectReplied):
            self._direct.append(record)
            self._spend(record.usage, record.cost)
        elif not isinstance(record, RunStarted | RunResumed | RunEnded):
            self._enter(record)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, in order."""
        return tuple(self._records)

    @property
    def started(self) -> RunStarted:
        """How the run began.

        Raises
        ------
        RecordError
            It has not begun.
        """
        if self._records and isinstance(self._records[0], RunStarted):
            return self._records[0]
        raise RecordError("This run has not begun: nothing is recorded yet.")

    @property
    def ended(self) -> RunEnded | None:
        """How the run ended; `None` while it goes on, and when it was killed."""
        return self._ended

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.started.run_id

    @property
    def answer(self) -> str | None:
        """The answer, when the run ended with one."""
        return self._ended.answer if self._ended is not None else None

    @property
    def iterations(self) -> tuple[Iteration, ...]:
        """The iterations with a reply that counted, in order; only what is new is put together."""
        if self._iterations is None:
            for index in self._counted:
                if index not in self._views:
                    self._views[index] = iteration_of(index, self._by_iteration[index])
            self._iterations = tuple(self._views[index] for index in self._counted)
        return self._iterations

    @property
    def subcalls(self) -> tuple[SubcallSettled, ...]:
        """Every sub-call, in the order in which they settled."""
        return tuple(self._subcalls)

    @property
    def samples(self) -> tuple[SampleSettled, ...]:
        """The other runs of the same question, in the order in which they ended."""
        return tuple(self._samples)

    @property
    def direct(self) -> tuple[DirectReplied, ...]:
        """The replies to the question with the whole text, before the first iteration."""
        return tuple(self._direct)

    @property
    def rejected(self) -> tuple[ReplyReceived, ...]:
        """The replies that were resampled, in order."""
        return tuple(self._rejected)

    @property
    def undone(self) -> frozenset[tuple[int, ...]]:
        """Iteration and block of the cells that a person had undone."""
        return frozenset(self._undone)

    @property
    def forced(self) -> ReplyReceived | None:
        """The reply to the final call of a run that met a limit."""
        return self._forced

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of the run, by name: from its start, or since it was resumed.

        What people set in between is not recorded; of iterations it is the number at which the run ended.
        """
        resumed = [record for record in self.records if isinstance(record, RunResumed)]
        limits = dict(resumed[-1].limits if resumed else self.started.limits)
        if self._ended is not None and self._ended.stop_reason == "iterations":
            limits["max_iterations"] = self._ended.iteration
        return limits

    @property
    def elided_through(self) -> int:
        """Up to which iteration the model is no longer shown the outputs; 0 for none."""
        return self._elided_through

    @property
    def compactions(self) -> tuple[ConversationCompacted, ...]:
        """Where older iterations made room in the conversation, in order: the last one holds. None was rejected."""
        return tuple(self._compactions)

    @property
    def compacted(self) -> ConversationCompacted | None:
        """What stands in place of the older iterations in the conversation; `None`: all are shown."""
        return self._compactions[-1] if self._compactions else None

    @property
    def compacted_through(self) -> int:
        """Up to which iteration the model is shown nothing but what stands in their place; 0 for none."""
        return self._compactions[-1].through if self._compactions else 0

    @property
    def uncompacted(self) -> tuple[Iteration, ...]:
        """The iterations after those; costs what they are, however long the run is."""
        through = self.compacted_through
        return tuple(takewhile(lambda one: one.index > through, reversed(self.iterations)))[::-1]

    @property
    def usage(self) -> Usage:
        """Tokens of the root's replies and summaries, the sub-calls, the children and the other samples."""
        return self._usage

    @property
    def cost(self) -> float | None:
        """US dollars for the same; `None` when the price of a part is not known."""
        return self._cost

    @property
    def bill(self) -> tuple[Usage, float | None]:
        """Tokens and US dollars of the whole run: its end knows, too, what requests took that were stopped."""
        return (self._usage, self._cost) if self._ended is None else (self._ended.usage, self._ended.cost)

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the record as one notebook; returns its path.

        The context and the runs that it started are not in it: `Result.save` writes those along.

        Parameters
        ----------
        path
            The notebook. One that holds exactly this record already is left as it is.
        replace
            Replace an earlier one, which somebody may have edited since.

        Raises
        ------
        ConfigurationError
            Something else is there.
        RecordError
            Nothing is recorded yet, or the folder or the disk refuses.
        """
        path = Path(path)
        path = path if path.suffix == ".ipynb" else path.with_name(f"{path.name}.ipynb")
        _ = self.started
        layout = Layout(None, None)
        for record in self._records:
            layout.add(record)
        try:
            delivery.deliver(path, b"".join(joined([layout])), replace=replace)
        except OSError as error:
            raise RecordError(f"{path} can't be written: {error.strerror or error}.") from error
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a run from its notebook, or from its `.rlm` folder.

        Of notebook and journal, what holds more is taken; the journal, when they are even: it is written
        first, and no editor touches it.

        Raises
        ------
        RecordError
            Neither is there, or can be read (the text says why).
        """
        return cls(read_files(find(Path(path).absolute()))[0])

    def __repr__(self) -> str:
        if not self._records:
            return "<Trajectory: nothing recorded yet>"
        return f"<Trajectory {self.run_id}: {self._facts()}>"

    def _repr_html_(self) -> str:
        if not self._records:
            return "<p><em>Nothing recorded yet.</em></p>"
        pre = "white-space: pre-wrap; margin: 0.5em 0"
        answer = f"<div style='{pre}'>{html.escape(_head(self.answer))}</div>" if self.answer is not None else ""
        prompt = f"<div style='{pre}; color: var(--jp-ui-font-color2)'>{html.escape(_head(self.started.prompt))}</div>"
        return f"<div>{prompt}{answer}<small>{html.escape(self._facts())}</small></div>"

    def _enter(
        self, record: ReplyReceived | SubcallSettled | CellFinished | NoticeGiven | OutputsShown | IterationRated
    ) -> None:
        index = record.iteration
        self._by_iteration.setdefault(index, []).append(record)
        self._views.pop(index, None)
        self._iterations = None
        if isinstance(record, ReplyReceived | SubcallSettled):
            self._spend(record.usage, record.cost)
        if isinstance(record, NoticeGiven) and record.undoes:
            self._undone.add(record.undoes)
        if isinstance(record, SubcallSettled):
            self._subcalls.append(record)
        elif isinstance(record, ReplyReceived):
            if record.rejected:
                self._rejected.append(record)
            elif record.forced:
                self._forced = record
            elif index not in self._counted[-1:]:
                self._counted.append(index)

    def _spend(self, usage: Usage, cost: float | None) -> None:
        self._usage += usage
        self._cost = None if self._cost is None or cost is None else self._cost + cost

    def _facts(self) -> str:
        stop = self._ended.stop_reason if self._ended is not None else "not ended"
        counts = [(len(self.iterations), "iteration"), (len(self._subcalls), "sub-call")]
        words = [f"{number:,} {unit}{'' if number == 1 else 's'}" for number, unit in counts]
        usage, dollars = self.bill
        cost = "cost unknown" if dollars is None else f"${dollars:,.4f}"
        return ", ".join([stop, *words, f"{usage.total_tokens:,} tokens", cost])


def _head(text: str) -> str:
    return text if len(text) <= _ANSWER_CHARS else f"{text[:_ANSWER_CHARS]}…"
