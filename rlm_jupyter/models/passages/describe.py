"""What a context is, in a few lines."""

from __future__ import annotations

import reprlib
from typing import Any

_SHOWN_CHARS = 500


def describe(context: Any) -> str:
    """Return the type and the length of `context`, and how it begins."""
    size = f", {len(context):,} long" if hasattr(context, "__len__") else ""
    if isinstance(context, str):
        beginning = context[:_SHOWN_CHARS]
    else:
        beginning = str(context.head()) if hasattr(context, "head") else reprlib.repr(context)
    return f"context is of type {type(context).__name__}{size}. It begins:\n{beginning}"
