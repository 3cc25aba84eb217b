"""What a person changed in the saved notebook of a run: the code of its cells, against what the journal has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlm_jupyter import parsing
from rlm_jupyter.record.changes import cells_of, source_in
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, ReplyReceived
from rlm_jupyter.types.values import CellPosition


def edited_cells(files: RunFiles, journaled: Sequence[Record]) -> dict[CellPosition, str]:
    """Return the cells of the saved notebook whose code is not what the run had, with what it is now.

    Parameters
    ----------
    journaled
        The records of the run's journal. Without them nobody can tell: then there are none.
    """
    if not journaled or not files.shown.is_file():
        return {}
    layout = Layout(files.objects)
    for record in journaled:
        layout.add(record)
    pristine = {cell["id"]: cell for cell in cells_of(b"".join(joined([layout]))) or ()}
    edited: dict[CellPosition, str] = {}
    for cell in cells_of(files.shown.read_bytes()) or ():
        was, ours = pristine.get(cell.get("id", "")), cell.get("metadata", {}).get("rlm", {})
        if was is None or cell.get("cell_type") != "code" or ours.get("role") != "code":
            continue
        now = source_in(cell)
        if now != source_in(was):
            edited[ours["iteration"], ours["block"]] = now
    return dict(sorted(edited.items()))


def with_edits(reply: ReplyReceived, edited: dict[CellPosition, str]) -> ReplyReceived:
    """Return the reply as if the model had written the blocks that a person edited.

    Raises
    ------
    RecordError
        With what was written the blocks can't be told apart any more.
    """
    parsed = parsing.parse(reply.text)
    block, pieces, sources = 0, [], []
    for segment in parsed.segments:
        text = segment.text
        if segment.kind != "prose":
            source = edited.get((reply.iteration, block))
            sources.append(segment.source if source is None else source)
            text = text if source is None else source
            block += 1
        pieces.append(segment.prefix + text + segment.suffix)
    if any(iteration == reply.iteration and number >= block for iteration, number in edited):
        raise RecordError(f"Of iteration {reply.iteration} only the cells can be edited that its reply has.")
    text = "".join(pieces)
    again = parsing.parse(text)
    if [block.strip() for block in again.blocks] != [source.strip() for source in sources]:
        raise RecordError(f"The edited cell of iteration {reply.iteration} can't be put back into its reply.")
    return replace(reply, text=text, read=again.read)
