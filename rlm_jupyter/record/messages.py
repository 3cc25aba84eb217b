"""The messages of a conversation with a root model, as text: derived from the record, for requests and for exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_jupyter.prompts.direct import told
from rlm_jupyter.types.values import Message

if TYPE_CHECKING:
    from rlm_jupyter.record.iteration import Iteration
    from rlm_jupyter.record.trajectory import Trajectory
    from rlm_jupyter.types.events import ConversationCompacted


def opening(trajectory: Trajectory, compacted: ConversationCompacted | None) -> tuple[Message, Message]:
    """Return what the conversation begins with: the task, and what stands in place of compacted iterations."""
    started = trajectory.started
    text = started.opening + told([reply.text for reply in trajectory.direct])
    return (
        Message("system", started.system),
        Message("user", text if compacted is None else f"{text}\n\n{compacted.text}"),
    )


def read_part(iteration: Iteration) -> str:
    """Return what of a reply counts; never empty, which some servers refuse."""
    reply = iteration.reply
    return reply.text[: reply.read].rstrip() or "(no reply)"


def follow_up(iteration: Iteration, *, elided: bool) -> str:
    """Return what the model is told after an iteration."""
    shown = "[The outputs of this iteration are left out now, to make room; your variables are still there.]"
    parts = [shown if elided else iteration.shown, *iteration.notices]
    return "\n\n".join(part for part in parts if part) or "(no output)"
