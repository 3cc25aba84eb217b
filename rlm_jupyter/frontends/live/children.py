"""`Children`: what a page is told of a run's children, and the cells of those that somebody has opened.

Nobody looks at most of them. So of each there are a few numbers, and its events by reference, less those that a
later one has made superfluous; they are folded into cells only when the page asks for it. Once a child is over,
its record is on disk beside its parent's, and is read from there.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rlm_jupyter.frontends.live.cell import Item, LiveCell
from rlm_jupyter.frontends.live.child import Child, ChildCells
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import (
    ChildReported,
    DirectReplied,
    Event,
    Record,
    RunEnded,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import StopReason

MOST_KEPT = 32
"""Children that are over and are saved nowhere: so many can still be opened."""
log = logging.getLogger(__name__)


class Children:
    """The children of a run, at every depth. Whoever calls holds the lock of the root's cells.

    Parameters
    ----------
    run
        The id in the root's cells.
    make
        Makes the cells of a child that is opened: given the id in its cells, and the child.
    """

    def __init__(self, run: str, make: Callable[[str, Child], ChildCells]) -> None:
        self._run = run
        self._make = make
        self._all: dict[str, Child] = {}
        self._born = 0
        self._dirty: dict[str, Child] = {}
        self._told: dict[str, LiveCell] = {}
        """The cells of children that the page has."""
        self._moved = False
        """One was opened or closed since the last time."""
        self._root: Path | None = None

    def keep(self, root: Path | None) -> None:
        """Name the root's notebook: the records of its children are beside it."""
        if root is not None and root != self._root:
            self._root, self._moved = root, bool(self._all)

    def apply(self, reported: ChildReported) -> None:
        """Take in what happened in one of them."""
        parent = reported.parent if reported.parent in self._all else None
        position = reported.iteration, reported.block, reported.ordinal
        child = self._child(reported.child, parent, position)
        child.path = reported.path
        child.apply(reported.event)
        self._dirty[child.id] = child
        if isinstance(reported.event, RunEnded):
            self._forget(child)

    def settle(self, settled: SubcallSettled, parent: str | None) -> None:
        """Take a sub-call that a child answered: of a run that is only shown again, this is all there is."""
        if settled.child is None or settled.child in self._all:
            return
        child = self._child(settled.child, parent, (settled.iteration, settled.block, settled.ordinal))
        child.events = None
        stop: StopReason = "failed" if settled.failed else "answered"
        child.facts.apply(RunEnded(stop, None, None, False, 0, settled.seconds, settled.usage, settled.cost))
        self._dirty[child.id] = child

    def settle_sample(self, settled: SampleSettled | DirectReplied) -> None:
        """Take a sample that has ended: of a run that is only shown again, this is all there is."""
        if isinstance(settled, DirectReplied) or settled.child in self._all:
            return
        child = self._child(settled.child, None, (0, 0, settled.sample - 1))
        child.events = None
        child.facts.apply(
            RunEnded(settled.stop_reason, None, None, False, 0, settled.seconds, settled.usage, settled.cost)
        )
        self._dirty[child.id] = child

    def __contains__(self, child_id: str) -> bool:
        return child_id in self._all

    def fail(self) -> None:
        """End all, because nothing more will come of any."""
        for child in self._all.values():
            if child.facts.outcome is None:
                child.facts.fail("")
                self._dirty[child.id] = child
                if child.cells is not None:
                    child.cells.fail()

    def show(self, child_id: str) -> bool:
        """Open a child; `True`: its record is to be read first (`read`), and given to `fill`."""
        child = self._all.get(child_id)
        if child is None or child.is_open or not self._is_kept(child):
            return False
        if child.events is None:
            return True
        self._fold(child, child.events)
        return False

    def hide(self, child_id: str) -> None:
        """Close a child; its own children's cells go with its own."""
        child = self._all.get(child_id)
        if child is not None and child.is_open:
            child.is_open, child.cells, self._moved = False, None, True
            self._dirty[child_id] = child

    def file(self, child_id: str) -> Path | None:
        """Return the notebook of a child."""
        child = self._all[child_id]
        if child.path is None and child.events is None and self._root is not None:
            # of a run that is only shown again nobody has said where its children are
            child.path = self._root.with_suffix(".rlm") / CHILDREN / f"{child_id.rpartition('-')[0]}.ipynb"
        return child.path

    def fill(self, child_id: str, records: Sequence[Record] | None) -> None:
        """Open a child with what was read of it; `None`: it could not be read."""
        child = self._all[child_id]
        if records is None:
            child.is_lost = True
            self._dirty[child_id] = child
        elif not child.is_open:
            child.facts = RunFacts()
            for record in records:
                child.facts.apply(record)
            self._fold(child, records)

    def woven(self, cells: Sequence[LiveCell], parent: str | None = None) -> list[LiveCell]:
        """Return a run's cells, with those of its open children below the sub-calls that they answer."""
        shown: list[LiveCell] = []
        below: dict[tuple[int, int], list[Child]] = {}
        for child in self._all.values():
            if child.cells is not None and child.parent == parent:
                below.setdefault((child.iteration, child.block), []).append(child)
        if not below:
            return list(cells)
        for cell in cells:
            shown.append(cell)
            if cell.role == "subcalls":
                for child in sorted(below.get((cell.iteration, cell.block), []), key=lambda child: child.ordinal):
                    if child.cells is not None:
                        shown += self.woven(child.cells.settled(), child.id)
        return shown

    def pull(self, woven: Sequence[LiveCell]) -> tuple[list[str], dict[str, LiveCell]]:
        """Return what changed in the cells of children: those that are gone, and those that are new or other."""
        if not self._told and not any(child.is_open for child in self._all.values()):
            return [], {}
        now = {cell.id: cell for cell in woven if cell.within}
        gone = [cell_id for cell_id in self._told if cell_id not in now]
        for cell_id in gone:
            self._told[cell_id].told = None
        dirty = {cell_id: cell for cell_id, cell in now.items() if cell_id not in self._told}
        for child in self._all.values():
            if child.cells is not None:
                dirty |= {cell_id: cell for cell_id, cell in child.cells.pull().items() if cell_id in now}
        self._told = now
        return gone, dirty

    def news(self, woven: Sequence[LiveCell]) -> Iterator[Item]:
        """Yield what is new in the numbers."""
        changed = list((self._all if self._moved else self._dirty).values())
        self._dirty, self._moved = {}, False
        if not changed:
            return
        for told in self._summaries(changed, woven):
            child = self._all[told["id"]]
            if told != child.told:
                child.told = told
                yield {"item": "child", "child": told}

    def told(self, woven: Sequence[LiveCell]) -> list[Item]:
        """Return all of them."""
        return self._summaries(list(self._all.values()), woven)

    def cells(self) -> Iterator[ChildCells]:
        """Return the cells of those that are open."""
        return (child.cells for child in self._all.values() if child.cells is not None)

    def _child(self, child_id: str, parent: str | None, position: tuple[int, int, int]) -> Child:
        if (child := self._all.get(child_id)) is None:
            above = self._all[parent] if parent is not None else None
            if above is None:
                self._born += 1
                number, depth = f"{self._born}", 1
            else:
                above.born += 1
                number, depth = f"{above.number}.{above.born}", above.depth + 1
            child = self._all[child_id] = Child(child_id, parent, depth, number, *position)
        return child

    def _forget(self, child: Child) -> None:
        """Forget what is on disk, or too much: a child is over."""
        if child.path is not None:
            child.events = None
            return
        over = [other for other in self._all.values() if other.events is not None and other.facts.outcome is not None]
        for other in over[: max(len(over) - MOST_KEPT, 0)]:
            other.events = None
            self._dirty[other.id] = other

    def _is_kept(self, child: Child) -> bool:
        return not child.is_lost and (child.events is not None or self.file(child.id) is not None)

    def _fold(self, child: Child, events: Sequence[Event]) -> None:
        # the same child has the same ids again: no page can have two of one cell
        digest = hashlib.sha256(f"{self._run}/{child.id}".encode()).hexdigest()[:8]
        cells = self._make(digest, child)
        cells.is_live = False  # nobody has noted when it was
        for event in list(events):
            cells.apply(event)
        cells.is_live = True
        if child.facts.outcome is not None:
            cells.fail()
        child.cells, child.is_open, self._moved = cells, True, True
        self._dirty[child.id] = child

    def _summaries(self, children: Sequence[Child], woven: Sequence[LiveCell]) -> list[Item]:
        below = {
            (cell.within.get("child"), cell.iteration, cell.block): cell.id for cell in woven if cell.role == "subcalls"
        }
        return [
            child.summary(below.get((child.parent, child.iteration, child.block)), is_kept=self._is_kept(child))
            for child in children
        ]


def read(path: Path, child_id: str) -> tuple[Record, ...] | None:
    """Return the record of a child; `None`, with a line in the log: it is not there, or another's."""
    try:
        trajectory = Trajectory.load(path)
        if trajectory.run_id == child_id:
            return trajectory.records
        log.warning("%s holds another run than %s.", path, child_id)
    except RecordError as error:
        log.warning("The record of a child can't be read: %s", error)
    return None
