"""How IPython shows an error of this package: its text, and the line of the user's cell that it ended.

The frames between the two are ours; the reader can change none of them, and they hide the sentence that says what to
do. IPython asks an exception that has `_render_traceback_`, and prints causes and contexts only by itself.
`%xmode Verbose` asks for all frames, and gets them.
"""

from __future__ import annotations

import functools
import linecache
import sys
import traceback
from collections.abc import Iterator
from typing import Any

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def shown_in_short(error: BaseException) -> BaseException:
    """Have IPython show an error of another's class as one of ours; return it."""
    error.__dict__["_render_traceback_"] = functools.partial(rendered, error)
    return error


def rendered(error: BaseException, *, whole: bool = False) -> list[str]:
    """Return the lines that IPython shows of `error`.

    Parameters
    ----------
    whole
        With all frames and causes, as of any other error.
    """
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if shell is not None and (whole or getattr(shell.InteractiveTB, "mode", "") == "Verbose"):
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return lines
    if shell is None:
        return traceback.format_exception(error)
    return [f"{_RED}{type(error).__name__}{_PLAIN}: {' '.join(str(error).split())}", *_cell_lines(error, shell)]


def _cell_lines(error: BaseException, shell: Any) -> Iterator[str]:
    """Yield where the error has left a cell, innermost last: a function of the user's may stand in another one."""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if frame.f_globals is not shell.user_global_ns or not linecache.getlines(name):
            continue
        place = shell.compile.format_code_name(name)
        where = " ".join(place) if place is not None else name
        yield f"  {where}, line {number}: {linecache.getline(name, number).strip()}"
