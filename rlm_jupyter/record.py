"""`Recorder`: keeps a run on disk while it goes on: journal first, then notebook."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Self

from rlm_jupyter.errors import RecordError
from rlm_jupyter.events import Record
from rlm_jupyter.journal import Journal
from rlm_jupyter.notebook import NotebookWriter
from rlm_jupyter.store import RunFiles
from rlm_jupyter.types import PackedContext

log = logging.getLogger(__name__)


class Recorder:
    """Writes the record of one run.

    Parameters
    ----------
    files
        Where it goes.
    packed
        The run's context; kept with it, in the background.
    """

    def __init__(self, files: RunFiles, packed: PackedContext) -> None:
        self.files = files
        self.run_id = files.new_id()
        self._journal = Journal.open(files.journal, files.objects)
        self._notebook = NotebookWriter(files.notebook, objects=files.objects, context=packed)
        self._storing = asyncio.create_task(files.store_context(packed))

    @classmethod
    def create(cls, prompt: str, packed: PackedContext, save: Path | bool) -> Self | None:
        """A recorder for a new root run, or `None` where nothing is to be saved.

        Parameters
        ----------
        save
            A path, `True` for the default place, or `False`.

        Raises
        ------
        ConfigurationError
            The place can't be written to.
        """
        if save is False:
            return None
        return cls(RunFiles.create(prompt, None if save is True else save), packed)

    def child(self, packed: PackedContext) -> Recorder:
        """A recorder for a run that this one starts, kept inside its folder."""
        return Recorder(self.files.child(), packed)

    def add(self, record: Record) -> None:
        """Keep a record: at once in the journal, within a second or so in the notebook."""
        self._journal.append(record)
        self._notebook.update(record)
        self._notebook.maybe_write()

    async def close(self) -> None:
        """Write the last state of everything."""
        try:
            await self._storing
        except RecordError as error:
            # the answer is worth more than the copy of a context that the caller has
            log.warning("The context was not kept with the run: %s", error)
        finally:
            self._journal.close()
            await self._notebook.close()
