"""`awaited`: turns a `%%rlm --here` cell into one that awaits the run.

A magic is a plain call: while it runs, so does nothing else in the kernel, and an `await` in a cell of the model
could not be served. Awaited, the kernel's own loop goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_CELL = re.compile(r"%%rlm\s+(.*\S)\s*$")
_LINE = re.compile(r"%rlm\s+(.*\S)\s*$")


def awaited(shell: Any, asks_here: Callable[[str], bool]) -> Callable[[list[str]], list[str]]:
    """Return an input transformer.

    Parameters
    ----------
    shell
        Where there is no kernel, or no `await`, nothing is changed: the magic says why it can't be.
    asks_here
        Whether the options at the beginning of a magic's line have `--here` among them.
    """

    def transform(lines: list[str]) -> list[str]:
        if not lines or "--here" not in lines[0] or not is_awaitable(shell):
            return lines
        if (cell := _CELL.match(lines[0])) and asks_here(cell[1]):
            return [_call(cell[1], "".join(lines[1:]))]
        alone = not "".join(lines[1:]).strip()
        if alone and (line := _LINE.match(lines[0])) and asks_here(line[1]):
            return [_call(line[1])]
        return lines

    return transform


def is_awaitable(shell: Any) -> bool:
    """Return whether a cell of this shell can await a run."""
    return getattr(shell, "kernel", None) is not None and bool(shell.autoawait)


def why_not_awaited(shell: Any) -> str:
    """Return why a magic with `--here` was called like any other, in one line."""
    if getattr(shell, "kernel", None) is None:
        return "--here needs a Jupyter kernel, and this is a terminal: leave --here out, or use a notebook."
    if not shell.autoawait:
        return "--here needs cells that can await: %autoawait asyncio, or leave --here out."
    return "--here goes with %%rlm, or with %rlm in a cell of its own."


def _call(*given: str) -> str:
    arguments = ", ".join(map(repr, given))
    return f"await get_ipython().magics_manager.registry['RLMMagics'].rlm_here({arguments})\n"
