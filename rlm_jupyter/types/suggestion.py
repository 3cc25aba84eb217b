"""`did_you_mean`: the known name that a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_CLOSE = 0.6
"""How alike two names are, 0 to 1, where one may stand for the other; difflib's own default."""


def closest(name: str, known: Iterable[str], cutoff: float = _CLOSE) -> str | None:
    """Return the known name that comes nearest to `name`; `None`: none comes near."""
    import difflib  # only a mistake needs it

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str | None) -> str:
    """Return `Did you mean NAME?` with a space before it; nothing where no name was found."""
    return f" Did you mean {name}?" if name else ""
