"""`Cells`: a run folded into the cells that a page shows while it goes on; it knows no front end.

`take` tells what is new since the last time, as items of the protocol (`tests/support/protocol.json` has all of
them), and `snapshot` tells everything. A cell that is done is told whole: so a page that missed something
is right again with the next of them, whether or not it can ask.

Long because what an event does to the cells is read in one place: they share one order, and one set of changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rlm_jupyter.frontends.display import sanitize
from rlm_jupyter.frontends.live import subcall_cells
from rlm_jupyter.frontends.live.cell import Item, LiveCell
from rlm_jupyter.frontends.live.child import Child, within
from rlm_jupyter.frontends.live.children import Children, read
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.frontends.live.streaming import Part, arrived, arriving
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.attempts import Attempt, markdown
from rlm_jupyter.record.boundaries import CHILD_FIRST_LINE, CHILD_LAST_LINE, LAST_LINE, counted, live_opening
from rlm_jupyter.record.notice import (
    compacted_notice,
    quoted_notice,
    remark_on,
    resampled_notice,
    resumed_notice,
)
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


@dataclass(slots=True)
class _Reply:
    """A reply: one that its iteration executes, or one that still arrives."""

    iteration: int
    text: str = ""
    cells: list[LiveCell] = field(default_factory=list)
    """What it consists of, prose and code."""


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
        self._within = within(child)
        self.is_live = True
        """What comes happens now; else it is only told now, and nobody knows when it was."""
        self.facts = RunFacts()
        self._lock = threading.Lock()
        self._order: list[LiveCell] = []
        self._replies: dict[int, _Reply] = {}
        """By iteration, the replies that are executed: what a cell puts out belongs to one of these."""
        self._draft: _Reply | None = None
        """The reply that arrives. It may be rejected, or be the forced one, which has the last iteration's number:
        it must not touch the cells of a reply that was executed."""
        self._has_grown = False
        """There is more of the draft than its cells show."""
        self._settled: dict[tuple[int, int], list[SubcallSettled]] = {}
        self.is_behind = False
        """Something was left for the next time, though nothing happens until then."""
        self._asking: dict[str, tuple[int, int]] = {}
        """Cells of sub-calls whose lists are not as they should be, and the cells that asked."""
        self._listed: dict[str, float] = {}
        """When those lists were made last that will become others."""
        self._waiting: dict[tuple[int, int], dict[int, SubcallStarted]] = {}
        """Sub-calls in flight, by the cell that asked and their ordinal there."""
        self._attempts: list[Attempt] = []
        self._samples: LiveCell | None = None
        """The cell for the other samples, and for what was answered before the first iteration."""
        self._dirty: dict[str, LiveCell] = {}
        self._gone: list[str] = []
        self._told_facts: dict[str, Any] = {}
        self._made = 0
        self._opening = ""
        """The line above the first of them, until there is one."""
        self._is_framed = False
        """It is there, and the one below them is to come."""
        self._frames: tuple[LiveCell, str, LiveCell] | None = None
        """Of a run that has ended: the line above its cells, what that said before, and the line below them."""

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
            self._close()
            self._frame("failed")
            if self._child is None:
                self.children.fail()

    def amend(self, source: str) -> None:
        """Take a person's edit of the cell that waits: it shows from now on what is executed."""
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
        """Return what a code cell of this run says; `None`: it is none."""
        with self._lock:
            cells = self.children.woven(self._order)
            found = next((cell for cell in cells if cell.id == cell_id and cell.role == "code"), None)
            return None if found is None else sanitize.plain(found.source)

    def position_of(self, cell_id: str) -> CellPosition | None:
        """Return iteration and block of a code cell of this run's own, not of a child's; `None`: it is none."""
        with self._lock:
            found = next((cell for cell in self._order if cell.id == cell_id and cell.role == "code"), None)
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
            self._arrive()
            self._list(all_of_them=True)
            return list(self._order)

    def pull(self) -> dict[str, LiveCell]:
        """Return the cells that are new or other since the last time."""
        with self._lock:
            dirty, self._dirty, self._gone = self._dirty, {}, []
            return dirty

    def take(self) -> list[Item]:
        """Return what is new since the last time."""
        with self._lock:
            self._arrive()
            self._list()
            self.children.keep(self.facts.notebook)
            order = self.children.woven(self._order)
            gone, dirty = self.children.pull(order)
            dirty |= self._dirty
            items: list[Item] = [{"item": "gone", "id": cell_id} for cell_id in self._gone + gone]
            indices = {cell.id: index for index, cell in enumerate(order)}
            for cell in sorted(dirty.values(), key=lambda cell: indices[cell.id]):
                items += cell.news(order[indices[cell.id] - 1].id if indices[cell.id] else None)
            self._gone, self._dirty = [], {}
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
            self._list(all_of_them=True)
            order = self.children.woven(self._order)
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

    def _arrive(self) -> None:
        """Make cells of what has arrived of a reply."""
        if self._has_grown and (draft := self._draft) is not None:
            # an iteration that has its reply gets no other but the forced one, and nothing in that one is executed
            is_forced = draft.iteration in self._replies
            self._see(draft, _as_prose(draft.text) if is_forced else arriving(draft.text))
        self._has_grown = False

    def _apply(self, event: Event) -> None:
        match event:
            case ReplyStreamed(iteration=index, text=text):
                self._arriving(index).text += text
                self._has_grown = True
            case ReplyReceived():
                self._receive(event)
            case CellProposed(iteration=index, block=block, source=source):
                self._code(index, block, source).status = "proposed"
            case CellDecided(iteration=index, block=block):
                self._code(index, block).status = "writing"
            case CellStarted(iteration=index, block=block, source=source):
                cell = self._code(index, block, source)
                cell.status = "running"
                cell.facts |= {"started": _now()} if self.is_live else {}
            case OutputChanged(iteration=index, block=block, outputs=made):
                self._code(index, block).made = made
            case CellFinished():
                self._finish(event)
            case _:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        """Follow what comes of cells: sub-calls, notices, the answer."""
        match event:
            case SubcallStarted(iteration=index, block=block, ordinal=ordinal):
                self._waiting.setdefault((index, block), {})[ordinal] = event
                self._subcalls(index, block)
            case SubcallSettled(iteration=index, block=block, ordinal=ordinal):
                self._waiting.get((index, block), {}).pop(ordinal, None)
                self.children.settle(event, None if self._child is None else self._child.id)
                self._settled.setdefault((index, block), []).append(event)
                self._subcalls(index, block)
            case SampleSettled() | DirectReplied():
                self._attempts.append(event)
                cell = self._samples or self._sampled()
                cell.source = markdown(self._attempts)
                self.children.settle_sample(event)
                self._mark(cell)
            case NoticeGiven(iteration=index):
                self._add(LiveCell(self._id(), "notice", index, source=quoted_notice(event), status="ok"))
            case ConversationCompacted(iteration=index):
                self._add(LiveCell(self._id(), "notice", index, source=compacted_notice(event), status="ok"))
            case RunStarted():
                self._opening = live_opening(event) if self._child is None else CHILD_FIRST_LINE
            case RunEnded(answer=answer, iteration=index, stop_reason=outcome):
                self._close()
                if answer is not None:
                    self._add(
                        LiveCell(
                            self._id(), "answer", index, source=f"**Answer**\n\n{answer_markdown(event)}", status="ok"
                        )
                    )
                self._frame(outcome)
            case RunResumed(iteration=index):
                self._unframe()
                self._add(LiveCell(self._id(), "notice", index, source=f"> {resumed_notice(event)}", status="ok"))
            case _:  # what only the numbers show
                pass

    def _unframe(self) -> None:
        """Take back the line below the cells of a run that goes on after its end: more of them come."""
        if self._frames is not None:
            first, said, last = self._frames
            first.source, self._frames, self._is_framed = said, None, True
            self._mark(first)
            self._drop(last)

    def _frame(self, outcome: str) -> None:
        """Add the line below the cells of a root that has some: wherever they are read, they are told from others."""
        if self._is_framed:
            self._is_framed = False
            end = LiveCell(self._id(), "boundary", 0, source=LAST_LINE, status="ok")
            first = self._order[0]
            self._frames = first, first.source, end
            if self._child is None:
                end.facts["outcome"] = outcome
                states = [cell.status for cell in self._order if cell.role == "code"]
                executed = sum(status != "skipped" for status in states)
                first.source = counted(first.source, self.facts.iteration, len(states), executed)
                self._mark(first)
            else:
                end.source = CHILD_LAST_LINE
            self._add(end)

    def _sampled(self) -> LiveCell:
        """Add the cell for the other samples, above the iterations: their own cells are shown below it."""
        cell = self._samples = LiveCell(self._id(), "subcalls", 0, source="Other samples", status="ok")
        self._add(cell, self._order[0] if self._is_framed else None)
        return cell

    def _receive(self, event: ReplyReceived) -> None:
        reply = self._arriving(event.iteration)
        self._draft = None
        if event.rejected:
            for cell in reply.cells:
                self._drop(cell)
            self._resampled(event)
            return
        self._see(reply, _as_prose(event.text) if event.forced else arrived(event.text))
        if not event.forced:
            self._replies[event.iteration] = reply
        if remark := remark_on(event):
            self._add(LiveCell(self._id(), "notice", event.iteration, source=f"> {remark}", status="ok"))
        for cell in reply.cells:
            if cell.role == "prose":
                cell.status = "ok"
                self._mark(cell)
        if reply.cells:
            reply.cells[0].facts |= {
                "model": event.model,
                "tokens": event.usage.total_tokens,
                "cost": event.cost,
                "seconds": round(event.seconds, 3),
            }

    def _resampled(self, event: ReplyReceived) -> None:
        """Say why a reply was rejected, and how often in a row: in one cell, as long as the reason stays the same."""
        notice, before = (f"> {line}" for line in resampled_notice(event.rejected))
        for cell in self._order:
            if (cell.role, cell.iteration, cell.source) == ("notice", event.iteration, before):
                cell.source = notice
                self._mark(cell)
                return
        self._add(LiveCell(self._id(), "notice", event.iteration, source=notice, status="ok"))

    def _see(self, reply: _Reply, parts: list[Part]) -> None:
        """Make the cells of a reply be these; those that fit stay."""
        index, same = reply.iteration, 0
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
        cell.facts |= {"seconds": round(event.seconds, 3)} | ({"ended": _now()} if self.is_live else {})
        position = event.iteration, event.block
        if position in self._settled or position in self._waiting:
            self._waiting[position] = {}  # what was cancelled with the cell never settles
            self._subcalls(*position, done=True)

    def _subcalls(self, index: int, block: int, *, done: bool = False) -> None:
        asking = self._code(index, block)
        cell = next((c for c in self._order if c.role == "subcalls" and (c.iteration, c.block) == (index, block)), None)
        if cell is None:
            cell = LiveCell(self._id(), "subcalls", index, block)
            self._add(cell, asking)
        cell.facts["of"] = asking.id
        cell.status = "ok" if done else "writing"
        self._asking[cell.id] = index, block

    def _list(self, *, all_of_them: bool = False) -> None:
        """List the sub-calls in their cells: now and then while they come, for the list is long and always new."""
        now = time.monotonic()
        self.is_behind = False
        for cell in [cell for cell in self._order if cell.id in self._asking] if self._asking else []:
            settled = self._settled.get(self._asking[cell.id], [])
            since = now - self._listed.get(cell.id, 0.0)
            if not all_of_them and not cell.is_done and since < subcall_cells.rest(settled):
                self.is_behind = True
                continue
            waiting = self._waiting.get(self._asking.pop(cell.id), {})
            self._listed[cell.id] = now
            cell.source = subcall_cells.markdown(settled, len(waiting))
            cell.facts = {"calls": subcall_cells.facts(settled), "of": cell.facts["of"]}
            if waiting:
                cell.facts |= {"flight": subcall_cells.in_flight(waiting.values()), "in_flight": len(waiting)}
            self._mark(cell)

    def _code(self, index: int, block: int, source: str | None = None) -> LiveCell:
        """Return the n-th code cell of an iteration; one that was made of a FINAL in prose comes after the others."""
        reply = self._reply(index)
        code = [cell for cell in reply.cells if cell.role == "code"]
        while len(code) <= block:
            cell = LiveCell(self._id(), "code", index, len(code), source or "")
            self._add(cell, reply.cells[-1] if reply.cells else None)
            reply.cells.append(cell)
            code.append(cell)
        cell = code[block]
        if source is not None and not cell.is_amended:
            cell.source = source
        self._mark(cell)
        return cell

    def _reply(self, index: int) -> _Reply:
        """Return the reply that an iteration executes."""
        if index not in self._replies:
            self._replies[index], self._draft = self._arriving(index), None
        return self._replies[index]

    def _arriving(self, index: int) -> _Reply:
        """Return the reply that arrives for an iteration; another one that has not ended never will."""
        if self._draft is None or self._draft.iteration != index:
            if self._draft is not None:
                self._arrive()
                self._settle(self._draft.cells)
            self._draft, self._has_grown = _Reply(index), False
        return self._draft

    def _close(self) -> None:
        """Close what is there: nothing of it will change any more."""
        self._draft, self._has_grown = None, False
        self._settle(self._order)

    def _settle(self, cells: list[LiveCell]) -> None:
        """End those cells that are still open."""
        for cell in cells:
            if not cell.is_done:
                cell.status = "ok" if cell.role != "code" else "interrupted" if cell.made else "skipped"
                self._mark(cell)

    def _add(self, cell: LiveCell, after: LiveCell | None = None) -> None:
        if self._opening:
            line, self._opening, self._is_framed = self._opening, "", True
            self._add(LiveCell(self._id(), "boundary", 0, source=line, status="ok"))
        index = len(self._order) if after is None else self._order.index(after) + 1
        # the sub-calls of a cell stay right below it
        while after is not None and index < len(self._order) and self._order[index].role == "subcalls":
            if cell.role == "subcalls":
                break
            index += 1
        self._order.insert(index, cell)
        cell.within = self._within
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


def _as_prose(text: str) -> list[Part]:
    return [("markdown", text.strip())] if text.strip() else []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
