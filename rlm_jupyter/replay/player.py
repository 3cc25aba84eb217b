"""`Player`: plays a recorded run back to the loop, which drives it as if it were new, until the record ends.

Replies come from the record; its cells are re-executed to bring the kernel's variables back; their sub-calls get the
recorded answers; their outputs are compared with the recorded ones, which stay the conversation. Where the record
ends, the run goes on like any other; the model is told of every difference.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rlm_jupyter import parsing
from rlm_jupyter.kernel.snapshots import Moment
from rlm_jupyter.prompts import cues, notices
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.diff import difference
from rlm_jupyter.replay.recording import Difference, RecordEnds, Recording, copied, recorded_cell
from rlm_jupyter.run.cells import look, renew
from rlm_jupyter.run.control import Decision
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import KernelDiedError
from rlm_jupyter.types.events import (
    CellFinished,
    CellReplayed,
    CellStarted,
    DirectReplied,
    NoticeGiven,
    Record,
    ReplyReceived,
    RunEnded,
    RunTakenUp,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellRun, Inspection, Subcall, SubcallFailure, SubcallKind, Value

_COUNTED = "pass"
"""Executed in place of a cell that is passed over, so that the kernel's numbers stay those of the record."""


class Player:
    """Plays a recording back to a run (`run.state.Playback`).

    Parameters
    ----------
    recording
        The record, and how it is played.

    Attributes
    ----------
    is_playing
        Whether there is still something of the record that the loop has to go over.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.is_playing = True
        self._run: Run | None = None
        self._held: tuple[list[Record], CellFinished] | None = None
        """The recorded cell that comes next, when somebody has asked for it."""
        self._is_first = True
        """No cell was re-executed yet."""

    @property
    def run(self) -> Run:
        """The run that it plays to.

        Raises
        ------
        RuntimeError
            It has not begun.
        """
        if self._run is None:
            raise RuntimeError("the player has not begun")
        return self._run

    def begin(self, run: Run) -> None:
        """Enter how the run began."""
        self._run = run
        options = self.recording.options
        if options.spent is not None or options.only:
            # the clock begins when the run goes on
            run.ledger.limit(replace(run.limits, max_seconds=None))
        if not (options.copies or options.only):
            taken_up = RunTakenUp(
                iteration=self.recording.last_iteration,
                model=run.model.name,
                sub_model=next(iter(options.sub_models), run.model.name),
                sub_models=[*options.sub_models] if len(options.sub_models) > 1 else [],
                limits=dataclasses.asdict(run.limits),
                taken_up=datetime.now(UTC).isoformat(timespec="seconds"),
                reexecuted=options.reexecutes,
                sampling=dict(options.sampling),
            )
            if run.entries.recorder is not None:
                run.entries.recorder.add(taken_up)
            self.recording.append(taken_up)
        self._apply([self.recording.started])
        self._take_up_if_over()

    def record(self, record: Record) -> None:
        """Enter the recorded counterpart of a record; the last one of a run is its own."""
        if isinstance(record, RunEnded):
            self._apply(self.recording.rest())
            self.run.entries.add(record)
            return
        matched = self.recording.match(record)
        if not matched and isinstance(record, NoticeGiven) and self.recording.options.only:
            self.recording.note(self.run.iteration, None, f"The run says what it had not said: {record.text}")
        self._apply(matched)
        self._take_up_if_over()

    def next_iteration(self) -> bool:
        """Enter what is left of the last iteration; return whether the run goes on from here by itself.

        Raises
        ------
        RecordEnds
            The record ends, and is only replayed.
        """
        self._apply(self.recording.rest_of_iteration())
        self._take_up_if_over()
        if self.recording.is_over and self.recording.options.only:
            raise RecordEnds
        return self.recording.is_over

    def reply(self) -> ReplyReceived | None:
        """Return the next reply of the record."""
        if not self.is_playing:
            return None
        taken, reply = self.recording.reply()
        if reply is None:
            return None
        run = self.run
        tokens = reply.usage.input_tokens + reply.usage.output_tokens
        known = tokens and self.recording.model == run.model.name
        run.requests.last_read = (2 * len(run.trajectory.iterations) + 2, tokens) if known else None
        self._apply(taken)
        run.iteration = reply.iteration
        self._take_up_if_over()
        return reply

    def went_on(self) -> bool:
        """Whether the record says that the run did not end with this iteration."""
        return self.recording.went_on(self.run.iteration)

    def decision(self, source: str) -> Decision | None:
        """Return what a person had decided on the next cell; `None` where it is not in the record."""
        taken, cell = self._recorded_cell()
        if cell is None:
            return None
        self._held = taken, cell
        mended = parsing.mend_cell(source, has_context=self.run.has_context)
        return Decision(cell.status != "skipped", None if cell.executed == mended else cell.executed)

    async def execute(self) -> tuple[CellRun, Inspection] | None:
        """Re-execute the next recorded cell, which gets its recorded outputs; `None` where the record has ended.

        Raises
        ------
        RecordEnds
            The record ends, and is only replayed.
        """
        taken, cell = self._held or self._recorded_cell()
        self._held = None
        if cell is not None:
            return await self._again(taken, cell)
        place = self.run.iteration, self.run.cells.block
        if self.is_playing:
            if self.recording.options.only and not self.went_on():
                raise RecordEnds
            self.recording.note(*place, "This cell is not in the record, so it was not executed.")
            return CellRun("skipped"), Inspection()
        self.recording.owed.begin(place)
        return None

    def finished(self) -> bool:
        """Enter the recorded cell that a person did not let run; return whether there was one."""
        if self._held is None:
            return False
        taken, recorded = self._held
        self._held = None
        self._apply([*taken, recorded])
        self.run.cells.block += 1
        self._take_up_if_over()
        return True

    def answers(self, call: Subcall, kind: SubcallKind, first: int) -> dict[int, str | SubcallFailure]:
        """Return what the record answers: all of a call while the record is played, then what was paid for already."""
        if self.is_playing:
            return {i: self._answer_again(kind, text, call.model) for i, text in enumerate(call.prompts)}
        answers: dict[int, str | SubcallFailure] = {}
        for i, text in enumerate(call.prompts):
            settled = self.recording.owed.find_in_cell(kind, text, call.model)
            if settled is not None:
                answers[i] = settled.text
                if self.recording.options.copies:
                    own = replace(settled, iteration=self.run.iteration, block=self.run.cells.block, ordinal=first + i)
                    self.run.record(copied(own))
        return answers

    @property
    def asks_models(self) -> bool:
        """Whether the run goes on where the record ends."""
        return not self.recording.options.only

    def samples(self) -> dict[int, SampleSettled]:
        """Return the other samples that have ended, by their number; one that was cancelled has not."""
        return {one.sample: one for one in self.recording.samples if one.stop_reason != "cancelled"}

    def direct(self) -> tuple[DirectReplied, ...]:
        """Return the recorded replies to the question with the whole text."""
        return self.recording.direct

    def unclaimed_child(self, sha256: str) -> tuple[SavedRun, Player] | None:
        """Return a child that was given this text and had not answered when the run was broken off."""
        waiting = self.recording.options.unclaimed.get(sha256)
        if not waiting:
            return None
        child = SavedRun.load(waiting.pop(0))
        waiting_below = child.unclaimed(child.children())
        playback_options = replace(self.recording.options, spent=None, settled=0, unclaimed=waiting_below, owed=())
        return child, Player(Recording(child.records, playback_options))

    def was_stopped_in(self, iteration: int, block: int) -> bool:
        """Whether a person had stopped the run in this cell, and it is not executed again."""
        return (iteration, block) in self.recording.stopped_in

    @property
    def earlier_answer(self) -> Value | None:
        """What the run had ended with before it was resumed."""
        ended = self.recording.ended
        if ended is None or ended.answer is None or self.recording.options.copies or self.recording.options.only:
            return None
        return Value(ended.answer, ended.value, ended.is_json)

    def _answer_again(self, kind: SubcallKind, text: str, model: str | None) -> str | SubcallFailure:
        settled = self.recording.calls.find(kind, text, model)
        if settled is not None:
            return _answer(settled)
        head = text if len(text) <= 60 else f"{text[:60]}…"
        return SubcallFailure(f"this cell is executed again from its record, in which {head!r} was not asked")

    def _recorded_cell(self) -> tuple[list[Record], CellFinished | None]:
        return self.recording.cell(self.run.iteration, self.run.cells.block) if self.is_playing else ([], None)

    async def _again(self, taken: list[Record], cell: CellFinished) -> tuple[CellRun, Inspection]:
        """Go over a recorded cell."""
        if self.recording.moment == (0, 0) and self._is_first:
            await self._keep_variables((0, 0))
        self._is_first = False
        told = [record for record in taken if isinstance(record, NoticeGiven)]
        for died in (notice for notice in told if notice.text.startswith(notices.DIED_BETWEEN)):
            await self._start_again(died)
        self._apply(taken)
        self.run.subcalls.begin()
        self.run.emit(CellStarted(cell.iteration, cell.block, cell.source))
        recorded = recorded_cell(cell)
        differs = await self._replay(cell, recorded)
        inspection = Inspection()
        if self.recording.options.reexecutes and self.run.kernel.is_alive:
            inspection = await look(self.run)
            if recorded.status == "ok":
                await self._keep_variables((cell.iteration, cell.block))
        inspection = await self._as_recorded(cell, inspection)
        self.run.cells.block += 1
        executes = self.recording.options.reexecutes and cell.status in {"ok", "error"}
        self._apply([cell])
        self.run.emit(CellReplayed(cell.iteration, cell.block, executes, differs))
        self._take_up_if_over()
        return recorded, inspection

    async def _replay(self, cell: CellFinished, recorded: CellRun) -> str:
        """Bring its effect on the kernel back; how its outputs differ."""
        if not self.recording.options.reexecutes:
            return ""
        place = cell.iteration, cell.block
        await self.run.kernel.snapshots.begun()
        if cell.status == "died":
            await self._start_again(self.recording.revival())
            return ""
        if cell.status == "interrupted":
            await self.run.kernel.execute(_COUNTED)
            if place not in self.recording.stopped_in or self.recording.options.only:  # else its own notice says it
                self.recording.passed_over.append(cell.iteration)
            return ""
        self.recording.calls.begin(place)
        again = await self.run.kernel.execute(cell.executed or cell.source, cell_seconds=self.run.limits.cell_seconds)
        self.run.subcalls.cut = 0
        differs = difference(recorded, again, f"iteration {cell.iteration}, cell {cell.block + 1}")
        if differs:
            self.recording.note(*place, differs)
        if again.status == "died" or not self.run.kernel.is_alive:
            await self._start_again(None)
        return differs

    async def _as_recorded(self, cell: CellFinished, inspection: Inspection) -> Inspection:
        """Return what the kernel says of itself, less an answer that the record does not have."""
        inspection = replace(inspection, exited=self.recording.exited(cell))
        if not self.went_on() or self.recording.was_sent_back(cell.iteration):
            return inspection
        if inspection.answer == "recorded":
            self.recording.note(cell.iteration, cell.block, "The cell declares an answer, which it had not.")
            await self.run.kernel.reopen()
        return replace(inspection, answer="none", problem="", draft_ready=False)

    async def _keep_variables(self, place: Moment) -> None:
        """Take the snapshot that a recorded death needs, and no other before that; then as a run does."""
        needed = self.recording.moment
        if needed is None or needed == place:
            self.run.kernel.take_snapshot(place)
        if needed == place:
            await self.run.kernel.snapshots.settled()

    async def _start_again(self, notice: NoticeGiven | None) -> None:
        """Start the kernel again, with what had come back then, as the notice has it."""
        self.run.cells.restarts += 1
        self.run.cells.variables = ()
        if not self.recording.options.reexecutes:
            return
        await renew(self.run)
        wanted: list[str] = notice.restored.get("names", []) if notice is not None else []
        if not wanted:
            return
        try:
            restored = await self.run.kernel.restore(wanted)
        except KernelDiedError:  # over the snapshot, which is dropped
            await renew(self.run)
            restored = None
        modules = () if restored is None else restored.modules
        self.run.cells.variables = (await self.run.kernel.inspect()).variables
        back = {variable.name for variable in self.run.cells.variables} | {*modules}
        if missing := [name for name in wanted if name not in back]:
            self.recording.note(self.run.iteration, None, notices.NOT_RESTORED.format(names=", ".join(missing)))

    def _apply(self, records: Iterable[Record]) -> None:
        """Enter what is recorded already, and tell it."""
        for record in records:
            if self.recording.options.copies:
                self.run.entries.enter(copied(record))
            else:
                self.run.trajectory.apply(record)
                self.run.emit(record)

    def _take_up_if_over(self) -> None:
        """Where the record ends, the run goes on: with its bill, its clock, and a word to the model."""
        if not self.is_playing or not self.recording.is_over or self.recording.options.only:
            return
        self._apply(self.recording.rest_of_iteration())
        self.is_playing = False
        self.run.cells.restarts = min(self.run.cells.restarts, 1)
        spent = self.recording.options.spent
        if spent is not None:
            self.run.ledger.limit(self.run.limits)
            self.run.ledger.carry_on(spent.usage, spent.cost, spent.subcalls, spent.seconds)
            self.run.began = time.monotonic() - spent.seconds
        ended = self.recording.ended
        if ended is not None and ended.stop_reason == "errors":
            self.run.errors = 0
        if text := self._news():
            self.run.notice(text)

    def _news(self) -> str:
        """Return what the model has to know of the new kernel and of what may be used now."""
        recording, iterations = self.recording, self.run.trajectory.iterations
        if not iterations:
            return ""
        parts = []
        if not recording.options.reexecutes:
            parts.append(notices.EMPTY_KERNEL)
        if recording.differences:
            parts.append(f"{notices.DIFFERS}\n{as_text(recording.differences)}")
        if recording.passed_over:
            named = ", ".join(map(str, dict.fromkeys(recording.passed_over)))
            parts.append(notices.PASSED_OVER.format(iterations=named))
        is_whole = bool(iterations[-1].shown)
        other_limits = recording.started.limits.get("max_iterations") != self.run.limits.max_iterations
        if is_whole and (recording.ended is not None or (other_limits and not recording.options.copies)):
            status = cues.status(self.run.iteration, self.run.limits.max_iterations, self.run.ledger.left())
            parts.append(notices.GOES_ON.format(status=status))
        return "\n\n".join(parts)


def _answer(settled: SubcallSettled) -> str | SubcallFailure:
    return SubcallFailure(settled.text) if settled.failed else settled.text


def as_text(differences: Sequence[Difference], chars: int = 4_000) -> str:
    """Render differences for the model, cut to `chars`."""
    texts = [f"{one.text}" if one.block is None else f"[iteration {one.iteration}] {one.text}" for one in differences]
    text = "\n".join(texts)
    return text if len(text) <= chars else f"{text[:chars]}\n… ({len(differences)} in all)"
