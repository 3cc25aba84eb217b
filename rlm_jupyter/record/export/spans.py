"""`spans`: a run as a trace: runs, iterations, requests, cells, sub-calls and calls of tools, nested.

What was paid for is one span each, with its cost, and no other span has that attribute: their sum is what the run has
cost. Ids are derived from the run's, so that the same run gives the same trace.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.export import semconv as names
from rlm_jupyter.record.export import span as said
from rlm_jupyter.record.export.costs import stopped
from rlm_jupyter.record.export.span import Attributes, Kind, Span, SpanEvent
from rlm_jupyter.record.export.timeline import Interval, Timeline
from rlm_jupyter.record.export.windows import windows
from rlm_jupyter.types.endings import why_ended
from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    IterationRated,
    Record,
    ReplyReceived,
    RunResumed,
    SampleSettled,
    SubcallSettled,
)

if TYPE_CHECKING:
    from rlm_jupyter.record.export.bundle import WholeRun

_CELL = "python"
"""What a cell is called as a tool."""
_Of = ReplyReceived | CellFinished | SubcallSettled | IterationRated


def spans(run: WholeRun) -> list[Span]:
    """Return the spans of a run and of those below it, parents before children; of a session, a trace for each prompt.

    Prompts, replies, code and outputs are in them where the environment variable `semconv.CAPTURE` says so.
    """
    has_content = os.environ.get(names.CAPTURE, "").strip().lower() in names.CAPTURED
    found: list[Span] = []
    for one in (run, *run.prompts):
        _RunSpans(one, _digest(one.trajectory.run_id, 16), found, has_content=has_content).add(None)
    return found


class _Place(NamedTuple):
    """What holds at a record of a run."""

    number: int
    model: str
    sub_model: str
    is_compacted: bool


class _RunSpans:
    """Makes the spans of one run."""

    def __init__(self, run: WholeRun, trace_id: str, found: list[Span], *, has_content: bool) -> None:
        self._run = run
        self._trace_id = trace_id
        self._found = found
        self._has_content = has_content
        self._trajectory = run.trajectory
        self._timeline = Timeline(run.trajectory)
        self._children = {child.trajectory.run_id: child for child in run.children}
        self._places: dict[int, _Place] = {}
        model, sub_model, is_compacted = self._trajectory.started.model, self._trajectory.started.sub_model, False
        for number, record in enumerate(self._trajectory.records):
            if isinstance(record, RunResumed):
                model, sub_model = record.model, record.sub_model
            is_compacted |= isinstance(record, ConversationCompacted) and not record.rejected
            self._places[id(record)] = _Place(number, model, sub_model or model, is_compacted)
        self._model = model
        self._sent = self._conversations() if has_content else {}

    def add(self, parent: str | None) -> None:
        """Add the run's span and all below it."""
        me = self._add_run(parent)
        iterations: defaultdict[int, list[_Of]] = defaultdict(list)
        for record in self._trajectory.records:
            if isinstance(record, ReplyReceived) and record.forced:
                self._add_reply(record, me)
            elif isinstance(record, ReplyReceived | CellFinished | SubcallSettled | IterationRated):
                iterations[record.iteration].append(record)
            elif isinstance(record, DirectReplied):
                self._add_paid(record, me, record.text)
            elif isinstance(record, ConversationCompacted) and record.model:
                self._add_paid(record, me, record.summary)
            elif isinstance(record, SampleSettled) and record.child not in self._children:
                self._add_paid(record, me, record.answer or "")
        for number, records in iterations.items():
            self._add_iteration(number, records, me)
        for child in list(self._children.values()):  # samples, and those that did not answer yet
            self._add_child(child, me)
        if (lost := stopped(self._run)) is not None:
            attributes = said.chat(self._model) | said.billed(lost.usage, lost.cost) | {names.ERROR_TYPE: "cancelled"}
            why = "requests that were stopped on the way"
            self._add("stopped", me, "CLIENT", (self._timeline.over,) * 2, attributes, error=why)

    def _add(
        self,
        of: Record | str,
        parent: str | None,
        kind: Kind,
        interval: Interval,
        attributes: Attributes,
        *,
        name: str = "",
        error: str | None = None,
        events: tuple[SpanEvent, ...] = (),
    ) -> str:
        """Add a span of a record, or of what there is once in a run; return its id."""
        path = of if isinstance(of, str) else self._places[id(of)].number
        span_id = _digest(f"{self._trajectory.run_id} {path}", 8)
        attributes = said.clean(attributes | {names.CONVERSATION: self._trajectory.run_id})
        name = name or said.name(attributes)
        why = None if error is None else said.whole(error)
        self._found.append(
            Span(self._trace_id, span_id, parent, name, kind, interval, attributes, error=why, events=events)
        )
        return span_id

    def _add_run(self, parent: str | None) -> str:
        started, ended = self._trajectory.started, self._trajectory.ended
        end = self._trajectory if ended is None else ended
        attributes = said.agent(started.model) | said.tokens(end.usage)
        attributes |= {names.AGENT_VERSION: started.version, names.RUN: started.run_id, names.DEPTH: started.depth}
        error: str | None = "it has not ended"
        if ended is not None:
            attributes[names.STOP_REASON] = ended.stop_reason
            is_good = ended.answer is not None and ended.stop_reason not in {"failed", "answer_invalid"}
            error = None if is_good else why_ended(ended.stop_reason, ended.message)
        if end.cost is not None:
            attributes[names.TOTAL_COST] = end.cost
        if error is not None:
            attributes[names.ERROR_TYPE] = "unfinished" if ended is None else ended.stop_reason
        if self._has_content:
            attributes[names.INPUT_MESSAGES] = said.messages([("user", started.prompt)])
            if end.answer is not None:
                attributes[names.OUTPUT_MESSAGES] = said.output(end.answer)
        return self._add(
            "run", parent, "INTERNAL", (self._timeline.begun, self._timeline.over), attributes, error=error
        )

    def _add_child(self, child: WholeRun, parent: str) -> None:
        del self._children[child.trajectory.run_id]
        _RunSpans(child, self._trace_id, self._found, has_content=self._has_content).add(parent)

    def _add_iteration(self, number: int, records: list[_Of], parent: str) -> None:
        times = [self._timeline.of(record) for record in records if not isinstance(record, IterationRated)]
        if not times:
            return
        interval = min(begun for begun, _ in times), max(over for _, over in times)
        attributes: Attributes = {names.ITERATION: number}
        events: list[SpanEvent] = []
        for rated in records:
            if isinstance(rated, IterationRated):
                attributes[names.REWARD] = rated.reward
                about: Attributes = {names.EVALUATION_NAME: "reward", names.EVALUATION_SCORE: rated.reward}
                about[names.EVALUATION_EXPLANATION] = rated.explanation
                events.append(SpanEvent(names.EVALUATION, interval[1], said.clean(about)))
        path = f"iteration {number}"
        me = self._add(path, parent, "INTERNAL", interval, attributes, name="iteration", events=tuple(events))
        calls: list[SubcallSettled] = []
        for record in records:
            if isinstance(record, ReplyReceived):
                self._add_reply(record, me)
            elif isinstance(record, SubcallSettled):
                calls.append(record)
            elif isinstance(record, CellFinished):
                self._add_cell(record, [call for call in calls if call.block == record.block], me)
                calls = [call for call in calls if call.block != record.block]
        for call in calls:  # of a cell that was broken off
            self._add_call(call, me)

    def _add_reply(self, reply: ReplyReceived, parent: str) -> None:
        attributes: Attributes = {names.FINISH_REASONS: [names.FINISHES.get(reply.finish, reply.finish)]}
        if reply.rejected:
            attributes[names.RESAMPLED] = reply.rejected
        if id(reply) in self._sent:
            attributes[names.INPUT_MESSAGES] = self._sent[id(reply)]
        if self._places[id(reply)].is_compacted:
            attributes[names.COMPACTED] = True
        self._add_paid(reply, parent, reply.text, attributes)

    def _add_paid(
        self,
        record: ReplyReceived | DirectReplied | ConversationCompacted | SampleSettled,
        parent: str,
        text: str,
        more: Attributes | None = None,
    ) -> None:
        asked = self._places[id(record)].model
        attributes = said.agent(asked) if isinstance(record, SampleSettled) else said.chat(asked)
        attributes |= said.billed(record.usage, record.cost) | (more or {}) | {names.RESPONSE_MODEL: record.model}
        if self._has_content:
            finish = record.finish if isinstance(record, ReplyReceived) else "stop"
            attributes[names.OUTPUT_MESSAGES] = said.output(text, finish)
        self._add(record, parent, "CLIENT", self._timeline.of(record), attributes)

    def _add_cell(self, cell: CellFinished, calls: list[SubcallSettled], parent: str) -> None:
        if cell.status == "skipped":
            return
        attributes = said.tool(_CELL, f"{cell.iteration}.{cell.block}") | {names.CELL_STATUS: cell.status}
        if cell.status != "ok":
            raised = [str(output["ename"]) for output in cell.outputs if output["output_type"] == "error"]
            attributes[names.ERROR_TYPE] = raised[-1] if raised else cell.status
        if self._has_content:
            attributes[names.TOOL_ARGUMENTS] = json.dumps({"code": cell.source})
            attributes[names.TOOL_RESULT] = outputs.render(cell.outputs)
        error = None if cell.status == "ok" else cell.status
        me = self._add(cell, parent, "INTERNAL", self._timeline.of(cell), attributes, error=error)
        for call in sorted(calls, key=lambda call: call.ordinal):
            self._add_call(call, me)

    def _add_call(self, call: SubcallSettled, parent: str) -> None:
        if call.child in self._children:
            self._add_child(self._children[call.child], parent)
            return
        attributes = said.call(
            call, call.asked_model or self._places[id(call)].sub_model, has_content=self._has_content
        )
        kind: Kind = "INTERNAL" if call.kind == "tool" else "CLIENT"
        error = call.text if call.failed else None
        self._add(call, parent, kind, self._timeline.of(call), attributes, error=error)

    def _conversations(self) -> dict[int, str]:
        """Return what was sent for each reply that counted, by the identity of its record."""
        return {
            id(turn.reply): said.messages(
                (message.role, message.content) for message in window.messages[: turn.message]
            )
            for window in windows(self._trajectory)
            for turn in window.turns
        }


def _digest(text: str, size: int) -> str:
    """Return so many bytes of a text's digest, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: 2 * size]
