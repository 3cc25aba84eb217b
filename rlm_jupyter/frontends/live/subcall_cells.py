"""`SubcallCells`: the sub-calls of a run's cells, listed in a Markdown cell each, and for the side panel."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rlm_jupyter.frontends.live.cell import LiveCell
from rlm_jupyter.frontends.live.cell_list import CellList
from rlm_jupyter.record import subcall_list
from rlm_jupyter.record.escaped import head
from rlm_jupyter.record.subcall_list import SHOWN
from rlm_jupyter.record.subcall_texts import Excerpts
from rlm_jupyter.types.events import SubcallSettled, SubcallStarted

_FLYING = 8
"""Sub-calls in flight that are listed."""
_REST_SECONDS = 0.01
"""For each one that is listed: so long the list stays as it is, since all of it is told and drawn anew."""
_AT_ONCE = 10
"""As many make no list that is long."""
_TEXTS = Excerpts("Open Run, in the bar, opens the run's own notebook, which has them")


class SubcallCells:
    """The lists of sub-calls, below the cells that asked."""

    def __init__(self, cells: CellList) -> None:
        self._cells = cells
        self.is_behind = False
        """Something was left for the next time, though nothing happens until then."""
        self._settled: dict[tuple[int, int], list[SubcallSettled]] = {}
        self._waiting: dict[tuple[int, int], dict[int, SubcallStarted]] = {}
        """Sub-calls in flight, by the cell that asked and their ordinal there."""
        self._asking: dict[str, tuple[int, int]] = {}
        """Cells of sub-calls whose lists are not as they should be, and the cells that asked."""
        self._listed: dict[str, float] = {}
        """When those lists were made last that will become others."""

    def start(self, call: SubcallStarted, asking: LiveCell) -> None:
        """Take in that a cell asks."""
        self._waiting.setdefault((call.iteration, call.block), {})[call.ordinal] = call
        self._outdate(asking)

    def settle(self, call: SubcallSettled, asking: LiveCell) -> None:
        """Take in what came of it."""
        position = call.iteration, call.block
        self._waiting.get(position, {}).pop(call.ordinal, None)
        self._settled.setdefault(position, []).append(call)
        self._outdate(asking)

    def finish(self, asking: LiveCell) -> None:
        """Take in that a cell has ended."""
        position = asking.iteration, asking.block
        if position in self._settled or position in self._waiting:
            self._waiting[position] = {}  # what was cancelled with the cell never settles
            self._outdate(asking, done=True)

    def refresh(self, *, all_of_them: bool = False) -> None:
        """List the sub-calls in their cells: now and then while they come, for the list is long and always new."""
        now = time.monotonic()
        self.is_behind = False
        for cell in [cell for cell in self._cells if cell.id in self._asking] if self._asking else []:
            settled = self._settled.get(self._asking[cell.id], [])
            since = now - self._listed.get(cell.id, 0.0)
            if not all_of_them and not cell.is_done and since < _rest(settled):
                self.is_behind = True
                continue
            waiting = self._waiting.get(self._asking.pop(cell.id), {})
            self._listed[cell.id] = now
            cell.source = subcall_list.markdown(settled, len(waiting), _TEXTS)
            cell.facts = {"calls": _facts(settled), "of": cell.facts["of"]}
            if waiting:
                cell.facts |= {"flight": _in_flight(waiting.values()), "in_flight": len(waiting)}
            self._cells.mark(cell)

    def _outdate(self, asking: LiveCell, *, done: bool = False) -> None:
        """Have the list of a cell's sub-calls made anew."""
        position = asking.iteration, asking.block
        lists = (cell for cell in self._cells if cell.role == "subcalls")
        cell = next((cell for cell in lists if (cell.iteration, cell.block) == position), None)
        if cell is None:
            cell = self._cells.new("subcalls", *position)
            self._cells.add(cell, asking)
        cell.facts["of"] = asking.id
        cell.status = "ok" if done else "writing"
        self._asking[cell.id] = position


def _rest(settled: Sequence[SubcallSettled]) -> float:
    """Return how many seconds the list need not be made anew."""
    return 0.0 if len(settled) <= _AT_ONCE else _REST_SECONDS * min(len(settled), SHOWN)


def _facts(settled: Sequence[SubcallSettled]) -> list[dict[str, Any]]:
    """Return the same for programs, and for the side panel; bounded."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "tokens": call.usage.total_tokens,
            "cost": call.cost,
            "seconds": round(call.seconds, 3),
            "failed": call.failed,
            "child": call.child,
            "prompt": head(call.prompt_head),
        }
        for call in settled[:SHOWN]
    ]


def _in_flight(started: Iterable[SubcallStarted]) -> list[dict[str, Any]]:
    """Return those that were not answered yet, the oldest of them."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "prompt": head(call.prompt_head),
        }
        for call in islice(started, _FLYING)
    ]
