"""`shortened`: a text cut in its middle: what is wrong with a long value is said after it."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, of which the first and the last are those of `text`."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
