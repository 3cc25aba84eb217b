"""`sentence`: a text with one mark at its end."""

from __future__ import annotations


def sentence(text: str) -> str:
    """Return the text with a full stop; a question has its mark."""
    text = text.rstrip(".")
    return text if text.endswith("?") else f"{text}."
