"""`Cells`: a run folded into the cells that a page shows while it goes on; it knows no front end.

`take` tells what is new since the last time, as items of the protocol (`tests/live/protocol.json` has all of
them), and `snapshot` tells everything. A cell that is done is told whole: so a page that missed something
is right again with the next of them, whether or not it can ask.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rlm_jupyter.events import (
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    Event,
    NoticeGiven,
    OutputChanged,
    ReplyReceived,
    ReplyStreamed,
    RunEnded,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.live import asked, safe
from rlm_jupyter.live.arriving import Part, arrived, arriving
from rlm_jupyter.live.cell import Item, LiveCell
from rlm_jupyter.live.facts import RunFacts


@dataclass(slots=True)
class _Reply:
    """The reply of an iteration."""

    text: str = ""
    cells: list[LiveCell] = field(default_factory=list)
    """What it consists of, prose and code."""


class Cells:
    """The cells of one run. Fed from the run's thread, told in another.

    Parameters
    ----------
    run
        A short id, for the ids of the cells.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.facts = RunFacts()
        self._lock = threading.Lock()
        self._order: list[LiveCell] = []
        self._replies: dict[int, _Reply] = {}
        self._settled: dict[tuple[int, int], list[SubcallSettled]] = {}
        self._waiting: dict[tuple[int, int], int] = {}
        self._dirty: dict[str, LiveCell] = {}
        self._gone: list[str] = []
        self._arriving: int | None = None
        self._told_facts: dict[str, Any] = {}
        self._made = 0

    def apply(self, event: Event) -> None:
        """Take in an event."""
        with self._lock:
            self.facts.apply(event)
            self._apply(event)

    def fail(self, message: str = "") -> None:
        """Nothing more will come: the host failed."""
        with self._lock:
            self.facts.fail(message)
            self._close()

    def amend(self, source: str) -> None:
        """A person has edited the cell that waits: it says from now on what is executed."""
        with self._lock:
            for cell in self._order:
                if cell.status == "proposed":
                    cell.source, cell.is_amended = source, True
                    self._mark(cell)

    @property
    def proposed(self) -> str | None:
        """The id of the cell that waits for a person, if one does."""
        with self._lock:
            return next((cell.id for cell in self._order if cell.status == "proposed"), None)

    def source(self, cell_id: str) -> str | None:
        """What a code cell of this run says; `None`: it is none."""
        with self._lock:
            found = next((cell for cell in self._order if cell.id == cell_id and cell.role == "code"), None)
            return None if found is None else safe.plain(found.source)

    def take(self) -> list[Item]:
        """What is new since the last time."""
        with self._lock:
            if self._arriving is not None:
                reply = self._replies[self._arriving]
                self._see(self._arriving, arriving(reply.text))
                self._arriving = None
            items: list[Item] = [{"item": "gone", "id": cell_id} for cell_id in self._gone]
            places = {cell.id: place for place, cell in enumerate(self._order)}
            for cell in sorted(self._dirty.values(), key=lambda cell: places[cell.id]):
                items += cell.news(self._order[places[cell.id] - 1].id if places[cell.id] else None)
            self._gone, self._dirty = [], {}
            if (facts := self.facts.told()) != self._told_facts:
                self._told_facts = facts
                items.append({"item": "run", "facts": facts})
            if self.facts.outcome is not None and items:
                items.append({"item": "end", "ids": [cell.id for cell in self._order]})
            return items

    def snapshot(self) -> Item:
        """Everything, for a page that has missed something."""
        with self._lock:
            ids = [None, *(cell.id for cell in self._order)]
            cells = [cell.whole(after) for cell, after in zip(self._order, ids, strict=False)]
            return {"cells": cells, "facts": self.facts.told()}

    def _apply(self, event: Event) -> None:
        match event:
            case ReplyStreamed(iteration=index, text=text):
                self._reply(index).text += text
                self._arriving = index
            case ReplyReceived():
                self._receive(event)
            case CellProposed(iteration=index, block=place, source=source):
                self._code(index, place, source).status = "proposed"
            case CellDecided(iteration=index, block=place):
                self._code(index, place).status = "writing"
            case CellStarted(iteration=index, block=place, source=source):
                cell = self._code(index, place, source)
                cell.status, cell.facts["started"] = "running", _now()
            case OutputChanged(iteration=index, block=place, outputs=made):
                self._code(index, place).made = made
            case CellFinished():
                self._finish(event)
            case _:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        """What comes of cells: sub-calls, notices, the answer."""
        match event:
            case SubcallStarted(iteration=index, block=place):
                self._waiting[index, place] = self._waiting.get((index, place), 0) + 1
                self._subcalls(index, place)
            case SubcallSettled(iteration=index, block=place):
                self._waiting[index, place] = max(self._waiting.get((index, place), 0) - 1, 0)
                self._settled.setdefault((index, place), []).append(event)
                self._subcalls(index, place)
            case NoticeGiven(iteration=index, text=text):
                quoted = "  \n".join(f"> {line}" for line in text.splitlines())
                self._add(LiveCell(self._id(), "notice", index, source=quoted, status="ok"))
            case RunEnded(answer=answer, iteration=index):
                self._close()
                if answer is not None:
                    self._add(LiveCell(self._id(), "answer", index, source=f"**Answer**\n\n{answer}", status="ok"))
            case _:  # what only the numbers show
                pass

    def _receive(self, event: ReplyReceived) -> None:
        reply = self._reply(event.iteration)
        self._arriving = None
        reply.text = ""  # another may be drawn
        if event.rejected:
            for cell in reply.cells:
                self._drop(cell)
            reply.cells = []
            text = f"> Drawn again: the reply {event.rejected}."
            self._add(LiveCell(self._id(), "notice", event.iteration, source=text, status="ok"))
            return
        self._see(event.iteration, arrived(event.text))
        for cell in reply.cells:
            if cell.role == "prose" or event.forced:
                cell.status = "skipped" if cell.role == "code" else "ok"
                self._mark(cell)
        if reply.cells:
            reply.cells[0].facts |= {
                "model": event.model,
                "tokens": event.usage.total_tokens,
                "cost": event.cost,
                "seconds": round(event.seconds, 3),
            }

    def _see(self, index: int, parts: list[Part]) -> None:
        """Make the cells of a reply be these; those that fit stay."""
        reply = self._reply(index)
        same = 0
        for (kind, source), cell in zip(parts, reply.cells, strict=False):
            if (kind == "code") is not (cell.role == "code"):
                break
            same += 1
            if cell.source != source:
                cell.source = source
                self._mark(cell)
        for cell in reply.cells[same:]:
            self._drop(cell)
        del reply.cells[same:]
        for kind, source in parts[same:]:
            block = sum(cell.role == "code" for cell in reply.cells)
            cell = LiveCell(self._id(), "code" if kind == "code" else "prose", index, block, source)
            self._add(cell, reply.cells[-1] if reply.cells else None)
            reply.cells.append(cell)

    def _finish(self, event: CellFinished) -> None:
        cell = self._code(event.iteration, event.block, event.source)
        cell.made, cell.execution_count, cell.status = event.outputs, event.execution_count, event.status
        cell.facts |= {"seconds": round(event.seconds, 3), "ended": _now()}
        place = event.iteration, event.block
        if place in self._settled or place in self._waiting:
            self._waiting[place] = 0  # what was cancelled with the cell never settles
            self._subcalls(*place, done=True)

    def _subcalls(self, index: int, place: int, *, done: bool = False) -> None:
        asking = self._code(index, place)
        cell = next((c for c in self._order if c.role == "subcalls" and (c.iteration, c.block) == (index, place)), None)
        if cell is None:
            cell = LiveCell(self._id(), "subcalls", index, place)
            self._add(cell, asking)
        settled = self._settled.get((index, place), [])
        cell.source = asked.markdown(settled, self._waiting.get((index, place), 0))
        cell.facts = {"calls": asked.facts(settled), "of": asking.id}
        cell.status = "ok" if done else "writing"
        self._mark(cell)

    def _code(self, index: int, place: int, source: str | None = None) -> LiveCell:
        """The n-th code cell of an iteration; one that was made of a FINAL in prose comes after the others."""
        reply = self._reply(index)
        code = [cell for cell in reply.cells if cell.role == "code"]
        while len(code) <= place:
            cell = LiveCell(self._id(), "code", index, len(code), source or "")
            self._add(cell, reply.cells[-1] if reply.cells else None)
            reply.cells.append(cell)
            code.append(cell)
        cell = code[place]
        if source is not None and not cell.is_amended:
            cell.source = source
        self._mark(cell)
        return cell

    def _reply(self, index: int) -> _Reply:
        return self._replies.setdefault(index, _Reply())

    def _close(self) -> None:
        """Nothing of what is there will change any more."""
        self._arriving = None
        for cell in self._order:
            if not cell.is_done:
                cell.status = "ok" if cell.role != "code" else "interrupted" if cell.made else "skipped"
                self._mark(cell)

    def _add(self, cell: LiveCell, after: LiveCell | None = None) -> None:
        place = len(self._order) if after is None else self._order.index(after) + 1
        # the sub-calls of a cell stay right below it
        while after is not None and place < len(self._order) and self._order[place].role == "subcalls":
            if cell.role == "subcalls":
                break
            place += 1
        self._order.insert(place, cell)
        self._mark(cell)

    def _drop(self, cell: LiveCell) -> None:
        self._order.remove(cell)
        self._dirty.pop(cell.id, None)
        if cell.told is not None:
            self._gone.append(cell.id)

    def _mark(self, cell: LiveCell) -> None:
        self._dirty[cell.id] = cell

    def _id(self) -> str:
        self._made += 1
        return f"rlm-{self.run}-{self._made}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
