"""`Layout`: the records of a run laid out as the cells of a notebook.

Long because what becomes of each kind of record is decided here.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, assert_never

from rlm_jupyter.parsing import Segment, parse
from rlm_jupyter.record import attempts
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.boundaries import closing_line, opening_line
from rlm_jupyter.record.child_steps import Children, ChildSteps, no_children
from rlm_jupyter.record.encoding import dump, encode
from rlm_jupyter.record.head_cells import farewell, greeting
from rlm_jupyter.record.notebook_cell import NotebookCell, Role
from rlm_jupyter.record.notice import UNREAD, notice_of, remark_on, resampled_notice, unread_notice
from rlm_jupyter.record.said import said
from rlm_jupyter.record.subcall_fold import SubcallFold
from rlm_jupyter.record.subcall_texts import CELL_CHARS, NOTEBOOK_CHARS, Room, Texts
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import (
    CellFinished,
    ConversationCompacted,
    DirectReplied,
    IterationRated,
    NoticeGiven,
    OutputsElided,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    RunResumed,
    RunStarted,
    SampleSettled,
    SubcallSettled,
)
from rlm_jupyter.types.values import CellStatus, PacksContext

SCHEMA = 1
"""Of `metadata.rlm`. Raised when an older version would read it wrongly."""
INLINE_BYTES = 65_536
"""A context up to this size stands in the notebook itself."""
_FIRST_CELLS = 3
"""The prompt, the cell that restores the run, and the line above the model's."""
_TAGS: dict[CellStatus, tuple[str, ...]] = {
    "ok": (),
    "error": ("raises-exception",),
    "interrupted": ("rlm-interrupted", "skip-execution"),
    "died": ("rlm-died", "skip-execution"),
    "skipped": ("rlm-skipped", "skip-execution"),
}
"""So that executing the notebook as a whole goes on after an error, and does not hang where a run did."""
_UNDONE = ("rlm-undone", "skip-execution")
"""Of a cell that a person had undone."""


class Layout:
    """A notebook that grows by records; what was encoded once is only joined after that.

    Parameters
    ----------
    objects
        Where large outputs go; without them everything is inline.
    context
        Put into the notebook when it is small.
    prompt
        Which of the prompts to its kernel the run answers.
    children
        Where the records of its children are: what these did is shown below the sub-calls that they answered.
    """

    def __init__(
        self,
        objects: Objects | None = None,
        context: PacksContext | None = None,
        prompt: int = 1,
        children: Children = no_children,
    ) -> None:
        self._objects = objects
        self._children = children
        self._prompt = prompt
        self._tag = {} if prompt == 1 else {"prompt": prompt}
        self._context = None if context is None else _inline(context)
        self._cells: list[NotebookCell] = []
        self._blocks: dict[tuple[int, int], NotebookCell] = {}
        self._cells_of: defaultdict[int, int] = defaultdict(int)
        self._asked: dict[str, SubcallFold] = {}
        self._replies = 0
        self._at = 0
        self._started: RunStarted | None = None
        self._ended: RunEnded | None = None
        self._records: list[bytes] = []
        self._attempts: list[attempts.Attempt] = []

    def add(self, record: Record, data: dict[str, Any] | None = None) -> None:
        """Take in the next record; costs what the record is long, whatever came before.

        Raises
        ------
        RecordError
            The first record is not `RunStarted`, or an object can't be written.
        """
        if self._started is None and not isinstance(record, RunStarted):
            raise RecordError(f"A run begins with RunStarted, not with {type(record).__name__}.")
        data = {"at": self._at} | (encode(record, self._objects) if data is None else data)
        self._ended = None
        match record:
            case RunStarted():
                self._begin(record, data)
            case ReplyReceived():
                self._reply(record, data)
            case CellFinished():
                self._finish(record, data)
            case SubcallSettled():
                cell = self._blocks.get((record.iteration, record.block), self._cells[-1])
                cell.add(dump(data))
                self._asked.setdefault(cell.id, SubcallFold(self._texts.within(CELL_CHARS), self._steps)).take(record)
            case NoticeGiven() | ConversationCompacted() | RunResumed():
                if isinstance(record, NoticeGiven) and record.undoes:
                    self._undo(record.undoes)
                self._add("notice", record.iteration, notice_of(record)).add(dump(data))
            case OutputsShown() | IterationRated() | OutputsElided():
                self._cells[-1].add(dump(data))
            case SampleSettled() | DirectReplied():
                self._attempts.append(record)
                self._records.append(dump(data))
            case RunEnded():
                self._ended = record
                self._records.append(dump(data))
            case _:
                assert_never(record)
        self._at += 1

    def cells(self) -> list[bytes]:
        """Return the cells as they are now."""
        cells: list[bytes] = []
        if not self._cells:
            return cells
        # where the host failed before the first reply, there is nothing to tell from a person's cells
        is_framed = len(self._cells) > _FIRST_CELLS or bool(self._attempts) or not self._cells[-1].is_bare
        for own in self._cells if is_framed or self._ended is None else self._cells[:-1]:
            cells.append(own.encode())
            if own.id in self._asked:
                cells.append(self._asked[own.id].encode(own, self._tag))
        if self._attempts:
            listed = attempts.markdown(self._attempts)
            cells.insert(_FIRST_CELLS, self._markdown("samples", listed, "samples"))
        if self._ended is not None:
            # right below the prompt: a reader finds question and answer first
            cells.insert(1, self._markdown("answer", farewell(self._ended), "answer"))
            if is_framed:
                cells.append(self._markdown("end", closing_line(self._ended), "boundary"))
        return cells

    def metadata(self, more: Sequence[bytes] = ()) -> bytes:
        """Return what the notebook's metadata has of the run.

        Parameters
        ----------
        more
            The same of the further prompts to its kernel.
        """
        started, ended = self._started, self._ended
        ours: dict[str, Any] = {"schema": SCHEMA, **self._tag}
        if started is not None:
            ours |= {"version": started.version, "run_id": started.run_id, "model": started.model}
        if started is not None and started.forked_from is not None:
            ours["forked_from"] = {"run_id": started.forked_from, "iteration": started.forked_at}
        if ended is not None:
            ours |= {"stop_reason": ended.stop_reason, "cost": ended.cost}
        if self._context is not None:
            ours["context"] = self._context
        records = b",\n   ".join(self._records)
        prompts = b', "prompts": [\n   ' + b",\n   ".join(more) + b"\n  ]" if more else b""
        return dump(ours)[:-1] + prompts + b', "records": [\n   ' + records + b"\n  ]}"

    def _markdown(self, suffix: str, source: str, role: Role) -> bytes:
        return NotebookCell("markdown", f"{self._id_base}-{suffix}", source, {"role": role, **self._tag}).encode()

    @property
    def _id_base(self) -> str:
        return id_base(self._started.run_id if self._started is not None else "")

    def _begin(self, record: RunStarted, data: dict[str, Any]) -> None:
        if self._started is not None:
            raise RecordError("A run begins once: this is a second RunStarted.")
        self._started = record
        rest = f"jupyter rlm export {record.run_id} --to html shows them"
        self._texts = Texts(rest, Room(NOTEBOOK_CHARS), self._objects)
        self._steps = ChildSteps(self._children, self._texts)
        self._records.append(dump(data))
        base, restore = self._id_base, f"%load_ext rlm_jupyter\n%rlm_restore {record.run_id}"
        self._cells += [
            NotebookCell("markdown", f"{base}-prompt", greeting(record, self._prompt), {"role": "prompt", **self._tag}),
            NotebookCell("code", f"{base}-restore", restore, {"role": "restore", **self._tag}),
            NotebookCell("markdown", f"{base}-begin", opening_line(record), {"role": "boundary", **self._tag}),
        ]

    def _add(
        self,
        role: Role,
        iteration: int,
        source: str,
        *,
        kind: Literal["markdown", "code"] = "markdown",
        hidden: bool = False,
        **meta: Any,
    ) -> NotebookCell:
        number = self._cells_of[iteration]
        self._cells_of[iteration] += 1
        ours = {"role": role, "iteration": iteration} | self._tag | meta
        shown = said(source) if kind == "markdown" else source
        cell = NotebookCell(kind, f"{self._id_base}-{iteration}-{number}", shown, ours, hidden=hidden)
        self._cells.append(cell)
        return cell

    def _reply(self, record: ReplyReceived, data: dict[str, Any]) -> None:
        if record.rejected:
            self._add("rejected", record.iteration, f"> {resampled_notice(record.rejected)[0]}").add(dump(data))
            return
        reply = self._replies
        self._replies += 1
        segments, rest = segments_of(record)
        if not any(segment.text for segment in segments):
            self._add("reply", record.iteration, "> The model's reply was empty.").add(dump(data))
            return
        del data["text"]
        data |= {"reply": reply} | ({"rest": rest} if rest else {})
        block = 0
        for part, segment in enumerate(segments):
            at: dict[str, Any] = {"reply": reply, "part": part, "prefix": segment.prefix, "suffix": segment.suffix}
            if segment.kind == "prose":
                if said(segment.text) != segment.text:
                    at["text"] = segment.text
                cell = self._add("prose", record.iteration, segment.text, segment=at)
            else:
                if segment.source != segment.text:  # line breaks or an indentation that code can't keep
                    at["text"] = segment.text
                cell = self._add("code", record.iteration, segment.source, kind="code", block=block, segment=at)
                self._blocks[record.iteration, block] = cell
                block += 1
            if part == 0:
                cell.add(dump(data))
        if remark := remark_on(record):
            text = unread_notice(record) if remark == UNREAD else f"> {remark}"
            self._add("notice", record.iteration, text)

    def _undo(self, position: tuple[int, ...]) -> None:
        iteration, block = position
        if (cell := self._blocks.get((iteration, block))) is not None:
            cell.tag(_UNDONE)

    def _finish(self, record: CellFinished, data: dict[str, Any]) -> None:
        cell = self._blocks.get((record.iteration, record.block))
        if cell is None or cell.finished:
            cell = self._add("code", record.iteration, record.source, kind="code", block=record.block, made=True)
            self._blocks[record.iteration, record.block] = cell
        cell.show(data.pop("outputs"), data.pop("execution_count"), _TAGS[record.status])
        if cell.source == record.source:
            del data["source"]
        cell.add(dump(data))


def id_base(run_id: str) -> str:
    """Return what the ids of a run's cells begin with; those of an iteration go on with its number and their own."""
    # the end of a run id is what tells it from others; a cell's id has 64 characters at most
    return re.sub(r"[^a-zA-Z0-9_-]", "-", run_id)[-32:]


def segments_of(record: ReplyReceived) -> tuple[tuple[Segment, ...], str]:
    """Return a reply's segments, and the rest that is not read; no block of a last reply is executed."""
    if record.forced:
        return (Segment("prose", record.text),), ""
    parsed = parse(record.text)
    return parsed.segments, record.text[parsed.read :]


def _inline(context: PacksContext) -> dict[str, Any] | None:
    if context.kind == "none" or context.nbytes > INLINE_BYTES:
        return None
    if context.kind == "str":
        return {"kind": "str", "text": str(context.buffers[0], "utf-8", "surrogatepass")}
    return {"kind": context.kind, "base64": [base64.b64encode(buffer).decode() for buffer in context.buffers]}
