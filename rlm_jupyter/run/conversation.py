"""The conversation with the root model, derived from the record: append-only between two compactions.

It alternates, begins with the one system message and ends with a user message, as every server accepts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_jupyter.record.messages import follow_up, opening, read_part
from rlm_jupyter.run.figures import ImageTokens, labelled
from rlm_jupyter.types.images import MOST_IMAGES
from rlm_jupyter.types.tokens import tokens_of
from rlm_jupyter.types.values import Message

if TYPE_CHECKING:
    from rlm_jupyter.record.iteration import Iteration
    from rlm_jupyter.record.trajectory import Trajectory


class Conversation:
    """The messages of a run, derived from its record; what was derived once is not derived again.

    Parameters
    ----------
    image_tokens
        How the model counts the figures that it is shown; `None`: it is shown none.
    """

    def __init__(self, image_tokens: ImageTokens | None = None) -> None:
        self.image_tokens = image_tokens
        self._messages: list[Message] = []
        self._tokens = 0
        self._hidden = (0, 0, 0)
        """Up to which iteration outputs are elided, iterations compacted, and figures no longer shown."""
        self._derived_from = 0
        """How many records they were derived from; 0: not yet."""

    def messages(self, trajectory: Trajectory) -> list[Message]:
        """Return the conversation that the root model reads next; asked for again, it costs a copy."""
        if trajectory.length != self._derived_from:
            self._derive(trajectory)
            self._derived_from = trajectory.length
        return self._messages.copy()

    def _derive(self, trajectory: Trajectory) -> None:
        hidden = trajectory.elided_through, trajectory.compacted_through, _figures_left_out(trajectory)
        if hidden != self._hidden:
            self._messages, self._tokens, self._hidden = [], 0, hidden
        if not self._messages:
            self._add(*opening(trajectory, trajectory.compacted))
        elif len(self._messages) > 2:
            # a notice may have come after the last iteration's outputs
            self._remove_last()
        for iteration in trajectory.uncompacted[len(self._messages) // 2 - 1 :]:
            elided = iteration.index <= trajectory.elided_through
            self._add(
                Message("assistant", read_part(iteration)),
                self._shown(iteration, elided=elided, has_figures=not elided and iteration.index > hidden[2]),
            )

    def tokens(self, trajectory: Trajectory) -> int:
        """Return about how many tokens it has."""
        self.messages(trajectory)
        return self._tokens

    def _shown(self, iteration: Iteration, *, elided: bool, has_figures: bool) -> Message:
        text = follow_up(iteration, elided=elided)
        images = [image for image in iteration.images if image.data and has_figures]
        if not images or self.image_tokens is None:
            return Message("user", text)
        tokens = sum(self.image_tokens(image.width, image.height) for image in images)
        return Message("user", text, labelled(images, text), tokens)

    def _remove_last(self) -> None:
        for message in self._messages[-2:]:
            self._tokens -= tokens_of(message)
        del self._messages[-2:]

    def _add(self, *added: Message) -> None:
        for message in added:
            self._messages.append(message)
            self._tokens += tokens_of(message)


def _figures_left_out(trajectory: Trajectory) -> int:
    """Return the iteration up to which figures are no longer shown.

    Half of them at once, where there are more than a request takes: each time costs the provider's cache.
    """
    iterations = [iteration for iteration in trajectory.uncompacted if iteration.index > trajectory.elided_through]
    over = sum(len(iteration.images) for iteration in iterations) - MOST_IMAGES
    to_go, half = 0, MOST_IMAGES // 2
    if over > 0:
        to_go = -(-over // half) * half
    through = 0
    for iteration in iterations:
        if to_go <= 0:
            break
        to_go, through = to_go - len(iteration.images), iteration.index
    return through


def messages(trajectory: Trajectory) -> list[Message]:
    """Return the conversation that the root model reads next, from a record alone."""
    return Conversation().messages(trajectory)
