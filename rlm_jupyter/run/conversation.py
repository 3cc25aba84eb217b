"""The conversation with the root model, derived from the record: append-only between two compactions.

It alternates, begins with the one system message and ends with a user message, as every server accepts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_jupyter.prompts.direct import told
from rlm_jupyter.types.tokens import tokens_of
from rlm_jupyter.types.values import Message

if TYPE_CHECKING:
    from rlm_jupyter.record.iteration import Iteration
    from rlm_jupyter.record.trajectory import Trajectory


class Conversation:
    """The messages of a run, derived from its record; what was derived once is not derived again."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._tokens = 0
        self._hidden = (0, 0)
        """Up to which iteration outputs are elided, and iterations compacted."""
        self._first = 0
        """The place of the first iteration that is shown."""

    def messages(self, trajectory: Trajectory) -> list[Message]:
        """Return the conversation that the root model reads next."""
        hidden = trajectory.elided_through, trajectory.compacted_through
        if hidden != self._hidden:
            self._messages, self._tokens, self._hidden = [], 0, hidden
        if not self._messages:
            self._add(*opening(trajectory))
            self._first = sum(iteration.index <= hidden[1] for iteration in trajectory.iterations)
        elif len(self._messages) > 2:
            # a notice may have come after the last iteration's outputs
            self._remove_last()
        for iteration in trajectory.iterations[self._first + len(self._messages) // 2 - 1 :]:
            elided = iteration.index <= trajectory.elided_through
            self._add(
                Message("assistant", read_part(iteration)),
                Message("user", follow_up(iteration, elided=elided)),
            )
        return self._messages.copy()

    def tokens(self, trajectory: Trajectory) -> int:
        """About how many tokens it has."""
        self.messages(trajectory)
        return self._tokens

    def _remove_last(self) -> None:
        for message in self._messages[-2:]:
            self._tokens -= tokens_of(message)
        del self._messages[-2:]

    def _add(self, *added: Message) -> None:
        for message in added:
            self._messages.append(message)
            self._tokens += tokens_of(message)


def messages(trajectory: Trajectory) -> list[Message]:
    """Return the conversation that the root model reads next, from a record alone."""
    return Conversation().messages(trajectory)


def opening(trajectory: Trajectory) -> tuple[Message, Message]:
    """Return what the conversation begins with: the task, and what stands in place of compacted iterations."""
    started, compacted = trajectory.started, trajectory.compacted
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
