"""What a model is asked that is given the whole text at once, and how one that works in a kernel is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

_REPLY_CHARS = 300


def question(prompt: str, text: str) -> str:
    """Return the one message of a question about a text that the model's window holds."""
    return f"<text>\n{text}\n</text>\n\n{prompt}\n\nReply with the answer alone, in as few words as it needs."


def told(replies: Sequence[str]) -> str:
    """Return what the first message says of such replies that differ; empty where there are none."""
    if not replies:
        return ""
    said = " / ".join(shorten(reply, _REPLY_CHARS, placeholder=" …") or "(nothing)" for reply in replies)
    return f"\n\nA model that read all of it at once gave different answers when it was asked twice: {said}"
