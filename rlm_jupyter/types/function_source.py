"""`source_of`: what a function of the user's does, as it is written."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def source_of(function: Any) -> str:
    """Return the source of a function, a class or an object that can be called; else its name.

    What was given beforehand to a `functools.partial` is part of it; the functions that it calls are not.
    """
    parts = []
    while isinstance(function, functools.partial):
        parts.append(repr((function.args, function.keywords)))
        function = function.func
    if not hasattr(function, "__qualname__"):
        function = type(function)
    try:
        parts.append(inspect.getsource(function))
    except (OSError, TypeError):
        parts.append(function.__qualname__)
    return "\n".join(parts)
