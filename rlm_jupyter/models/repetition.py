"""`Repetition`: sees that a reply has become one piece over and over, as small models write until they are stopped."""

from __future__ import annotations

ENDLESS_CHARS = 12_000
"""So much of the same is no list of labels any more."""
_LONGEST_PIECE = 400
_LOOK_CHARS = 2_000


class Repetition:
    """Watches a reply arrive."""

    def __init__(self) -> None:
        self._tail = ""
        self._new: list[str] = []
        self._unseen = 0

    def hear(self, text: str) -> str:
        """Take in the next piece of the reply.

        Returns
        -------
        str
            What it repeats, where its last 12,000 characters are nothing else; else empty.
        """
        self._new.append(text)
        self._unseen += len(text)
        if self._unseen < _LOOK_CHARS:
            return ""
        tail = self._tail = "".join([self._tail, *self._new])[-ENDLESS_CHARS:]
        self._new.clear()
        self._unseen = 0
        if len(tail) < ENDLESS_CHARS:
            return ""
        # a piece repeats where the text is the same so many characters further on; C compares, and stops early
        piece = next((size for size in range(1, _LONGEST_PIECE + 1) if tail.startswith(tail[size:])), 0)
        return tail[-piece:] if piece else ""
