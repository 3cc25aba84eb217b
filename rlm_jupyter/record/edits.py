"""What a person changed in the saved notebook of a run: the code of its cells, against what the journal has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rlm_jupyter import parsing
from rlm_jupyter.record.changes import cells_of
from rlm_jupyter.record.notebook_cell import source_of
from rlm_jupyter.record.notebook_layout import id_base, segments_of
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import CellFinished, Record, ReplyReceived, RunStarted
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
    started = journaled[0]
    ids = id_base(started.run_id if isinstance(started, RunStarted) else "")
    written, edited = _written(journaled), dict[CellPosition, str]()
    for cell in cells_of(files.shown.read_bytes()) or ():
        ours = cell.get("metadata", {}).get("rlm", {})
        if cell.get("cell_type") != "code" or ours.get("role") != "code":
            continue
        if not str(cell.get("id", "")).startswith(f"{ids}-"):  # somebody has copied it
            continue
        position, now = (ours["iteration"], ours["block"]), source_of(cell)
        if now not in written.get(position, [now]):
            edited[position] = now
    return dict(sorted(edited.items()))


def _written(journaled: Sequence[Record]) -> dict[CellPosition, list[str]]:
    """Return the code that the run has put into its notebook, by its place; more than one where a cell was remade."""
    written: defaultdict[CellPosition, list[str]] = defaultdict(list)
    for record in journaled:
        if isinstance(record, ReplyReceived) and not record.rejected:
            code = [segment.source for segment in segments_of(record)[0] if segment.kind != "prose"]
            for block, source in enumerate(code):
                written[record.iteration, block].append(source)
        elif isinstance(record, CellFinished):
            written[record.iteration, record.block].append(record.source)
    return written


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
