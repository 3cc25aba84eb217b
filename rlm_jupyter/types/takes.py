"""`takes`: whether a function of the user's can be called as it will be."""

from __future__ import annotations

from inspect import signature


def takes(function: object, count: int) -> bool:
    """Return whether something can be called with so many arguments; where nobody can tell, it can."""
    if not callable(function):
        return False
    try:
        called = signature(function)
    except (TypeError, ValueError):  # a builtin
        return True
    try:
        called.bind(*range(count))
    except TypeError:
        return False
    return True
