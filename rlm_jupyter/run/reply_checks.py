"""`rejection`: why a reply is resampled: it says nothing, or nothing new.

Small models repeat themselves, or play the other side of the conversation. What is rejected stays in the record, and
out of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm_jupyter import parsing
from rlm_jupyter.prompts import cues
from rlm_jupyter.record.iteration import Cell, Iteration
from rlm_jupyter.record.messages import read_part
from rlm_jupyter.run.state import Run

EMPTY = "is empty"
REPEATS = "repeats the reply before it"
REPEATS_EARLIER = "repeats an earlier reply"
PLAYS = "repeats what it was told"
_DIGITS = re.compile(r"\d+")
_TOLD = re.compile(r"^(?:</?(?:beginning|prompt|notes)_*>|Iteration \d+ of \d+\.)", re.MULTILINE)
"""A line of ours."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a reply does not count."""

    reason: str
    notice: str = ""
    """What the model is told of it."""


def rejection(run: Run, reply: parsing.ParsedReply, text: str) -> Rejection | None:
    """Return why a reply, of which `text` is read, is resampled; `None` where it counts."""
    if not text.strip():
        return Rejection(EMPTY)
    if reason := _nothing_new(run, reply):
        cells = run.trajectory.iterations[-1].cells
        return Rejection(reason, cues.nudge([cell.status for cell in cells], run.cell_state.rendered))
    return None


def accept(run: Run, reply: parsing.ParsedReply) -> parsing.ParsedReply:
    """Remember the reply's cells under this iteration, by which a repetition is found; return the reply."""
    run.replies.iteration_of[_said(reply)] = run.iteration
    return reply


def may_reject(run: Run, block: str) -> bool:
    """Return whether a reply may be resampled, depending on what follows this first block of it."""
    before = run.trajectory.iterations[-1:]
    if not before:
        return False
    said = [*run.replies.iteration_of, _said(_parsed(before[0]))]
    begins_so = parsing.normal(block)
    is_repeated = any(cells[:1] == [begins_so] for _, *cells in said)
    return is_repeated or _is_echo(run, block)


def _nothing_new(run: Run, reply: parsing.ParsedReply) -> str:
    """Return why a reply is rejected: it repeats one that failed or changed nothing, or what the model was told."""
    before = run.trajectory.iterations[-2:]
    if not before:
        return ""
    if _echoes_conversation(run, reply):
        return PLAYS
    if not _alike(reply, _parsed(before[-1])):
        return REPEATS_EARLIER if _is_known(run, reply) else ""
    cells = before[-1].cells
    if not cells:
        # a FINAL that the model was asked to confirm is to be repeated
        return "" if reply.declared is not None else REPEATS
    executed = [cell for cell in cells if cell.status != "skipped"]
    if _died(executed):
        # whether the cell or somebody else killed the kernel shows only when it is executed once more
        killed_before = len(before) == 2 and _died(before[0].cells) and _alike(reply, _parsed(before[0]))
        return REPEATS if killed_before else ""
    failed = any(cell.status != "ok" for cell in executed)
    known = executed and (all(map(parsing.is_settled, reply.blocks)) or _changed_nothing(before, reply))
    return REPEATS if failed or known else ""


def _died(cells: Sequence[Cell]) -> bool:
    return any(cell.status == "died" for cell in cells)


def _parsed(iteration: Iteration) -> parsing.ParsedReply:
    return parsing.parse(read_part(iteration))


def _echoes_conversation(run: Run, reply: parsing.ParsedReply) -> bool:
    """Return whether a reply continues the conversation where code is due: with our words, or the last outputs."""
    if not reply.blocks:
        return reply.unclosed and _TOLD.search(reply.prose) is not None
    return _is_echo(run, reply.blocks[0])


def _is_echo(run: Run, block: str) -> bool:
    """Return whether a block is nothing but our words, or the last outputs."""
    block = block.strip()
    shown = run.cell_state.rendered.strip()
    return parsing.is_no_code(block) and bool(_TOLD.search(block) or (shown and block.startswith(shown)))


def _said(reply: parsing.ParsedReply) -> tuple[str, ...]:
    """Return its cells, white space and comments aside, and the answer beside them."""
    declared = reply.declared
    return (declared.content if declared is not None else "", *map(parsing.normal, reply.blocks))


def _is_known(run: Run, reply: parsing.ParsedReply) -> bool:
    """Return whether these cells were executed before, and must come to what the model is still shown of that."""
    index = run.replies.iteration_of.get(_said(reply), 0)
    forgotten = max(run.trajectory.elided_through, run.trajectory.compacted_through)
    if not reply.blocks or index <= forgotten or not all(map(parsing.is_settled, reply.blocks)):
        return False
    cells = next((one.cells for one in reversed(run.trajectory.iterations) if one.index == index), ())
    # what had no name then may have been imported since
    return bool(cells) and all(cell.status in {"ok", "error"} and not _lacks_name(cell) for cell in cells)


def _lacks_name(cell: Cell) -> bool:
    return any(output.get("ename") == "NameError" for output in cell.outputs)


def _changed_nothing(before: Sequence[Iteration], reply: parsing.ParsedReply) -> bool:
    """Return whether the cells of a reply were executed twice already, to the same effect, and will have no other.

    What polls, or draws at random, shows it only when it is repeated.
    """
    if len(before) < 2 or not _alike(reply, _parsed(before[0])):
        return False
    one, other = ([_shown(cell) for cell in iteration.cells] for iteration in before)
    return one == other and not any(map(parsing.may_advance, reply.blocks))


def _alike(one: parsing.ParsedReply, other: parsing.ParsedReply) -> bool:
    """Return whether replies have the same cells, white space and comments aside, or, without any, the same words."""
    if one.blocks or other.blocks or _said(one) != _said(other):
        return _said(one) == _said(other)
    # one that repeats what it was told repeats what was left then, too
    return _DIGITS.sub("0", one.prose).split() == _DIGITS.sub("0", other.prose).split()


def _shown(cell: Cell) -> object:
    """Return what came of a cell, less the numbers that are others each time."""
    asked = sorted(call.prompt_sha256 for call in cell.subcalls)
    return asked, [{k: v for k, v in output.items() if k != "execution_count"} for output in cell.outputs]
