"""`Surroundings`: what every cell relies on and any cell can break, put back before the next one."""

from __future__ import annotations

import builtins
import sys
from typing import Any

_PYTHONS = ("builtins", "_io")


class Surroundings:
    """Python's own functions and types, and the streams that a cell prints to, as they are now.

    All but `input`, which ipykernel replaces for each cell.
    """

    def __init__(self) -> None:
        self._builtins: dict[str, Any] = {
            name: value
            for name, value in vars(builtins).items()
            if name != "input" and callable(value) and getattr(value, "__module__", None) in _PYTHONS
        }
        self._streams: dict[str, Any] = {}
        self.note_streams()

    def note_streams(self) -> None:
        """Put back the streams as they are now."""
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}

    def restore(self) -> list[str]:
        """Put back what was replaced or deleted; returns those names."""
        lost = _put_back(vars(builtins), self._builtins)
        return lost + [f"sys.{name}" for name in _put_back(vars(sys), self._streams)]


def _put_back(namespace: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    lost = [name for name, value in kept.items() if namespace.get(name) is not value]
    for name in lost:
        namespace[name] = kept[name]
    return lost
