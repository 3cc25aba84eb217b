"""What somebody has changed in the notebook of a run: cells of their own, edited sources, other outputs."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.record.notebook_cell import joined


def cells_of(notebook: bytes) -> list[dict[str, Any]] | None:
    """Return the cells of a notebook's file; `None` where it is no notebook."""
    try:
        cells = json.loads(notebook)["cells"]
    except (ValueError, LookupError, TypeError):
        return None
    is_sound = isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells)
    return cells if is_sound else None


def source_in(cell: dict[str, Any]) -> str:
    """Return the source of a cell, which a file has as a text or as lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source))


def is_changed(found: bytes, ours: bytes) -> bool:
    """Tell whether a run's notebook, as found, has anything that was not written by the run.

    Parameters
    ----------
    found
        The file; it may be behind the run.
    ours
        What the run would write now.
    """
    theirs, own = cells_of(found), cells_of(ours)
    if theirs is None or own is None:
        return True
    by_id = {cell["id"]: cell for cell in own}
    return any(_is_changed(cell, by_id.get(cell.get("id", ""))) for cell in theirs)


def _is_changed(cell: dict[str, Any], own: dict[str, Any] | None) -> bool:
    if own is None or cell.get("cell_type") != own["cell_type"]:
        return True
    if source_in(cell) != source_in(own):
        # a list of sub-calls grows with the run: a shorter one is behind
        is_list = own["metadata"].get("rlm", {}).get("role") == "subcalls"
        return not (is_list and source_in(cell).startswith("<details><summary>") and "\n" not in source_in(cell))
    outputs = cell.get("outputs") or []
    try:
        # without any, the cell had not been executed yet
        return bool(outputs) and list(map(joined, outputs)) != list(map(joined, own["outputs"]))
    except (LookupError, TypeError, AttributeError):
        return True
