"""`quoted`: a value in a message, never whole: it may be a document that was passed in the wrong place."""

from __future__ import annotations

import reprlib

_MOST_CHARS = 120
_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = 80
_brief.maxlevel = 2


def quoted(value: object) -> str:
    """Return `repr(value)` in one line, cut in the middle where it is long.

    The time this takes does not depend on the size of a text, a list or a dict.
    """
    try:
        text = " ".join(_brief.repr(value).split())
    except ValueError:  # an int with more digits than Python turns into text
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
