"""The records of a saved run, and of its children, read from what there is of them on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunStarted

_CHILD_ID = re.compile(r"([0-9a-f]{8}[\w-]*)-[0-9a-f]{6}", re.ASCII)
"""The id of a child, with the name of its files in it."""
_MOST_CHILD_BYTES = 8_000_000
"""Of a child's journal: reading it holds up its parent's run."""


def read_files(files: RunFiles) -> tuple[list[Record], list[Record] | None]:
    """Read the records of a run from its journal and its notebook, whichever holds more, as `Trajectory.load` says.

    Returns
    -------
    tuple
        The records, and those of the journal: none where there is no journal, `None` where it is damaged.
    """
    candidates: list[list[Record]] = []
    errors: list[RecordError] = []
    journaled: list[Record] | None = []
    try:
        if files.journal.is_file():
            journaled = journal.read(files.journal)
            candidates.append(journaled)
    except RecordError as error:
        journaled = None
        errors.append(error)
    try:
        candidates += [notebook.read(files.shown, files.objects, files.number)] if files.shown.is_file() else []
    except RecordError as error:
        errors.append(error)
    if not candidates:
        raise errors[0]
    first = candidates[0][0]
    return max((records for records in candidates if records[0] == first), key=len), journaled


def read_child(files: RunFiles, run_id: str) -> Sequence[Record]:
    """Read the records of a run that this one, or one of its children, has started, to show them (`read_short`).

    Returns
    -------
    Sequence
        Empty where they are not there, can't be read, or are very many.
    """
    if (named := _CHILD_ID.fullmatch(run_id)) is None:
        return ()
    path = RunFiles(files.children / f"{named[1]}.ipynb").journal
    try:
        records = journal.read_short(path) if path.stat().st_size <= _MOST_CHILD_BYTES else []
    except (OSError, RecordError):
        return ()
    return records if records and isinstance(records[0], RunStarted) and records[0].run_id == run_id else ()
