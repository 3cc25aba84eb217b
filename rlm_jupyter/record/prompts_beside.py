"""`PromptsBeside`: the other prompts of a kernel, laid out for the one notebook in which all of them stand."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

from rlm_jupyter.record import atomic, journal
from rlm_jupyter.record.notebook_layout import INLINE_BYTES, Layout
from rlm_jupyter.record.run_files import read_child
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError


class PromptsBeside:
    """The prompts of one kernel, each laid out once for all that come after it."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[atomic.Identity, Layout]] = {}
        """By journal: the file that was read, and what came of it."""
        self.left: atomic.Identity | None = None
        """Of the notebook, as the prompt before has left it; `None`: there was none, or it is not known."""

    def of(self, files: RunFiles) -> dict[int, Layout]:
        """Lay out the runs that stand in a run's notebook with it, by number; those whose journal can be read."""
        found: dict[int, Layout] = {}
        for other in files.prompts():
            if other.number != files.number:
                with contextlib.suppress(RecordError):
                    found[other.number] = self._laid_out(other)
        return found

    def _laid_out(self, files: RunFiles) -> Layout:
        now, before = atomic.identity(files.journal), self._known.get(files.journal)
        if before is not None and before[0] == now:
            return before[1]
        layout = laid_out(files)
        if now is not None:
            self._known[files.journal] = now, layout
        return layout


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
