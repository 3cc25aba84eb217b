"""`usage`: the help of a magic as a reader needs it: what it does, how it is written, its options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F", bound=Callable[..., object])
_OPTIONS = "positional arguments:"


def usage(*lines: str) -> Callable[[_F], _F]:
    """Put what a magic does first in its help, then these lines of usage.

    IPython's own begins with `::` and all options in a row, and has the name of a line magic for the cell magic, too.
    """

    def told(magic: _F) -> _F:
        described = inspect.cleandoc(vars(magic)["parser"].description)
        _, heading, options = (magic.__doc__ or "").partition(_OPTIONS)
        written = textwrap.indent("\n".join(lines), "  ")
        magic.__doc__ = f"{described}\n\nUsage:\n\n{written}\n\n{heading}{options}"
        return magic

    return told
