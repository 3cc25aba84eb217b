"""`sendable`: a message that an SDK can send."""

from __future__ import annotations

from dataclasses import replace

from rlm_jupyter.types.values import Message


def sendable(message: Message) -> Message:
    """Return the same message, with lone surrogates escaped: they have no UTF-8, and the SDKs fail on them."""
    parts = tuple(_escaped(part) if isinstance(part, str) else part for part in message.parts)
    return replace(message, content=_escaped(message.content), parts=parts)


def _escaped(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
