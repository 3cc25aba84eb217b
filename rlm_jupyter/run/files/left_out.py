"""`LeftOut`: what was left out of a folder or an archive, counted by the reason."""

from __future__ import annotations

_MOST_NAMES = 3


class LeftOut:
    """Names by the reason why they were left out, in the order in which they were found."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, name: str, reason: str) -> None:
        """Count one; the reason is a sentence with a stop at its end."""
        self._names.setdefault(reason, []).append(name)

    def lines(self) -> list[str]:
        """Return a line for each reason, with the first names and the number of the rest: `left out a, b: empty.`."""
        found = []
        for reason, names in self._names.items():
            more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
            found.append(f"left out {', '.join(names[:_MOST_NAMES])}{more}: {reason}")
        return found
