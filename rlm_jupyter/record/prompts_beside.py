"""`prompts_beside`: the other prompts of a kernel, laid out for the one notebook in which all of them stand."""

from __future__ import annotations

import contextlib
from functools import partial

from rlm_jupyter.record import journal
from rlm_jupyter.record.notebook_layout import INLINE_BYTES, Layout
from rlm_jupyter.record.run_files import read_child
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError


def prompts_beside(files: RunFiles) -> dict[int, Layout]:
    """Lay out the runs that stand in a run's notebook with it, by their number; those whose journal can be read."""
    found: dict[int, Layout] = {}
    for other in files.prompts():
        if other.number != files.number:
            with contextlib.suppress(RecordError):
                found[other.number] = laid_out(other)
    return found


def laid_out(files: RunFiles) -> Layout:
    """Lay out a run that is kept, from its journal.

    Raises
    ------
    RecordError
        The journal is missing or damaged.
    """
    records = journal.read(files.journal)
    started, context = journal.read_first(files.journal), None
    if started is not None and started.context.nbytes <= INLINE_BYTES:
        with contextlib.suppress(RecordError):  # it was not kept
            context = files.objects.get_context(started.context)
    layout = Layout(files.objects, context, files.number, partial(read_child, files))
    for record in records:
        layout.add(record)
    return layout
