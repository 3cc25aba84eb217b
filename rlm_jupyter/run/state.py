"""`Run`: one prompt being answered. The algorithm is `loop.solve`; cells are executed in `cells`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.models import Model
from rlm_jupyter.prompts import notices
from rlm_jupyter.prompts.preview import is_whole
from rlm_jupyter.record.event_log import EventLog
from rlm_jupyter.record.iteration import Cell
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.control import Control, Decision
from rlm_jupyter.run.grounding import is_question
from rlm_jupyter.run.substates import CellState, PolicyState, ReplyState, RequestState, SubcallTally
from rlm_jupyter.types.events import (
    CellDecided,
    CellProposed,
    DirectReplied,
    Event,
    NoticeGiven,
    NoticeKind,
    Record,
    ReplyReceived,
    RunPaused,
    RunUnpaused,
    SampleSettled,
)
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import CellRun, Inspection, Subcall, SubcallFailure, SubcallKind, Value

INTERRUPT_MARGIN = 0.5
"""Seconds before the deadline at which a running cell is interrupted, so that the run can still end in time."""


class Playback(Protocol):
    """Plays a recorded run back to the code that made it, until its record ends (`replay.player.Player`).

    While it plays, replies, cells and answers come from the record, and what the run records is compared with it.
    """

    is_playing: bool

    def begin(self, run: Run) -> None:
        """Enter how the run began."""

    def record(self, record: Record) -> None:
        """Enter the recorded counterpart of a record, while it plays."""

    def next_iteration(self) -> bool:
        """Enter what is left of the last iteration; return whether the run goes on from here by itself."""

    def reply(self) -> ReplyReceived | None:
        """Return the next recorded reply."""

    def went_on(self) -> bool:
        """Return whether the record says that the run did not end with this iteration."""

    def wrong_files(self) -> str:
        """Return what the model was told in this iteration of files that were not as they were asked for."""

    def decision(self, source: str) -> Decision | None:
        """Return what a person had decided on the next cell."""

    async def execute(self) -> tuple[CellRun, Inspection] | None:
        """Re-execute the next recorded cell; `None` where the run is to execute a new one."""

    def finished(self) -> bool:
        """Enter the recorded cell that was not run; return whether there was one."""

    def answers(self, call: Subcall, kind: SubcallKind, first: int) -> dict[int, str | SubcallFailure]:
        """Return, by their place in the call, the prompts that were answered already; the first is the `first`."""

    @property
    def takes_none(self) -> bool:
        """Whether `FINAL(None)` was an answer of the recorded run."""

    @property
    def asks_models(self) -> bool:
        """Whether the run goes on where its record ends; else it is only compared with it."""

    def samples(self) -> dict[int, SampleSettled]:
        """Return the other samples that have ended, by their number."""

    def direct(self) -> tuple[DirectReplied, ...]:
        """Return the recorded replies to the question with the whole text."""

    def unclaimed_child(self, sha256: str) -> tuple[SavedRun, Playback] | None:
        """Return the child that was begun on this text and has not answered yet, and what plays it back.

        Parameters
        ----------
        sha256
            Of the text; of a sample `sample N`.
        """

    def was_stopped_in(self, iteration: int, block: int) -> bool:
        """Return whether a person had stopped the run in this cell, and it is not executed again."""

    def puts_output(self, iteration: int, block: int) -> bool:
        """Return whether what was cut off of a cell's output is put into the kernel."""

    @property
    def earlier_answer(self) -> Value | None:
        """What the run ended with before."""


@dataclass
class Run:
    """A run under way: what it works with, how far it is, and its parts."""

    trajectory: Trajectory
    model: Model
    limits: Limits
    ledger: Ledger
    control: Control
    """What people may do to it."""
    event_log: EventLog
    """Enters its records, and tells its events."""
    cell_state: CellState
    requests: RequestState
    policies: PolicyState
    playback: Playback | None = None
    """Plays its record back, where it is resumed, forked or replayed."""
    replies: ReplyState = field(default_factory=ReplyState)
    subcalls: SubcallTally = field(default_factory=SubcallTally)
    iteration: int = 0
    errors: int = 0
    """Iterations in a row that failed."""
    began: float = 0.0
    """What the clock of its tree said as it began; a root begins when it is called."""

    @property
    def seconds(self) -> float:
        """How long it has taken, less the time in which a person was waited for."""
        return self.ledger.deadline.seconds - self.began

    @property
    def kernel(self) -> Kernel:
        """The kernel that its cells are executed in."""
        return self.cell_state.kernel

    @property
    def emit(self) -> Callable[[Event], None]:
        """Tells an event to whoever watches."""
        return self.event_log.emit

    @property
    def is_replaying(self) -> bool:
        """Whether its record is played back at the moment."""
        return self.playback is not None and self.playback.is_playing

    @property
    def best(self) -> Value | None:
        """The best answer so far without a further call: declared, sent back, a draft, or an unconfirmed FINAL."""
        if (answer := self.kernel.declared or self.cell_state.sent_back or self.cell_state.draft) is not None:
            return answer
        text = self.replies.unconfirmed or ""
        is_none = not text.strip() or is_question(text, self.trajectory.started.prompt)
        return None if is_none else Value(text, text, is_json=True)

    @property
    def confidence(self) -> float | None:
        """What the model stated last, else what the tokens of its last reply say, from 0 to 1."""
        stated = self.cell_state.confidence
        return self.requests.token_confidence if stated is None else stated

    @property
    def has_context(self) -> bool:
        """Whether there is anything that `context` holds."""
        return self.trajectory.started.context.type_name != "none"

    @property
    def has_looked(self) -> bool:
        """Whether a cell of this run was executed, or there is nothing more to look at."""
        return self.has_shown_all or any(cell.status != "skipped" for cell in self._cells())

    @property
    def has_seen(self) -> bool:
        """Whether a cell of this run has shown anything but errors, or there is nothing more to see."""
        outputs = (output for cell in self._cells() for output in cell.outputs)
        return self.has_shown_all or any(output.get("output_type") != "error" for output in outputs)

    @property
    def can_conclude(self) -> bool:
        """Whether there is anything that a last reply could come from."""
        return bool(self.trajectory.iterations) and (self.has_seen or bool(self.cell_state.variables))

    @property
    def has_shown_all(self) -> bool:
        """Whether there is nothing of `context` that the first message does not show."""
        return not self.has_context or is_whole(self.trajectory.started.context)

    def _cells(self) -> Iterator[Cell]:
        return (cell for iteration in self.trajectory.iterations for cell in iteration.cells)

    def record(self, record: Record) -> None:
        """Enter a fact into the trajectory and tell it; while a record is played, the recorded one instead."""
        if self.playback is not None and self.playback.is_playing:
            self.playback.record(record)
        else:
            self.event_log.add(record)

    def notice(self, text: str, kind: NoticeKind = "") -> None:
        """Tell the model something of the run's own."""
        self.record(NoticeGiven(self.iteration, text, kind=kind))

    async def checkpoint(self) -> None:
        """Wait, between two iterations, while paused; take what people said and the limits that they raised."""
        if self.playback is not None and self.playback.is_playing and not self.playback.next_iteration():
            return
        control = self.control
        if control.is_paused:
            self.emit(RunPaused(self.iteration + 1))
            with self.ledger.deadline.held():
                await control.while_paused()
                async with self.kernel.user_cell_lock:  # a person's cell may not be over yet
                    pass
            self.emit(RunUnpaused(self.iteration + 1))
        self.take_limits()
        if self.iteration:
            for note in control.take_notes():
                self.notice(notices.FROM_USER.format(message=note))

    def take_limits(self) -> None:
        """Take the limits that people raised, at once: a cell, or a request, may be waiting for them."""
        limits = self.control.take_limits(self.limits)
        if limits is not self.limits:
            self.limits = limits
            self.ledger.limit(limits)

    async def approval(self, source: str) -> Decision:
        """Wait for what a person decides on the next cell; at once, where nobody is to be asked."""
        if self.playback is not None and (decided := self.playback.decision(source)) is not None:
            return decided
        if not self.control.approving or self.cell_state.early is not None:
            return Decision(True)
        block, point = self.cell_state.block, self.cell_state.undo_point
        undoes = None if point is None else point.cell
        proposed = CellProposed(self.iteration, block, source, undoes, self.cell_state.no_undo)
        with self.ledger.deadline.held():
            decision = await self.control.decision((self.iteration, block), lambda: self.emit(proposed))
        self.emit(CellDecided(self.iteration, block, decision.runs))
        return decision
