"""The conversation with the root model, derived from the record: append-only.

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
        self._elided = 0

    def messages(self, trajectory: Trajectory) -> list[Message]:
        """Return the conversation that the root model reads next."""
        if trajectory.elided_through != self._elided:
            self._messages, self._tokens, self._elided = [], 0, trajectory.elided_through
        if not self._messages:
            started = trajectory.started
            self._add(
                Message("system", started.system),
                Message("user", started.opening + told([reply.text for reply in trajectory.direct])),
            )
        elif len(self._messages) > 2:
            # a notice may have come after the last iteration's outputs
            self._remove_last()
        for iteration in trajectory.iterations[len(self._messages) // 2 - 1 :]:
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


def read_part(iteration: Iteration) -> str:
    """Return what of a reply counts; never empty, which some servers refuse."""
    reply = iteration.reply
    return reply.text[: reply.read].rstrip() or "(no reply)"


def follow_up(iteration: Iteration, *, elided: bool) -> str:
    """Return what the model is told after an iteration."""
    shown = "[The outputs of this iteration are left out now, to make room; your variables are still there.]"
    parts = [shown if elided else iteration.shown, *iteration.notices]
    return "\n\n".join(part for part in parts if part) or "(no output)"
