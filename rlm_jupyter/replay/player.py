"""`Player`: plays a recorded run back to the loop, which drives it as if it were new, until the record ends.

Replies come from the record; its cells are re-executed to bring the kernel's variables back; their sub-calls get the
recorded answers; their outputs are compared with the recorded ones, which stay the conversation. Where the record
ends, the run goes on like any other; the model is told of every difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rlm_jupyter import parsing
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.continue_live import continue_live, resumption_record
from rlm_jupyter.replay.recalled_calls import answer_of
from rlm_jupyter.replay.recorded_calls import head
from rlm_jupyter.replay.recording import RecordEnds, Recording, copied, recorded_cell
from rlm_jupyter.replay.reexecution import Reexecution
from rlm_jupyter.run.control import Decision
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import (
    CellFinished,
    CellReplayed,
    CellStarted,
    ConversationCompacted,
    DirectReplied,
    NoticeGiven,
    OutputsElided,
    Record,
    ReplyReceived,
    RunEnded,
    SampleSettled,
)
from rlm_jupyter.types.json_schema import takes_none
from rlm_jupyter.types.values import CellRun, Inspection, Subcall, SubcallFailure, SubcallKind, Value


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
        self._reexecution: Reexecution | None = None
        self._held: tuple[list[Record], CellFinished] | None = None
        """The recorded cell that comes next, when somebody has asked for it."""

    @property
    def run(self) -> Run:
        """The run that it plays to.

        Raises
        ------
        RuntimeError
            It has not begun.
        """
        return self._cells.run

    @property
    def _cells(self) -> Reexecution:
        if self._reexecution is None:
            raise RuntimeError("the player has not begun")
        return self._reexecution

    @property
    def takes_none(self) -> bool:
        """As `Playback.takes_none`."""
        return takes_none(self.recording.started.options.get("answer"))

    def begin(self, run: Run) -> None:
        """Enter how the run began."""
        self._reexecution = Reexecution(run, self.recording)
        options = self.recording.options
        if options.spent is not None or options.only:
            # the clock begins when the run goes on
            run.ledger.limit(replace(run.limits, max_seconds=None))
        if not (options.copies or options.only):
            record = resumption_record(run, self.recording)
            if run.event_log.recorder is not None:
                run.event_log.recorder.add(record)
            self.recording.append(record)
        self._apply([self.recording.started])
        self._continue_if_record_ends()

    def record(self, record: Record) -> None:
        """Enter the recorded counterpart of a record; the last one of a run is its own."""
        if isinstance(record, RunEnded):
            self._apply(self.recording.rest())
            self.run.event_log.add(record)
            return
        if self._held is not None and record in self._held[0]:
            return  # such as that a person edited the cell: it is entered with that
        matched = self.recording.match(record)
        if not matched and isinstance(record, NoticeGiven) and self.recording.options.only:
            self.recording.note(self.run.iteration, None, f"The run says what it had not said: {record.text}")
        self._apply(matched)
        self._continue_if_record_ends()

    def next_iteration(self) -> bool:
        """Enter what is left of the last iteration; return whether the run goes on from here by itself.

        Raises
        ------
        RecordEnds
            The record ends, and is only replayed.
        """
        self._apply(self.recording.rest_of_iteration())
        self._continue_if_record_ends()
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
        self._apply(taken)
        tokens = reply.usage.input_tokens + reply.usage.output_tokens
        known = tokens and self.recording.model == run.model.name
        # the request that it answers had all but this last iteration
        run.requests.last_read = (2 * len(run.trajectory.uncompacted), tokens) if known else None
        run.iteration = reply.iteration
        self._continue_if_record_ends()
        return reply

    def went_on(self) -> bool:
        """Return whether the record says that the run did not end with this iteration."""
        return self.recording.went_on(self.run.iteration)

    def wrong_files(self) -> str:
        """Return what the model was told in this iteration of its files; empty where nothing was wrong with them."""
        return self.recording.wrong_files(self.run.iteration)

    def decision(self, source: str) -> Decision | None:
        """Return what a person had decided on the next cell; `None` where it is not in the record."""
        taken, cell = self._recorded_cell()
        if cell is None:
            return None
        self._held = taken, cell
        mended = parsing.mend_cell(source, has_context=self.run.has_context)
        runs = cell.status != "skipped"
        return Decision(
            runs, None if cell.executed == mended else cell.executed, undoes=not runs and self.recording.undoes_next
        )

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
            return await self._reexecute_cell(taken, cell)
        position = self.run.iteration, self.run.cell_state.block
        if self.is_playing:
            if self.recording.options.only and not self.went_on():
                raise RecordEnds
            self.recording.note(*position, "This cell is not in the record, so it was not executed.")
            return CellRun("skipped"), Inspection()
        self.recording.owed.begin(position)
        return None

    def finished(self) -> bool:
        """Enter the recorded cell that a person did not let run; return whether there was one."""
        if self._held is None:
            return False
        taken, recorded = self._held
        self._held = None
        self._apply([*taken, recorded])
        self.run.cell_state.block += 1
        self._continue_if_record_ends()
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
                    own = replace(
                        settled, iteration=self.run.iteration, block=self.run.cell_state.block, ordinal=first + i
                    )
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
        """Return whether a person had stopped the run in this cell, and it is not executed again."""
        return (iteration, block) in self.recording.stopped_in

    def puts_output(self, iteration: int, block: int) -> bool:
        """Return whether what was cut off of a cell's output is put into the kernel; that of an undone one is not."""
        has_it = self.is_playing and self.recording.options.is_live
        return not has_it and (iteration, block) not in self.recording.undone

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
            return answer_of(settled)
        return SubcallFailure(f"this cell is executed again from its record, in which {head(text)!r} was not asked")

    def _recorded_cell(self) -> tuple[list[Record], CellFinished | None]:
        return self.recording.cell(self.run.iteration, self.run.cell_state.block) if self.is_playing else ([], None)

    async def _reexecute_cell(self, taken: list[Record], cell: CellFinished) -> tuple[CellRun, Inspection]:
        """Go over a recorded cell."""
        await self._cells.begin_cell()
        told = [record for record in taken if isinstance(record, NoticeGiven)]
        for died in (notice for notice in told if notice.kind == "died_between"):
            await self._cells.restart(died)
        self._apply(taken)
        self.run.subcalls.begin()
        self.run.emit(CellStarted(cell.iteration, cell.block, cell.source))
        recorded = recorded_cell(cell)
        differs = await self._cells.execute(cell, recorded)
        inspection = await self._cells.inspect(cell)
        self.run.cell_state.block += 1
        executes = self.recording.options.reexecutes and cell.status in {"ok", "error"}
        self._apply([cell])
        self.run.emit(CellReplayed(cell.iteration, cell.block, executes, differs))
        self._continue_if_record_ends()
        return recorded, inspection

    def _apply(self, records: Iterable[Record]) -> None:
        """Enter what is recorded already, and tell it."""
        for record in records:
            if self.recording.options.copies:
                self.run.event_log.enter(copied(record))
            else:
                self.run.trajectory.apply(record)
                self.run.emit(record)
            is_rejected = isinstance(record, ConversationCompacted) and record.rejected
            if isinstance(record, OutputsElided | ConversationCompacted) and not is_rejected:
                self.run.requests.last_read = None  # it was of a longer conversation

    def _continue_if_record_ends(self) -> None:
        """Continue the run live where its record ends, unless it is only replayed."""
        if not self.is_playing or not self.recording.is_over or self.recording.options.only:
            return
        self._apply(self.recording.rest_of_iteration())
        self.is_playing = False
        continue_live(self.run, self.recording)
