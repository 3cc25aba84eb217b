"""`windows`: the conversations that a root model was sent, each with the replies that it gave in it.

A conversation only grows until older outputs are left out of it or a summary takes the place of older iterations: what
comes after is a window of its own. Most runs have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlm_jupyter.record.messages import follow_up, opening, read_part
from rlm_jupyter.types.events import ConversationCompacted, OutputsElided, ReplyReceived
from rlm_jupyter.types.values import Message

if TYPE_CHECKING:
    from rlm_jupyter.record.iteration import Iteration
    from rlm_jupyter.record.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of the model's in a window."""

    message: int
    """Its place among the messages."""
    reply: ReplyReceived
    iteration: Iteration | None
    """What came of it; `None`: it is the last reply of a run that met a limit, of which no code is executed."""


@dataclass(frozen=True, slots=True)
class Window:
    """A conversation as it was sent, from the system message to the last reply in it."""

    messages: tuple[Message, ...]
    """Texts only: figures are left out."""
    turns: tuple[ModelTurn, ...]
    """The replies that were given in it; those before them were given in an earlier window."""
    compacted: ConversationCompacted | None
    """What stands in place of older iterations."""


@dataclass(frozen=True, slots=True)
class _View:
    """What of the iterations is shown."""

    elided_through: int = 0
    compacted: ConversationCompacted | None = None

    @property
    def compacted_through(self) -> int:
        return 0 if self.compacted is None else self.compacted.through

    def after(self, record: object) -> _View:
        """Return what is shown after a record."""
        if isinstance(record, OutputsElided) and record.through > max(self.elided_through, self.compacted_through):
            return _View(record.through, self.compacted)
        if isinstance(record, ConversationCompacted) and not record.rejected:
            return _View(self.elided_through if self.elided_through > record.through else 0, record)
        return self


def windows(trajectory: Trajectory) -> list[Window]:
    """Return the windows of a run, in order; none where the model has not replied."""
    iterations = {iteration.index: iteration for iteration in trajectory.iterations}
    found: list[tuple[_View, list[ReplyReceived]]] = []
    view = _View()
    for record in trajectory.records:
        view = view.after(record)
        if not isinstance(record, ReplyReceived) or record.rejected:
            continue
        iteration = iterations.get(record.iteration)
        if not record.forced and (iteration is None or iteration.reply is not record):
            continue
        # nothing was said after a last reply: where the run was resumed, its conversation goes on without that
        if not found or found[-1][0] != view or found[-1][1][-1].forced:
            found.append((view, []))
        found[-1][1].append(record)
    return [_window(trajectory, view, replies) for view, replies in found]


def _window(trajectory: Trajectory, view: _View, replies: list[ReplyReceived]) -> Window:
    messages = [*opening(trajectory, view.compacted)]
    given = {id(reply) for reply in replies}
    last = replies[-1]
    turns: list[ModelTurn] = []
    for iteration in trajectory.iterations:
        if iteration.index <= view.compacted_through or iteration.index > last.iteration:
            continue
        if id(iteration.reply) in given:
            turns.append(ModelTurn(len(messages), iteration.reply, iteration))
        messages.append(Message("assistant", read_part(iteration)))
        if iteration.reply is not last:
            shown = follow_up(iteration, elided=iteration.index <= view.elided_through)
            messages.append(Message("user", shown))
    if last.forced:
        turns.append(ModelTurn(len(messages), last, None))
        messages.append(Message("assistant", last.text.rstrip() or "(no reply)"))
    return Window(tuple(messages), tuple(turns), view.compacted)
