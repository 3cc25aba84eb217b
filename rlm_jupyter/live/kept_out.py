"""Keeps Run All from running a model's cells in the reader's own kernel: they belong to another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rlm_jupyter.live.comm import written_by

_LIVE = re.compile(r"rlm-[0-9a-f]{8}-\d+")
"""The ids of live cells; no notebook's own look so."""
_SAYS = (
    "Not executed: a model wrote this cell, for the kernel of its run. It runs in the run's own notebook "
    "(in rlm_runs, unless you named another place), or here in a copy of the cell."
)


def keep_out(shell: Any) -> Callable[[list[str]], list[str]]:
    """An input transformer that takes out the source of live cells, unless somebody has edited them."""

    def transform(lines: list[str]) -> list[str]:
        kernel = getattr(shell, "kernel", None)
        if kernel is None:
            return lines
        cell_id = (kernel.get_parent().get("metadata") or {}).get("cellId")
        if not isinstance(cell_id, str) or not _LIVE.fullmatch(cell_id):
            return lines
        source = written_by(cell_id)
        if source is not None and source.strip() != "".join(lines).strip():
            return lines
        return [f"print({_SAYS!r})\n"]

    # it depends on the request, which asks of a cell's completeness don't
    transform.has_side_effects = True  # type: ignore[attr-defined]
    return transform
