"""`Iteration`: one reply that counted, and what came of it; put together from its records."""

from __future__ import annotations

from dataclasses import dataclass

from rlm_jupyter.types.events import (
    CellFinished,
    IterationRated,
    NoticeGiven,
    OutputsShown,
    Record,
    ReplyReceived,
    SubcallSettled,
)
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import CellStatus, Output


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of an iteration, with the sub-calls that it made."""

    block: int
    """The n-th cell of its iteration, from 0."""
    source: str
    """As the model wrote it."""
    executed: str | None
    """What was executed, where that differs from `source`; it may be empty."""
    status: CellStatus
    outputs: tuple[Output, ...]
    execution_count: int | None
    seconds: float
    subcalls: tuple[SubcallSettled, ...] = ()
    """In the order in which they settled."""

    @property
    def code(self) -> str:
        """What was executed."""
        return self.source if self.executed is None else self.executed


@dataclass(frozen=True, slots=True)
class Iteration:
    """One reply that counted, the cells it ran, and what the model was told of them."""

    index: int
    """From 1."""
    reply: ReplyReceived
    cells: tuple[Cell, ...]
    notices: tuple[str, ...]
    """What the run told the model of its own, in order."""
    shown: str
    """The outputs as the model was shown them; empty until then."""
    images: tuple[Image, ...]
    """The figures among them, where it sees."""
    subcalls: tuple[SubcallSettled, ...]
    """Of all cells, in the order in which they settled."""
    rated: IterationRated | None
    """How the reward policy rated it; `None` until then."""
    records: tuple[Record, ...]
    """All of this iteration, in order: rejected and forced replies too."""


def iteration_of(index: int, records: list[Record]) -> Iteration:
    """Return the iteration that these records are of; one of them is a reply that counted."""
    reply: ReplyReceived | None = None
    rated: IterationRated | None = None
    finished: dict[int, CellFinished] = {}
    subcalls: dict[int, list[SubcallSettled]] = {}
    settled: list[SubcallSettled] = []
    notices: list[str] = []
    shown: list[str] = []
    images: list[Image] = []
    for record in records:
        if isinstance(record, ReplyReceived) and not record.rejected and not record.forced:
            reply = record
        elif isinstance(record, CellFinished):
            # of one that was interrupted and then executed anew, the last
            finished[record.block] = record
        elif isinstance(record, SubcallSettled):
            subcalls.setdefault(record.block, []).append(record)
            settled.append(record)
        elif isinstance(record, NoticeGiven):
            notices.append(record.text)
        elif isinstance(record, OutputsShown):
            shown.append(record.text)
            images += record.images
        elif isinstance(record, IterationRated):
            rated = record
    if reply is None:
        raise AssertionError("an iteration counts from its reply on")
    cells = tuple(
        Cell(
            block=cell.block,
            source=cell.source,
            executed=cell.executed,
            status=cell.status,
            outputs=cell.outputs,
            execution_count=cell.execution_count,
            seconds=cell.seconds,
            subcalls=tuple(subcalls.get(cell.block, ())),
        )
        for cell in finished.values()
    )
    return Iteration(
        index,
        reply,
        cells,
        tuple(notices),
        "\n\n".join(shown),
        tuple(images),
        tuple(settled),
        rated,
        tuple(records),
    )
