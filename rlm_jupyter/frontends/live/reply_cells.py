"""`ReplyCells`: replies as they arrive and are executed, folded into cells of prose and code."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlm_jupyter.frontends.live.cell import LiveCell
from rlm_jupyter.frontends.live.cell_list import CellList
from rlm_jupyter.frontends.live.streaming import Part, arrived, arriving
from rlm_jupyter.record.notice import remark_on, resampled_notice
from rlm_jupyter.types.events import ReplyReceived


@dataclass(slots=True)
class _Reply:
    """A reply: one that its iteration executes, or one that still arrives."""

    iteration: int
    text: str = ""
    cells: list[LiveCell] = field(default_factory=list)
    """What it consists of, prose and code."""


class ReplyCells:
    """The cells that a run's replies consist of, among all of its cells."""

    def __init__(self, cells: CellList) -> None:
        self._cells = cells
        self._replies: dict[int, _Reply] = {}
        """By iteration, the replies that are executed: what a cell puts out belongs to one of these."""
        self._draft: _Reply | None = None
        """The reply that arrives. It may be rejected, or be the forced one, which has the last iteration's number:
        it must not touch the cells of a reply that was executed."""
        self._has_grown = False
        """There is more of the draft than its cells show."""

    def stream(self, index: int, text: str) -> None:
        """Take in a piece of the reply that arrives for an iteration."""
        self._arriving(index).text += text
        self._has_grown = True

    def arrive(self) -> None:
        """Make cells of what has arrived of a reply."""
        if self._has_grown and (draft := self._draft) is not None:
            # an iteration that has its reply gets no other but the forced one, and nothing in that one is executed
            is_forced = draft.iteration in self._replies
            self._see(draft, _as_prose(draft.text) if is_forced else arriving(draft.text))
        self._has_grown = False

    def receive(self, event: ReplyReceived) -> None:
        """Take in a whole reply."""
        reply = self._arriving(event.iteration)
        self._draft = None
        if event.rejected:
            for cell in reply.cells:
                self._cells.drop(cell)
            self._resampled(event)
            return
        self._see(reply, _as_prose(event.text) if event.forced else arrived(event.text))
        if not event.forced:
            self._replies[event.iteration] = reply
        if remark := remark_on(event):
            self._cells.note(event.iteration, f"> {remark}")
        for cell in reply.cells:
            if cell.role == "prose":
                cell.status = "ok"
                self._cells.mark(cell)
        if reply.cells:
            reply.cells[0].facts |= {
                "model": event.model,
                "tokens": event.usage.total_tokens,
                "cost": event.cost,
                "seconds": round(event.seconds, 3),
            }

    def code(self, index: int, block: int, source: str | None = None) -> LiveCell:
        """Return the n-th code cell of an iteration; one that was made of a FINAL in prose comes after the others."""
        reply = self._reply(index)
        code = [cell for cell in reply.cells if cell.role == "code"]
        while len(code) <= block:
            cell = self._cells.new("code", index, len(code), source or "")
            self._cells.add(cell, reply.cells[-1] if reply.cells else None)
            reply.cells.append(cell)
            code.append(cell)
        cell = code[block]
        if source is not None and not cell.is_amended:
            cell.source = source
        self._cells.mark(cell)
        return cell

    def close(self) -> None:
        """Close what is there: no more of a reply will arrive."""
        self._draft, self._has_grown = None, False

    def _resampled(self, event: ReplyReceived) -> None:
        """Say why a reply was rejected, and how often in a row: in one cell, as long as the reason stays the same."""
        notice, before = (f"> {line}" for line in resampled_notice(event.rejected))
        for cell in self._cells:
            if (cell.role, cell.iteration, cell.source) == ("notice", event.iteration, before):
                cell.source = notice
                self._cells.mark(cell)
                return
        self._cells.note(event.iteration, notice)

    def _see(self, reply: _Reply, parts: list[Part]) -> None:
        """Make the cells of a reply be these; those that fit stay."""
        index, same = reply.iteration, 0
        for (kind, source), cell in zip(parts, reply.cells, strict=False):
            if (kind == "code") is not (cell.role == "code"):
                break
            same += 1
            if cell.source != source:
                cell.source = source
                self._cells.mark(cell)
        for cell in reply.cells[same:]:
            self._cells.drop(cell)
        del reply.cells[same:]
        for kind, source in parts[same:]:
            block = sum(cell.role == "code" for cell in reply.cells)
            cell = self._cells.new("code" if kind == "code" else "prose", index, block, source)
            self._cells.add(cell, reply.cells[-1] if reply.cells else None)
            reply.cells.append(cell)

    def _reply(self, index: int) -> _Reply:
        """Return the reply that an iteration executes."""
        if index not in self._replies:
            self._replies[index], self._draft = self._arriving(index), None
        return self._replies[index]

    def _arriving(self, index: int) -> _Reply:
        """Return the reply that arrives for an iteration; another one that has not ended never will."""
        if self._draft is None or self._draft.iteration != index:
            if self._draft is not None:
                self.arrive()
                self._cells.settle(self._draft.cells)
            self._draft, self._has_grown = _Reply(index), False
        return self._draft


def _as_prose(text: str) -> list[Part]:
    return [("markdown", text.strip())] if text.strip() else []
