"""Notices as the Markdown of a cell: those to the model say so, the others are for whoever reads the notebook."""

from __future__ import annotations

import re

from rlm_jupyter.types.events import ConversationCompacted, NoticeGiven, ReplyReceived, RunResumed

UNREAD = "Not read: here the model wrote an output of its own, before the kernel gave one."
_REJECTED = re.compile(r"(.*) \((\d+)\)", re.DOTALL)
LAST_CALL = "This was the last reply, asked for to end the run: code in it was not executed."
BROKEN_OFF = "The reply broke off here. Its cell had begun by then, so it was not asked for again."


def notice_of(record: NoticeGiven | ConversationCompacted | RunResumed) -> str:
    """Return a record that is shown as a notice, as the Markdown of its cell."""
    match record:
        case NoticeGiven():
            return quoted_notice(record)
        case ConversationCompacted():
            return compacted_notice(record)
        case RunResumed():
            return resumed_notice(record)


def quoted_notice(notice: NoticeGiven) -> str:
    """Return a notice as a quotation, with its addressee; of an edit alone what stands in no cell."""
    # the code that ran is that of the cell above
    said = "The user edited this cell before it ran." if notice.kind == "edited" else notice.text
    return "  \n".join(f"> {line}" for line in f"*To the model:* {said}".splitlines())


def resampled_notice(rejected: str) -> tuple[str, str]:
    """Return the line about a rejected reply, and the one that it takes the place of: of the reply before it, if any.

    Parameters
    ----------
    rejected
        As `ReplyReceived.rejected`: the reason and, in parentheses, how many replies in a row were rejected.
    """
    found = _REJECTED.fullmatch(rejected)
    reason, count = (found[1], int(found[2])) if found else (rejected, 1)
    return _resampled(reason, count), _resampled(reason, count - 1)


def _resampled(reason: str, count: int) -> str:
    return "" if not count else f"Resampled{f' {count} times' if count > 1 else ''}: the reply {reason}."


def remark_on(record: ReplyReceived) -> str:
    """Return in one line what whoever reads a reply that counts is to know of it; empty for most."""
    if record.forced:
        return LAST_CALL
    if record.finish == "broken_off":
        return BROKEN_OFF
    return UNREAD if record.unread.strip() else ""


def unread_notice(record: ReplyReceived) -> str:
    """Return what stands in place of what the model wrote in the kernel's: nobody is to take that for an output."""
    closed = " The request was closed there, so its tokens are an estimate." if record.estimated else ""
    return f"> {UNREAD} ({len(record.unread.strip()):,} characters, kept in the record.){closed}"


def compacted_line(record: ConversationCompacted) -> str:
    """Return in one line which iterations have left the conversation, and what that took."""
    through = record.through
    iterations = f"iteration{'' if through == 1 else 's'} {'1' if through == 1 else f'1 to {through:,}'}"
    if record.rejected and not record.model:
        return f"Not compacted: {record.rejected}."
    if record.rejected:
        took = f"{record.usage.total_tokens:,} tokens" + ("" if record.cost is None else f", ${record.cost:.4f}")
        return f"Not compacted: {record.model} {record.rejected} when it was asked for a summary ({took})."
    if not record.model:
        return f"Compacted: the model is no longer shown {iterations}; no summary was made."
    cost = "" if record.cost is None else f", ${record.cost:.4f}"
    return f"Compacted: of {iterations} the model is shown a summary ({record.usage.total_tokens:,} tokens{cost})."


def compacted_notice(record: ConversationCompacted) -> str:
    """Return the same as a quotation, with the summary; the iterations themselves stay where they are."""
    lines = [f"*{compacted_line(record)}*", *record.summary.splitlines()] if record.model else [compacted_line(record)]
    return "  \n".join(f"> {line}" for line in lines)


def resumed_notice(record: RunResumed) -> str:
    """Return that a run was resumed, when, and with what."""
    models = record.model if record.sub_model == record.model else f"{record.model}, {record.sub_model}"
    kernel = "the cells were executed again" if record.reexecuted else "in an empty kernel"
    return f"*Resumed {record.resumed}: {models}; {kernel}.*"
