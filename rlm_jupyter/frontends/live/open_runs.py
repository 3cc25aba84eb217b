"""The runs of this session that a page can still ask for all they had, by the ids of their comms."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from rlm_jupyter.frontends.live.cells import Cells

_MOST_KEPT = 16
"""Runs that are over and can still be asked for all they had."""


class OpenRun(Protocol):
    """What is kept (`comm.LiveRun`)."""

    cells: Cells
    running: object | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        ...

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the page."""

    def close(self) -> None:
        """Close its comm."""


_runs: OrderedDict[str, OpenRun] = OrderedDict()


def by_comm(comm_id: str) -> OpenRun | None:
    """Return the run with this comm; a page that was reloaded may name one that is not known any more."""
    return _runs.get(comm_id)


def by_cell(cell_id: str) -> OpenRun | None:
    """Return the run that wrote a live code cell of this session, by the cell's id."""
    return next((run for run in list(_runs.values()) if run.cells.source(cell_id) is not None), None)


def free_id(target: str, cell_id: str) -> str:
    """Find a comm id for a cell: the same again once its last run is over, as a reloaded page knows it."""
    comm_id, number = f"{target}-{cell_id}", 1
    while (run := _runs.get(comm_id)) is not None:
        if run.is_over:
            _runs.pop(comm_id).close()
            break
        number += 1
        comm_id = f"{target}-{cell_id}-{number}"
    return comm_id


def keep(comm_id: str, run: OpenRun) -> None:
    """Keep a run, and close the oldest ones that are over."""
    _runs[comm_id] = run
    over = [name for name, kept in _runs.items() if kept.is_over]
    for name in over[: max(len(_runs) - _MOST_KEPT, 0)]:
        _runs.pop(name).close()
