"""`unfenced`: a text without the fence that a model may have put around it."""

from __future__ import annotations


def unfenced(text: str) -> str:
    """Return what stands in the fence that a text is; else the text."""
    opening, _, rest = text.strip().partition("\n")
    is_fenced = opening.startswith("```") and "`" not in opening[3:] and rest.endswith("```")
    return rest.removesuffix("```").strip() if is_fenced else text
