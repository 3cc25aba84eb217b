"""`beginning`: what the model is shown of a context before it has written any code.

With the first lines before its eyes, a model writes code for what is there and not for what it imagines: a small one,
shown nothing, answers or searches blindly, and a large one spends its first iteration on having a look.
"""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any

from rlm_jupyter.prompts.images import image_in
from rlm_jupyter.types.images import pixels
from rlm_jupyter.types.values import ContextInfo

CHARS = 600
"""How much of a context is shown."""
_ITEMS = 3
_KEYS = 5
_ROWS = 5
_NESTED = 4


def beginning(context: object) -> str:
    """Return how a context begins.

    Returns
    -------
    str
        At most `CHARS` characters: of a text its own, ending with a line where that leaves most of it; of bytes, lists,
        dicts and frames, what Python shows of the first parts. Empty where there is nothing to show.
    """
    if isinstance(context, str):
        return _of_text(str.__getitem__(context, slice(CHARS + 1)))
    try:
        return _cut(_of_object(context))
    except Exception:  # noqa: BLE001  somebody else's repr: what fails there is no reason not to begin
        return ""


def is_whole(info: ContextInfo) -> bool:
    """Return whether all of a context is shown by its beginning."""
    return info.type_name == "str" and len(info.beginning.encode("utf-8", "surrogatepass")) == info.nbytes


def _of_text(start: str) -> str:
    if len(start) <= CHARS:
        return start
    line_end = start.rfind("\n", CHARS // 2, CHARS)
    return start[: CHARS if line_end < 0 else line_end]


def _of_object(context: Any) -> str:
    if image_in(context) is not None:
        return ""
    if isinstance(context, bytes | bytearray | memoryview):
        return repr(bytes(context[: CHARS // 3]))
    if isinstance(context, list | tuple):
        return "\n".join(f"[{index}] {_short(item)}" for index, item in enumerate(context[:_ITEMS]))
    if isinstance(context, dict):
        return "\n".join(f"[{_short(key)}] {_short(value)}" for key, value in islice(context.items(), _KEYS))
    if type(context).__name__ == "DataFrame" and hasattr(context, "head"):
        return str(context.head(_ROWS))
    return ""


def _short(value: object) -> str:
    if (image := image_in(value)) is not None:
        return f"<{type(value).__name__}, an image of {pixels(*image[1:])}>"
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = CHARS // _ITEMS
    shown.fillvalue = "[…]"
    shown.maxlist = shown.maxtuple = shown.maxdict = shown.maxlevel = _NESTED
    return shown.repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= CHARS else f"{text[: CHARS - 1]}…"
