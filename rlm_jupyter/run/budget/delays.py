"""`Delays`: why requests of a tree wait to be sent again."""

from __future__ import annotations

from collections.abc import Callable


class Delays:
    """Tells the reason of the first of them that waits."""

    def __init__(self) -> None:
        self.on_change: Callable[[str], None] = lambda text: None
        """Told that reason; with an empty text, that none waits any more."""
        self._reasons: dict[object, str] = {}

    def put(self, request: object, text: str) -> None:
        """Say why a request waits; with an empty text, that it goes on."""
        before = self._first
        if text:
            self._reasons[request] = text
        else:
            self._reasons.pop(request, None)
        if self._first != before:
            self.on_change(self._first)

    @property
    def _first(self) -> str:
        return next(iter(self._reasons.values()), "")
