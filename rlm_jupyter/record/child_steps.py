"""The iterations of a child run as Markdown, folded below the sub-call that it answered. Bounded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from rlm_jupyter.parsing import parse
from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.escaped import count, escaped
from rlm_jupyter.record.iteration import Cell, Iteration, iteration_of
from rlm_jupyter.record.subcall_list import listed_call, named
from rlm_jupyter.record.subcall_texts import Texts
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.events import (
    CellFinished,
    IterationRated,
    NoticeGiven,
    OutputsShown,
    Record,
    ReplyReceived,
    RunEnded,
    SubcallSettled,
)

Children = Callable[[str], Sequence[Record]]
"""Gives the records of a child, by its run id; none where they are not to be had."""
_TEXT_CHARS = 20_000
"""Of a text, a source or an output."""
_CHILD_CHARS = 200_000
"""Of HTML for one child, with those below it."""
_NOTEBOOK_CHARS = 4_000_000
"""Of HTML for all children of a notebook: a page with more in it opens slowly."""
_LEAST_CHARS = 1_000
"""With less room than this, no child is read."""
_MOST_CALLS = 10
"""Sub-calls of a child's cell that are listed."""
_OF_ITERATION = ReplyReceived | SubcallSettled | CellFinished | NoticeGiven | OutputsShown | IterationRated


def no_children(_: str) -> Sequence[Record]:
    """Return no records: nobody has any."""
    return ()


class ChildSteps:
    """Renders what children did, as long as there is room for it in their notebook.

    Parameters
    ----------
    children
        Where their records are.
    texts
        Shows what they asked.
    """

    def __init__(self, children: Children, texts: Texts) -> None:
        self._children = children
        self._texts = texts
        self._left = _NOTEBOOK_CHARS

    def of(self, call: SubcallSettled) -> str:
        """Return the iterations of the child that answered a sub-call, as HTML in one line; empty where it had none."""
        if call.child is None or self._left < _TEXT_CHARS:
            return ""
        shown = _child(self._children, self._texts, call.child, min(self._left, _CHILD_CHARS))
        self._left -= len(shown)
        return shown


def _child(children: Children, texts: Texts, run_id: str, room: int) -> str:
    if room < _LEAST_CHARS:
        return ""
    records = children(run_id)
    iterations = list(_iterations(records))
    if not iterations:
        return ""

    def below(other: str) -> Sequence[Record]:
        return () if other == run_id else children(other)  # a record of somebody else's may name any run

    shown, left = "", room
    for done, iteration in enumerate(iterations):
        more = _iteration(iteration, below, texts, left // 2)
        if len(more) > left:
            further = count(len(iterations) - done, "further iteration" if done else "iteration")
            shown += f"<p>{further}: {escaped(f'in the record of {run_id}')}.</p>"
            break
        shown, left = shown + more, left - len(more)
    last = records[-1]
    end = f" · {in_short(last.stop_reason, last.message)}" if isinstance(last, RunEnded) else ""
    title = f"Steps of the child: {count(len(iterations), 'iteration')}{end}"
    return f"<details><summary>{escaped(title)}</summary><blockquote>{shown}</blockquote></details>"


def _iterations(records: Sequence[Record]) -> Iterator[Iteration]:
    of: defaultdict[int, list[Record]] = defaultdict(list)
    counted: dict[int, None] = {}
    for record in records:
        if isinstance(record, _OF_ITERATION):
            of[record.iteration].append(record)
            if isinstance(record, ReplyReceived) and not record.rejected and not record.forced:
                counted[record.iteration] = None
    return (iteration_of(index, of[index]) for index in counted)


def _iteration(iteration: Iteration, children: Children, texts: Texts, room: int) -> str:
    """Render prose and cells as the reply has them; a cell that was made of prose comes last."""
    cells = {cell.block: cell for cell in iteration.cells}
    block, shown = 0, f"<p><strong>Iteration {iteration.index}</strong></p>"
    for segment in parse(iteration.reply.text).segments:
        if segment.kind == "prose":
            shown += f"<p>{escaped(_cut(segment.text))}</p>" if segment.text.strip() else ""
        else:
            cell = cells.pop(block, None)
            shown += (
                named("Code, not run", _cut(segment.source)) if cell is None else _cell(cell, children, texts, room)
            )
            block += 1
    return shown + "".join(_cell(cell, children, texts, room) for cell in cells.values())


def _cell(cell: Cell, children: Children, texts: Texts, room: int) -> str:
    state = "" if cell.status == "ok" else f", {cell.status}"
    number = "" if cell.execution_count is None else f" [{cell.execution_count}]"
    shown = named(f"Cell{number}{state}", _cut(cell.source))
    for call in sorted(cell.subcalls, key=lambda call: call.ordinal)[:_MOST_CALLS]:
        below = "" if call.child is None else _child(children, texts, call.child, room - len(shown))
        shown += listed_call(call, texts.within(room - len(shown) - len(below)), steps=below)
    if (more := len(cell.subcalls) - _MOST_CALLS) > 0:
        shown += f"<p>{count(more, 'further sub-call')}.</p>"
    put_out = outputs.render(cell.outputs, where="in the notebook")
    return shown + (named("Output", _cut(put_out)) if put_out else "")


def _cut(text: str) -> str:
    # of a long one also its long lines are cut
    return text if len(text) <= _TEXT_CHARS else outputs.cut(text, _TEXT_CHARS, variable=None).text
