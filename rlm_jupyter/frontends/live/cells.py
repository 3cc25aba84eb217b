"""`Cells`: a run folded into the cells that a page shows while it goes on; it knows no front end.

`take` tells what is new since the last time, as items of the protocol (`tests/support/protocol.json` has all of
them), and `snapshot` tells everything. A cell that is done is told whole: so a page that missed something
is right again with the next of them, whether or not it can ask.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from rlm_jupyter.frontends.display import sanitize
from rlm_jupyter.frontends.live.cell import Item, LiveCell
from rlm_jupyter.frontends.live.cell_list import CellList
from rlm_jupyter.frontends.live.child import Child, within
from rlm_jupyter.frontends.live.children import Children, read
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.frontends.live.reply_cells import ReplyCells
from rlm_jupyter.frontends.live.subcall_cells import SubcallCells
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.attempts import Attempt, markdown
from rlm_jupyter.record.notice import compacted_notice, quoted_notice, resumed_notice
from rlm_jupyter.types.events import (
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    ChildReported,
    ConversationCompacted,
    DirectReplied,
    Event,
    NoticeGiven,
    OutputChanged,
    ReplyReceived,
    ReplyStreamed,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import CellPosition


class Cells:
    """The cells of one run. Fed from the run's thread, told in another.

    Parameters
    ----------
    run
        A short id, for the ids of the cells.
    child, children
        Of a child's cells: which child, and the children of its root, which its own are among.
    """

    def __init__(self, run: str, child: Child | None = None, children: Children | None = None) -> None:
        self.run = run
        self.children: Children = children or Children(run, self._of_child)
        self._child = child
        self.is_live = True
        """Events arrive as they happen; else they are replayed from a record, which has no times."""
        self.facts = RunFacts()
        self._lock = threading.Lock()
        self._cells = CellList(run, within(child))
        self._replies = ReplyCells(self._cells)
        self._subcalls = SubcallCells(self._cells)
        self._attempts: list[Attempt] = []
        self._samples: LiveCell | None = None
        """The cell for the other samples, and for what was answered before the first iteration."""
        self._told_facts: dict[str, Any] = {}

    def _of_child(self, run: str, child: Child) -> Cells:
        return Cells(run, child, self.children)

    def apply(self, event: Event) -> None:
        """Take in an event."""
        with self._lock:
            if isinstance(event, ChildReported):
                if not event.iteration and event.parent not in self.children and self._samples is None:
                    self._sampled()
                self.children.apply(event)
                self.facts.wait(event.event)
                return
            self.facts.apply(event)
            self._apply(event)

    def fail(self, message: str = "") -> None:
        """End, because nothing more will come: the host failed."""
        with self._lock:
            self.facts.fail(message)
            self._settle()
            self._cells.close("failed", self.facts.iteration)
            if self._child is None:
                self.children.fail()

    def amend(self, source: str) -> None:
        """Take a person's edit of the cell that waits: it shows from now on what is executed."""
        with self._lock:
            for cell in self._cells:
                if cell.status == "proposed":
                    cell.source, cell.is_amended = source, True
                    self._cells.mark(cell)

    @property
    def is_behind(self) -> bool:
        """Something was left for the next time, though nothing happens until then."""
        return self._subcalls.is_behind

    @property
    def proposed(self) -> str | None:
        """The id of the cell that waits for a person, if one does."""
        with self._lock:
            return next((cell.id for cell in self._cells if cell.status == "proposed"), None)

    def source(self, cell_id: str) -> str | None:
        """Return what a code cell of this run says; `None`: it is none."""
        with self._lock:
            cells = self.children.woven(list(self._cells))
            found = next((cell for cell in cells if cell.id == cell_id and cell.role == "code"), None)
            return None if found is None else sanitize.plain(found.source)

    def position_of(self, cell_id: str) -> CellPosition | None:
        """Return iteration and block of a code cell of this run's own, not of a child's; `None`: it is none."""
        with self._lock:
            found = next((cell for cell in self._cells if cell.id == cell_id and cell.role == "code"), None)
            return None if found is None else (found.iteration, found.block)

    def show_child(self, child_id: str, *, is_open: bool) -> None:
        """Show a child's own cells, or no longer; one that is not known, or not kept, is passed over."""
        with self._lock:
            if not is_open:
                self.children.hide(child_id)
            path = self.children.file(child_id) if is_open and self.children.show(child_id) else None
        if path is not None:
            records = read(path, child_id)
            with self._lock:
                self.children.fill(child_id, records)

    def settled(self) -> list[LiveCell]:
        """Return the cells as they are now, in order."""
        with self._lock:
            self._replies.arrive()
            self._subcalls.refresh(all_of_them=True)
            return list(self._cells)

    def pull(self) -> dict[str, LiveCell]:
        """Return the cells that are new or other since the last time."""
        with self._lock:
            return self._cells.pull()[1]

    def take(self) -> list[Item]:
        """Return what is new since the last time."""
        with self._lock:
            self._replies.arrive()
            self._subcalls.refresh()
            self.children.keep(self.facts.notebook)
            order = self.children.woven(list(self._cells))
            gone, dirty = self._cells.pull()
            gone_below, dirty_below = self.children.pull(order)
            items: list[Item] = [{"item": "gone", "id": cell_id} for cell_id in gone + gone_below]
            indices = {cell.id: index for index, cell in enumerate(order)}
            for cell in sorted((dirty_below | dirty).values(), key=lambda cell: indices[cell.id]):
                items += cell.news(order[indices[cell.id] - 1].id if indices[cell.id] else None)
            items += self.children.news(order)
            if (facts := self.facts.told()) != self._told_facts:
                self._told_facts = facts
                items.append({"item": "run", "facts": facts, "elapsed": self.facts.elapsed})
            if self.facts.outcome is not None and items:
                items.append({"item": "end", "ids": [cell.id for cell in order]})
            return items

    def snapshot(self, known: Collection[str] = ()) -> Item:
        """Return everything, for a page that has missed something.

        Parameters
        ----------
        known
            The ids of cells that the page has as they were told when they were done; they are left out.
        """
        with self._lock:
            self._subcalls.refresh(all_of_them=True)
            order = self.children.woven(list(self._cells))
            afters = [None, *(cell.id for cell in order)]
            cells = [
                cell.whole(after)
                for cell, after in zip(order, afters, strict=False)
                if not (cell.id in known and cell.is_done and cell.role not in {"subcalls", "boundary"})
            ]
            ids = [cell.id for cell in order]
            return {
                "ids": ids,
                "cells": cells,
                "facts": self.facts.told(),
                "children": self.children.told(order),
                "elapsed": self.facts.elapsed,
            }

    def _apply(self, event: Event) -> None:
        code = self._replies.code
        match event:
            case ReplyStreamed(iteration=index, text=text):
                self._replies.stream(index, text)
            case ReplyReceived():
                self._replies.receive(event)
            case CellProposed(iteration=index, block=block, source=source):
                cell = code(index, block, source)
                cell.status = "proposed"
                cell.facts.pop("undoes", None)  # where it is proposed again, as that could not be done
                cell.facts |= {"undoes": code(*event.undoes).id} if event.undoes else {}
                cell.facts |= {"no_undo": event.no_undo} if event.no_undo else {}
            case CellDecided(iteration=index, block=block):
                code(index, block).status = "writing"
            case CellStarted(iteration=index, block=block, source=source):
                cell = code(index, block, source)
                cell.status = "running"
                cell.facts |= {"started": _now()} if self.is_live else {}
            case OutputChanged(iteration=index, block=block, outputs=made):
                code(index, block).made = made
            case CellFinished():
                cell = code(event.iteration, event.block, event.source)
                cell.made, cell.execution_count, cell.status = event.outputs, event.execution_count, event.status
                cell.facts |= {"seconds": round(event.seconds, 3)} | ({"ended": _now()} if self.is_live else {})
                self._subcalls.finish(cell)
            case _:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        """Follow what comes of cells: sub-calls, notices, the answer."""
        match event:
            case SubcallStarted(iteration=index, block=block):
                self._subcalls.start(event, self._replies.code(index, block))
            case SubcallSettled(iteration=index, block=block):
                self.children.settle(event, None if self._child is None else self._child.id)
                self._subcalls.settle(event, self._replies.code(index, block))
            case SampleSettled() | DirectReplied():
                self._attempts.append(event)
                cell = self._samples or self._sampled()
                cell.source = markdown(self._attempts)
                self.children.settle_sample(event)
                self._cells.mark(cell)
            case NoticeGiven(iteration=index, undoes=undone):
                if undone:
                    self._replies.code(undone[0], undone[1]).status = "undone"
                self._cells.note(index, quoted_notice(event))
            case ConversationCompacted(iteration=index):
                self._cells.note(index, compacted_notice(event))
            case RunStarted():
                self._cells.open(event)
            case RunEnded(answer=answer, iteration=index, stop_reason=outcome):
                self._settle()
                if answer is not None:
                    source = f"**Answer**\n\n{answer_markdown(event)}"
                    self._cells.add(self._cells.new("answer", index, source=source, status="ok"))
                self._cells.close(outcome, self.facts.iteration)
            case RunResumed(iteration=index):
                self._cells.reopen()
                self._cells.note(index, f"> {resumed_notice(event)}")
            case _:  # what only the numbers show
                pass

    def _sampled(self) -> LiveCell:
        """Add the cell for the other samples, above the iterations: their own cells are shown below it."""
        cell = self._samples = self._cells.new("subcalls", 0, source="Other samples", status="ok")
        self._cells.add(cell, self._cells.first if self._cells.is_open else None)
        return cell

    def _settle(self) -> None:
        """Close what is there: nothing of it will change any more."""
        self._replies.close()
        self._cells.settle(self._cells)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
