"""`Run`: one prompt being answered: its kernel, its models, its record, and what may be done with them.

The algorithm is `loop.solve`; here are the verbs that it is written in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from rlm_jupyter.kernel.guest.codec import DRAFT
from rlm_jupyter.kernel.session import Kernel
from rlm_jupyter.kernel.snapshots import Restored
from rlm_jupyter.models import Model
from rlm_jupyter.policies import RewardPolicy, TerminationPolicy
from rlm_jupyter.prompts import outputs
from rlm_jupyter.prompts import texts as prompts
from rlm_jupyter.prompts.preview import is_whole
from rlm_jupyter.record.event_log import Entries
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Cell, Trajectory
from rlm_jupyter.run.budget.last_reply import LastWord
from rlm_jupyter.run.budget.ledger import Bill, Ledger
from rlm_jupyter.run.control import Control, Decision
from rlm_jupyter.run.conversation import Conversation
from rlm_jupyter.types.errors import KernelDiedError, KernelError, KernelStartError
from rlm_jupyter.types.events import (
    CellDecided,
    CellFinished,
    CellProposed,
    CellStarted,
    Event,
    NoticeGiven,
    OutputChanged,
    OutputsShown,
    Record,
    ReplyReceived,
    RunPaused,
    RunResumed,
)
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import CellRun, Inspection, Output, Subcall, SubcallFailure, SubcallKind, Value, Variable

log = logging.getLogger(__name__)

MOST_RESTARTS = 3
"""How often a kernel that died is started again in one run."""
_STOP_SECONDS = 5.0
"""How long a run that is being stopped looks for a draft."""
_REST_SECONDS = 0.25
"""Before it is started a second time, and so much longer before each time after that."""
DIED_BETWEEN = "The kernel died between two cells"
"""How the notice begins that says so."""
INTERRUPT_MARGIN = 0.5
"""Seconds before the deadline at which a running cell is interrupted, so that the run can still end in time."""


def shown_chars(limits: Limits, model: Model) -> int:
    """How many characters of an iteration's outputs the model is shown: a quarter of a small window, or a half."""
    return min(limits.output_chars, model.window)


@dataclass
class Run:
    """A run under way. `emit` is told every event; records are in `trajectory` before it is."""

    trajectory: Trajectory
    model: Model
    limits: Limits
    ledger: Ledger
    kernel: Kernel
    policy: TerminationPolicy
    reward: RewardPolicy
    emit: Callable[[Event], None]
    last_word: LastWord
    """Room of the limits that is held back for its last reply."""
    control: Control = field(default_factory=Control)
    """What people may do to it."""
    recorder: InitVar[Recorder | None] = field(kw_only=True)
    """Keeps the record on disk, and those of children with it."""
    entries: Entries = field(init=False)
    iteration: int = 0
    block: int = 0
    errors: int = 0
    """Iterations in a row that failed."""
    restarts: int = 0
    room: int = 0
    """The cap of the next reply."""
    ready_declared: bool = False
    """A cell has set `answer["ready"]` by a literal."""
    ready_asked: bool = False
    """The model was told that `ready` counts only where a cell says it."""
    draft: Value | None = None
    """What stood in `answer["content"]` after the last cell: kept here, where no dying kernel takes it along."""
    kept: Value | None = None
    """An answer that a policy sent back: the best there is, until another is declared."""
    unconfirmed: str | None = None
    """The content of a FINAL in prose that did not count yet."""
    blind_refused: bool = False
    """A blind answer has been asked about."""
    doubted: bool = False
    """A typed answer that is plainly none was drawn again."""
    confidence: float | None = None
    """What the model stated last, from 0 to 1."""
    token_confidence: float | None = None
    """What the last reply's tokens say, where that is asked for and told."""
    iteration_of: dict[tuple[str, ...], int] = field(default_factory=dict)
    """The last iteration that had such cells, and said the same of an answer."""
    rendered: str = ""
    """The outputs of the last iteration, whole, as text."""
    total_reward: float = 0.0
    asked: list[threading.Thread] = field(default_factory=list)
    """Threads in which policies are at work."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """A line for each iteration that was rated: what policies are given as `history`."""
    subcall_ordinal: int = 0
    refused: int = 0
    """Sub-calls of the running cell that nobody was asked."""
    batch_refusal: str = ""
    """Why a batch of the running cell was refused: its items only say so where they are printed."""
    cut_subcalls: int = 0
    """Replies to the running cell's sub-calls that ended at the cap."""
    repeated_subcalls: int = 0
    """Of the running cell: those that were answered without being sent."""
    known_answers: dict[tuple[str, str], str] = field(default_factory=dict)
    """By the prompt's SHA-256 and the model, where the model always gives the same."""
    variables: tuple[Variable, ...] = ()
    history: list[dict[str, str | None]] = field(default_factory=list)
    """Earlier prompts and answers in this kernel."""
    began: float = field(default_factory=time.monotonic)
    conversation: Conversation = field(default_factory=Conversation)
    last_read: tuple[int, int] | None = None
    """Messages and tokens of the last request, its reply included, as the provider counted."""

    density: float = 1.0
    """Tokens that the provider counts for each that we estimate, at the most so far; no less than one."""
    lost: Bill = field(default_factory=Bill)
    """What was billed for replies of the root model that never came whole: no record of its own has it."""

    is_replaying: bool = False
    """It is gone over again from its record (`player.TapedRun`)."""

    def __post_init__(self, recorder: Recorder | None) -> None:
        self.room = self.limits.max_output_tokens
        self.entries = Entries(self.trajectory, recorder, self.emit, lambda: self.iteration)

    # a run that is taken up again answers these from its record

    def begin(self) -> None:
        """Enter how the run began, where that is recorded already."""

    def recorded_reply(self) -> ReplyReceived | None:
        """The next reply, where it was received already."""
        return None

    def recorded_answers(self, call: Subcall, kind: SubcallKind, first: int) -> dict[int, str | SubcallFailure]:
        """By their place in the call, the prompts that were answered already; the first is the cell's `first`."""
        return {}

    def unclaimed_child(self, sha256: str) -> tuple[SavedRun, Callable[..., Run]] | None:
        """Return the child that was begun on this text and has not answered yet, and what makes its run."""
        return None

    @property
    def earlier_answer(self) -> Value | None:
        """What it ended with before."""
        return None

    def went_on(self) -> bool:
        """Whether it is known already that the run did not end with this iteration."""
        return False

    @property
    def best(self) -> Value | None:
        """The best answer so far without a further call: recorded, sent back, a draft, or an unconfirmed FINAL."""
        if (answer := self.kernel.recorded or self.kept or self.draft) is not None:
            return answer
        text = self.unconfirmed or ""
        return Value(text, text, is_json=True) if text.strip() else None

    @property
    def has_context(self) -> bool:
        """Whether there is anything that `context` holds."""
        return self.trajectory.started.context.type_name != "none"

    @property
    def has_looked(self) -> bool:
        """Whether a cell of this run was executed, or there is nothing more to look at."""
        return self._knows_all or any(cell.status != "skipped" for cell in self._cells())

    @property
    def has_seen(self) -> bool:
        """Whether a cell of this run has shown anything but errors, or there is nothing more to see."""
        outputs = (output for cell in self._cells() for output in cell.outputs)
        return self._knows_all or any(output.get("output_type") != "error" for output in outputs)

    @property
    def can_conclude(self) -> bool:
        """Whether there is anything that a last reply could come from."""
        return bool(self.trajectory.iterations) and (self.has_seen or bool(self.variables))

    @property
    def _knows_all(self) -> bool:
        return not self.has_context or is_whole(self.trajectory.started.context)

    def _cells(self) -> Iterator[Cell]:
        return (cell for iteration in self.trajectory.iterations for cell in iteration.cells)

    def record_soon(self, fact: Callable[[], Record], *, of_batch: bool = False) -> None:
        """Enter what was paid for, once the answer has left (`Entries.add_soon`)."""
        self.entries.add_soon(fact, of_batch=of_batch)

    def record(self, record: Record) -> None:
        """Enter a fact into the trajectory and tell it."""
        self.entries.add(record)

    def notice(self, text: str) -> None:
        """Tell the model something of the run's own."""
        self.record(NoticeGiven(self.iteration, text))

    async def checkpoint(self) -> None:
        """Between two iterations: wait while paused, take what people said and the limits that they raised."""
        control = self.control
        if control.is_paused:
            self.emit(RunPaused(self.iteration + 1))
            with self.ledger.held():
                await control.while_paused()
                async with self.kernel.aside:  # a person's cell may not be over yet
                    pass
            self.emit(RunResumed(self.iteration + 1))
        self.take_limits()
        if self.iteration:
            for note in control.take_notes():
                self.notice(f"A message from the user: {note}")

    def take_limits(self) -> None:
        """Take the limits that people raised, at once: a cell, or a request, may be waiting for them."""
        limits = self.control.take_limits(self.limits)
        if limits is not self.limits:
            self.limits = limits
            self.ledger.limit(limits)

    async def approval(self, source: str) -> Decision:
        """What a person decides on the next cell; at once, where nobody is to be asked."""
        if not self.control.approving:
            return Decision(True)
        proposed = CellProposed(self.iteration, self.block, source)
        with self.ledger.held():
            decision = await self.control.decision((self.iteration, self.block), lambda: self.emit(proposed))
        self.emit(CellDecided(self.iteration, self.block, decision.runs))
        return decision

    async def execute(self, source: str, executed: str | None = None) -> tuple[CellRun, Inspection]:
        """Execute a block as the next cell, and inspect the kernel afterwards.

        Parameters
        ----------
        source
            As the model wrote it, for the record.
        executed
            What is executed, where that differs.
        """
        latest: tuple[Output, ...] = ()

        def changed(now: tuple[Output, ...]) -> None:
            nonlocal latest
            latest = now
            self.emit(OutputChanged(self.iteration, self.block, now))

        await self.kernel.snapshot_begun()
        if not self.kernel.is_alive:
            await self._revive(DIED_BETWEEN)
        self.subcall_ordinal = self.refused = 0
        self.emit(CellStarted(self.iteration, self.block, source))
        cell = CellRun("interrupted")
        try:
            left = self.ledger.seconds_left
            cell = await self.kernel.execute(
                executed or source,
                cell_seconds=self.limits.cell_seconds,
                total_seconds=None if left is None else max(left - self.last_word.seconds - INTERRUPT_MARGIN, 0.01),
                on_outputs=changed,
            )
        finally:
            # also when the run is being stopped: what the cell had shown is kept
            self.finished(
                source,
                executed,
                cell if cell.outputs else CellRun(cell.status, latest, cell.execution_count, cell.seconds),
            )
        try:
            inspection = await self._look()
        except KernelDiedError:
            if self.kernel.recorded is not None:
                # the answer was fetched while FINAL was called: nobody needs this kernel any more
                self.confidence = self.kernel.recorded_confidence
                return cell, Inspection(answer="recorded", confidence=self.confidence)
            await self._revive("The kernel died while it executed this cell")
            return cell, Inspection(variables=self.variables)
        if cell.status == "ok":
            self.kernel.take_snapshot((self.iteration, self.block - 1))
        return cell, inspection

    async def _look(self) -> Inspection:
        """Inspect the kernel after a cell."""
        inspection = await self.kernel.inspect()
        if inspection.draft:
            self.draft = await self._read_draft()
        elif not self.restarts:
            self.draft = None  # taken back
        self.variables, self.confidence = inspection.variables, inspection.confidence
        return inspection

    def finished(self, source: str, executed: str | None, cell: CellRun) -> None:
        """Enter a cell into the record."""
        differs = executed if executed != source else None
        self.record(
            CellFinished(
                self.iteration,
                self.block,
                source,
                differs,
                cell.status,
                cell.outputs,
                cell.execution_count,
                cell.seconds,
            )
        )
        self.block += 1

    async def value(self, name: str | None = None) -> Value:
        """The recorded answer, or a variable, whole."""
        return await self.kernel.get(name)

    async def send_back(self, answer: Value) -> None:
        """Keep a declared answer that does not end the run; the next FINAL counts again."""
        self.kept, self.ready_declared = answer, False
        with contextlib.suppress(KernelDiedError):  # the next cell revives it
            await self.kernel.reopen()

    async def show(self) -> None:
        """Enter what the model is shown of this iteration: its outputs, cut to the limit, and what is left."""
        iteration = self.trajectory.iterations[-1]
        executed = [cell for cell in iteration.cells if cell.status != "skipped"]
        taken = {variable.name for variable in self.variables}
        pieces, whole = [], []
        budget = shown_chars(self.limits, self.model)
        for place, cell in enumerate(executed):
            text = outputs.render(cell.outputs)
            whole.append(text)
            name = f"output_{cell.execution_count}" if cell.execution_count else None
            if name in taken:
                name = f"_{name}"
            shown = outputs.cut(text, max(budget // (len(executed) - place), 200), variable=name)
            if shown.cut and name is not None and self.kernel.is_alive:
                with contextlib.suppress(KernelDiedError):  # the next cell revives it
                    await self.kernel.put(name, text)
            budget -= len(shown.text)
            label = f"Outputs of block {place + 1}:\n" if len(executed) > 1 else "Outputs:\n"
            pieces.append(label + (shown.text or "(none)"))
        skipped = len(iteration.cells) - len(executed)
        if skipped:
            pieces.append(f"{skipped} more block{'s were' if skipped > 1 else ' was'} not executed.")
        self.rendered = "\n".join(whole)
        answered = self.kernel.recorded is not None
        started = self.trajectory.started
        statuses = [] if answered else [cell.status for cell in executed]
        cue = prompts.cue(statuses, self.rendered, started.prompt, started.context)
        pieces.append(prompts.status(self.iteration, self.limits.max_iterations, self.ledger.left(), cue))
        self.record(OutputsShown(self.iteration, "\n\n".join(pieces)))

    async def latest_best(self, seconds: float = _STOP_SECONDS) -> Value | None:
        """The best answer as it is now, also in a cell that was stopped: an answer just recorded goes first.

        Parameters
        ----------
        seconds
            How long the kernel is asked for it.
        """
        if self.kernel.recorded is not None:
            return self.kernel.recorded
        with contextlib.suppress(KernelError, TimeoutError):
            async with asyncio.timeout(seconds):
                inspection = await self.kernel.inspect()
                if inspection.answer == "recorded":
                    return await self.value()
                if inspection.draft:
                    self.draft = await self._read_draft() or self.draft
        return self.best

    async def _read_draft(self) -> Value | None:
        try:
            return await self.kernel.get(DRAFT)
        except KernelDiedError:
            raise
        except KernelError:
            return None  # it can't become text

    async def _revive(self, what: str) -> None:
        """Start the kernel again, and tell the model exactly what is gone, and what is back from a snapshot."""
        before = self.variables
        # a thread may have called FINAL between two cells
        self.kept = self.kernel.recorded or self.kept
        restored = await self._restart()
        text = prompts.revived(what, before, self.variables, restored)
        self.record(NoticeGiven(self.iteration, text, restoration(self.variables, restored)))

    async def _restart(self) -> Restored | None:
        """Start the kernel again, with what a snapshot has; where it dies over that, after a rest once more.

        Raises
        ------
        KernelDiedError
            It has died too often.
        """
        while True:
            self.restarts += 1
            if self.restarts > MOST_RESTARTS:
                raise KernelDiedError(f"the kernel died {self.restarts} times")
            await asyncio.sleep(_REST_SECONDS * (self.restarts - 1))
            try:
                await self.kernel.restart()
                await self.kernel.begin()
                if self.history:
                    await self.kernel.put("history", self.history)
                restored = await self.kernel.restore()
                self.variables = () if restored is None else (await self.kernel.inspect()).variables
                return restored
            except KernelStartError as error:
                raise KernelDiedError(f"the kernel died, and another did not come up: {error}") from error
            except KernelDiedError:
                if not self.kernel.can_restart:
                    raise


def restoration(variables: Sequence[Variable], restored: Restored | None) -> dict[str, Any]:
    """What a snapshot has brought back, for the record; empty where it was nothing."""
    names = [] if restored is None else [variable.name for variable in variables] + [*restored.modules]
    if restored is None or not names:
        return {}
    iteration, block = restored.moment or (0, 0)
    return {"names": names, "iteration": iteration, "block": block}
