"""What earlier versions of this package wrote otherwise, so that runs that they saved are read."""

from __future__ import annotations

from typing import Any

from rlm_jupyter.types.events import NoticeGiven, NoticeKind, RunResumed

RENAMED: dict[str, tuple[type[Any], dict[str, str]]] = {"RunTakenUp": (RunResumed, {"taken_up": "resumed"})}
"""Records, and fields of them, that have another name now."""
_NOTICES: tuple[tuple[str, NoticeKind], ...] = (
    ("The kernel died between two cells", "died_between"),
    ("The user edited this cell before it ran. This ran:\n", "edited"),
    ("`exit()` ended this cell, not the kernel. Nothing below it in that reply was executed; leave it out.", "exited"),
    ("The user refused this cell; it was not run.", "refused"),
    ("Your answer is kept, but it does not end the work yet: the termination policy ", "sent_back"),
    ("The user stopped the work while this cell was being executed. It was not executed again, so what ", "stopped"),
    ("Your answer does not count yet, because files that were asked for are not as they must be in ", "wrong_files"),
    ("Your answer does not count yet, because it does not have the form that was asked for:\n", "wrong_form"),
)
"""How notices began before they had a kind. Not to be changed with `prompts.notices`: it is what stands in records."""


def with_kind(values: dict[str, Any], cls: type[Any]) -> dict[str, Any]:
    """Return the fields of a record with the kind of a notice that was written without one.

    Parameters
    ----------
    values
        By name, as they were written.
    cls
        The record's class.
    """
    if cls is not NoticeGiven or "kind" in values:
        return values
    text = str(values.get("text", ""))
    return values | {"kind": next((kind for beginning, kind in _NOTICES if text.startswith(beginning)), "")}
