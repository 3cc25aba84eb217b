"""Where a recorded run was stopped: which of its cells are executed again for it, and which never."""

from __future__ import annotations

from collections.abc import Sequence

from rlm_jupyter.types.events import (
    CellFinished,
    NoticeGiven,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellPosition


def counts(record: Record) -> bool:
    """Return whether a record is a reply that the run went by."""
    return isinstance(record, ReplyReceived) and not record.rejected and not record.forced


def superseded(records: Sequence[Record], *, again: bool) -> set[int]:
    """Return the cells that were executed anew later, and the one in which the run was stopped, if it is to be."""
    latest: dict[CellPosition, CellFinished] = {}
    found: set[int] = set()
    for record in records:
        if isinstance(record, CellFinished):
            position = record.iteration, record.block
            if position in latest:
                found.add(id(latest[position]))
            latest[position] = record
    if again and (stopped := _last_stop(records)) is not None:
        found.add(id(stopped[0]))
    return found


def goes_on_in_its_last(records: Sequence[Record]) -> bool:
    """Return whether the cell in which the run was stopped is to be executed again.

    One that a person stopped may never end, and would have to be stopped each time. One that asks sub-calls is gone on
    with, because what it has paid for is answered from the record; where they stop that a second time, it is not.
    """
    stopped = _last_stop(records)
    if stopped is None or stopped[1].stop_reason == "failed":
        return True
    position = stopped[0].iteration, stopped[0].block
    here = [
        one
        for one in records
        if isinstance(one, CellFinished | SubcallSettled) and (one.iteration, one.block) == position
    ]
    stops = sum(isinstance(one, CellFinished) and one.status == "interrupted" for one in here)
    return stops == 1 and any(isinstance(one, SubcallSettled) for one in here)


def stopped_in(records: Sequence[Record], *, again: bool) -> frozenset[CellPosition]:
    """Return the positions of the cells in which a person stopped the run, and which were or are not executed again."""
    found: set[CellPosition] = set()
    latest: CellFinished | None = None
    for record in records:
        if isinstance(record, CellFinished) and record.status == "interrupted":
            latest = record
        elif isinstance(record, NoticeGiven) and record.kind == "stopped" and latest is not None:
            found.add((latest.iteration, latest.block))
    stopped = _last_stop(records)
    if stopped is not None and not again:
        found.add((stopped[0].iteration, stopped[0].block))
    return frozenset(found)


def _last_stop(records: Sequence[Record]) -> tuple[CellFinished, RunEnded] | None:
    """Return the cell in which the run was stopped or failed, and its end, where it has not gone on since."""
    cell: CellFinished | None = None
    end: RunEnded | None = None
    for record in records:
        if isinstance(record, CellFinished):
            cell, end = (record if record.status == "interrupted" else None), None
        elif isinstance(record, OutputsShown) or counts(record):
            cell = end = None
        elif isinstance(record, RunEnded):
            end = record
    return None if cell is None or end is None or end.stop_reason not in {"cancelled", "failed"} else (cell, end)
