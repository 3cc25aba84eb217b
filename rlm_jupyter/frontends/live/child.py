"""`Child`: one child of a run as a page is told of it, and what happened in it, by reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlm_jupyter.frontends.live.cell import Item, LiveCell
from rlm_jupyter.frontends.live.facts import RunFacts, page_path
from rlm_jupyter.types.events import (
    CellFinished,
    CellStarted,
    Event,
    OutputChanged,
    Record,
    ReplyReceived,
    ReplyStreamed,
)


class ChildCells(Protocol):
    """The cells of a child that somebody has opened (`cells.Cells`)."""

    is_live: bool

    def apply(self, event: Event) -> None:
        """Take in an event."""

    def fail(self, message: str = "") -> None:
        """Take note that nothing more will come."""

    def settled(self) -> list[LiveCell]:
        """Return the cells as they are now, in order."""

    def pull(self) -> dict[str, LiveCell]:
        """Return the cells that are new or other since the last time."""

    def source(self, cell_id: str) -> str | None:
        """Return what a code cell says; `None`: it is none."""


@dataclass
class Child:
    """One child: which sub-call it answers, what it is at, and what happened in it."""

    id: str
    """Its run id."""
    parent: str | None
    """Its parent's run id; `None`: the root."""
    depth: int
    number: str
    """For people: the n-th child of its parent, `2`, and that one's third, `2.3`."""
    iteration: int
    block: int
    ordinal: int
    path: Path | None = None
    facts: RunFacts = field(default_factory=RunFacts)
    is_open: bool = False
    cells: ChildCells | None = None
    """While somebody looks."""
    is_lost: bool = False
    """It can't be opened any more."""
    born: int = 0
    """How many children it has."""
    told: Item | None = None
    events: list[Event] | None = field(default_factory=list)
    """What happened, as short as it can be said; `None`: not kept here."""
    _cell: int = 0
    """Where the events of the cell under way begin."""
    _output: int | None = None
    _file: dict[str, str | None] | None = None

    def apply(self, event: Event) -> None:
        """Take in an event of its own."""
        self.facts.apply(event)
        if self.events is not None:
            self._keep(self.events, event)
        if self.cells is not None:
            self.cells.apply(event)

    def _keep(self, events: list[Event], event: Event) -> None:
        match event:
            case OutputChanged():
                if self._output is not None:
                    events[self._output] = event
                    return
                self._output = len(events)
            case CellStarted():
                self._cell, self._output = len(events), None
            case ReplyReceived():
                while events and isinstance(events[-1], ReplyStreamed):
                    events.pop()
            case CellFinished():
                events[self._cell :] = [other for other in events[self._cell :] if isinstance(other, Record)]
                self._cell, self._output = len(events) + 1, None
        events.append(event)

    def _page_path(self) -> dict[str, str | None] | None:
        if self._file is None and self.path is not None:
            self._file = page_path(self.path)
        return self._file

    def summary(self, of: str | None, *, is_kept: bool) -> Item:
        """Return it as the page gets it.

        Parameters
        ----------
        of
            The cell of sub-calls that it belongs below, if that one is shown.
        is_kept
            Whether it can be opened.
        """
        told = self.facts.told()
        return {
            "id": self.id,
            "of": of,
            "parent": self.parent,
            "number": self.number,
            "sample": self.ordinal + 1 if not self.iteration else None,
            "depth": self.depth,
            "ordinal": self.ordinal,
            "phase": told["phase"],
            "iteration": told["iteration"],
            "outcome": told["outcome"],
            "tokens": told["input_tokens"] + told["output_tokens"],
            "cost": told["cost"],
            "seconds": told["seconds"],
            "file": self._page_path(),
            "open": self.is_open,
            "kept": is_kept,
        }


def within(child: Child | None) -> dict[str, Any]:
    """Return what the facts of each of its cells say of a child."""
    return {} if child is None else {"child": child.id, "depth": child.depth}
