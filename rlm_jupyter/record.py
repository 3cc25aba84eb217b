"""`Recorder`: keeps a run on disk while it goes on: journal first, then notebook."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rlm_jupyter.encoding import encode
from rlm_jupyter.errors import RecordError
from rlm_jupyter.events import Record
from rlm_jupyter.journal import Journal
from rlm_jupyter.notebook import NotebookWriter
from rlm_jupyter.store import RunFiles
from rlm_jupyter.types import PacksContext

log = logging.getLogger(__name__)


class Recorder:
    """Writes the record of one run.

    Parameters
    ----------
    files
        Where it goes.
    context
        The run's; kept with it, in the background.
    """

    def __init__(self, files: RunFiles, context: PacksContext) -> None:
        self.files = files
        self.run_id = files.new_id()
        self._objects = files.objects
        self._journal = Journal.open(files.journal, self._objects)
        packed = context.packed()
        self._notebook = NotebookWriter(files.notebook, objects=self._objects, context=packed)
        self._begun = False
        self._storing = asyncio.create_task(files.store_context(packed))

    def add(self, record: Record) -> None:
        """Keep a record: at once in the journal, within a second or so in the notebook."""
        self._begun = True
        # once for both: an output of 5 MB takes as long to encode as to print
        data = encode(record, self._objects)
        self._journal.append(record, data)
        self._notebook.update(record, data)
        self._notebook.maybe_write()

    async def close(self) -> None:
        """Write the last state of everything; where nothing was recorded, nothing is left."""
        try:
            await self._storing
        except RecordError as error:
            # the answer is worth more than the copy of a context that the caller has
            log.warning("The context was not kept with the run: %s", error)
        finally:
            self._journal.close()
            if self._begun:
                await self._write_last()
            else:
                shutil.rmtree(self.files.folder, ignore_errors=True)

    async def _write_last(self) -> None:
        try:
            await self._notebook.close()
        except RecordError as error:
            log.warning("The notebook is behind its run, the journal has all of it: %s", error)


@asynccontextmanager
async def recording(
    prompt: str, context: PacksContext, save: Path | bool, parent: Recorder | None = None
) -> AsyncIterator[Recorder | None]:
    """A recorder for a new run, closed on leaving; `None` where nothing is to be saved.

    Parameters
    ----------
    save
        A path, `True` for the default place, or `False`.
    parent
        The recorder of the run that starts this one: its folder is the place then.

    Raises
    ------
    ConfigurationError
        The place can't be written to.
    """
    if save is False:
        yield None
        return
    files = parent.files.child() if parent else RunFiles.create(prompt, None if save is True else save)
    recorder = Recorder(files, context)
    try:
        yield recorder
    finally:
        # also while the run is being cancelled: what was paid for is written
        await asyncio.shield(recorder.close())
