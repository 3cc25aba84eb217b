"""The conversation made to fit the root model's window: compacted, elided, or the end of the run."""

from __future__ import annotations

from rlm_jupyter.run.compaction import compact, leave_out, threshold, usable_tokens
from rlm_jupyter.run.elision import elide, free, tokens
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.values import Message


async def fit(run: Run, *, summarizes: bool = True) -> list[Message]:
    """Return the conversation; beyond its threshold it is compacted first, where the window needs it, made to fit.

    Half of the room is freed at once, because every change costs the provider's cache.

    Parameters
    ----------
    summarizes
        The model may be asked for a summary.

    Raises
    ------
    LimitReached
        It does not fit (`context_window`): what is left is the task and the last iteration.
    """
    soft = threshold(run) if summarizes else None
    while soft is not None and tokens(run) > soft:
        outcome = await compact(run, soft)
        if outcome == "failed":
            _make_room(run, soft)
        if outcome != "done":
            break
    most = usable_tokens(run)
    if not _make_room(run, most):
        is_first = not run.trajectory.iterations
        advice = ": set window (--window) if it reads more, or name a model that does" if is_first else ""
        raise LimitReached(
            f"{run.model.name} reads {run.model.window:,} tokens, its reply included: {most:,} are left for messages, "
            f"and about {tokens(run):,} are needed{advice}",
            stop_reason="context_window",
        )
    return run.requests.conversation.messages(run.trajectory)


async def shrink(run: Run, *, summarizes: bool = True) -> bool:
    """Make a conversation shorter that the provider finds too long; return whether that was possible."""
    most = tokens(run)
    if summarizes and (soft := threshold(run)) is not None and await compact(run, min(soft, most)) == "done":
        return True
    return free(run, most // 2) or leave_out(run, most) or elide(run, last=True)


def _make_room(run: Run, most: int) -> bool:
    """Leave out outputs, then whole iterations, at last the newest outputs; return whether it fits `most` now."""
    if tokens(run) <= most:
        return True
    free(run, most // 2)
    while tokens(run) > most:
        if not (elide(run) or leave_out(run, most) or elide(run, last=True)):
            return False
    return True
