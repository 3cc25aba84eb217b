"""`CellList`: the live cells of a run in their order, and which of them are new or other since the last time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rlm_jupyter.frontends.live.cell import LiveCell, Role, Status
from rlm_jupyter.record.boundaries import CHILD_FIRST_LINE, CHILD_LAST_LINE, LAST_LINE, counted, live_opening
from rlm_jupyter.types.events import RunStarted


class CellList:
    """The cells of one run, between the line above them and, once it has ended, the one below them.

    Parameters
    ----------
    run
        A short id, for the ids of the cells.
    within
        Facts that all of them have; empty for those of a root.
    """

    def __init__(self, run: str, within: dict[str, Any]) -> None:
        self._run = run
        self._within = within
        self._cells: list[LiveCell] = []
        self._dirty: dict[str, LiveCell] = {}
        self._gone: list[str] = []
        self._made = 0
        self._opening = ""
        """The line above the first of them, until there is one."""
        self.is_open = False
        """It is there, and the one below them is to come."""
        self._frame: tuple[LiveCell, str, LiveCell] | None = None
        """Of a run that has ended: the line above its cells, what that said before, and the line below them."""

    def __iter__(self) -> Iterator[LiveCell]:
        return iter(self._cells)

    @property
    def first(self) -> LiveCell:
        """The line above the others, where there is one."""
        return self._cells[0]

    def new(self, role: Role, iteration: int, block: int = 0, source: str = "", status: Status = "writing") -> LiveCell:
        """Return a cell with the next id, which is not among them yet."""
        self._made += 1
        return LiveCell(f"rlm-{self._run}-{self._made}", role, iteration, block, source, status=status)

    def add(self, cell: LiveCell, after: LiveCell | None = None) -> None:
        """Add a cell, at the end or below another."""
        if self._opening:
            line, self._opening, self.is_open = self._opening, "", True
            self.add(self.new("boundary", 0, source=line, status="ok"))
        index = len(self._cells) if after is None else self._cells.index(after) + 1
        # the sub-calls of a cell stay right below it
        while after is not None and index < len(self._cells) and self._cells[index].role == "subcalls":
            if cell.role == "subcalls":
                break
            index += 1
        self._cells.insert(index, cell)
        cell.within = self._within
        self.mark(cell)

    def note(self, iteration: int, source: str) -> None:
        """Add a notice."""
        self.add(self.new("notice", iteration, source=source, status="ok"))

    def drop(self, cell: LiveCell) -> None:
        """Take a cell away."""
        self._cells.remove(cell)
        self._dirty.pop(cell.id, None)
        if cell.told is not None:
            self._gone.append(cell.id)

    def mark(self, cell: LiveCell) -> None:
        """Note that a cell has changed."""
        self._dirty[cell.id] = cell

    def settle(self, cells: Iterable[LiveCell]) -> None:
        """End those of these cells that are still open."""
        for cell in cells:
            if not cell.is_done:
                cell.status = "ok" if cell.role != "code" else "interrupted" if cell.made else "skipped"
                self.mark(cell)

    def pull(self) -> tuple[list[str], dict[str, LiveCell]]:
        """Return since the last time the ids of those that are gone, and those that are new or other, by their ids."""
        gone, dirty = self._gone, self._dirty
        self._gone, self._dirty = [], {}
        return gone, dirty

    def open(self, started: RunStarted) -> None:
        """Have a line above the first cell, once there is one."""
        self._opening = CHILD_FIRST_LINE if self._within else live_opening(started)

    def close(self, outcome: str, iterations: int) -> None:
        """Add the line below the cells of a run that has some: wherever they are read, they are told from others."""
        if not self.is_open:
            return
        self.is_open = False
        end = self.new("boundary", 0, source=LAST_LINE, status="ok")
        self._frame = self.first, self.first.source, end
        if self._within:
            end.source = CHILD_LAST_LINE
        else:
            end.facts["outcome"] = outcome
            states = [cell.status for cell in self._cells if cell.role == "code"]
            executed = sum(status != "skipped" for status in states)
            self.first.source = counted(self.first.source, iterations, len(states), executed)
            self.mark(self.first)
        self.add(end)

    def reopen(self) -> None:
        """Take back the line below the cells of a run that goes on after its end: more of them come."""
        if self._frame is not None:
            first, said, last = self._frame
            first.source, self._frame, self.is_open = said, None, True
            self.mark(first)
            self.drop(last)
