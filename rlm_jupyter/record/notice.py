"""Notices as the Markdown of a cell: those to the model say so, the others are for whoever reads the notebook."""

from __future__ import annotations

from rlm_jupyter.prompts.notices import EDITED
from rlm_jupyter.types.events import ReplyReceived, RunTakenUp

UNREAD = "Not read: here the model wrote an output of its own, before the kernel gave one."
_EDIT = EDITED.partition("\n")[0]


def quoted_notice(text: str) -> str:
    """Return a notice as a quotation, with its addressee; of an edit alone what stands in no cell."""
    # the code that ran is that of the cell above
    said = "The user edited this cell before it ran." if text.startswith(_EDIT) else text
    return "  \n".join(f"> {line}" for line in f"*To the model:* {said}".splitlines())


def unread_notice(record: ReplyReceived) -> str:
    """Return what stands in place of what the model wrote in the kernel's: nobody is to take that for an output."""
    closed = " The request was closed there, so its tokens are an estimate." if record.estimated else ""
    return f"> {UNREAD} ({len(record.unread.strip()):,} characters, kept in the record.){closed}"


def taken_up_notice(record: RunTakenUp) -> str:
    """Return that a run was resumed, when, and with what."""
    models = record.model if record.sub_model == record.model else f"{record.model}, {record.sub_model}"
    kernel = "the cells were executed again" if record.reexecuted else "in an empty kernel"
    return f"*Taken up again {record.taken_up}: {models}; {kernel}.*"
