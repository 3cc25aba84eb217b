"""The records of a saved run, read from what there is of it on disk."""

from __future__ import annotations

from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record


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
