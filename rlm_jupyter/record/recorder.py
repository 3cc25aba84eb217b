"""`Recorder`: keeps a run on disk while it goes on: journal first, then notebook."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rlm_jupyter.record import atomic, journal, removal
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.record.prompts_beside import PromptsBeside
from rlm_jupyter.record.run_files import read_child
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.detached import detached_or_here
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.events import Record
from rlm_jupyter.types.values import PacksContext, is_same

log = logging.getLogger(__name__)
T = TypeVar("T")
_LARGE = 1 << 24
"""Bytes of a context from which on it is kept when its kernel has it, and not at once."""


class Faults(dict[str, None]):
    """What of a run and its children is not on disk: each in a line, once."""

    def note(self, text: str) -> None:
        """Note one more; log it as well, at once."""
        if text not in self:
            log.warning("%s", text)
        self[text] = None

    def __str__(self) -> str:
        return "; ".join(text.rstrip(".") for text in self)


class Recorder:
    """Writes the record of one run.

    Parameters
    ----------
    files
        Where it goes.
    context
        The run's; kept with it, in the background.
    again
        The run, where it is resumed: what its journal lacks is entered there first.
    faults
        Told what can't be written.
    earlier
        Contexts that the kernel was given before this one, and that no run has kept yet.
    beside
        The other prompts of its kernel, as far as they are laid out.
    parent
        That of the run that has started this one: what it keeps already is not written twice.

    Raises
    ------
    RecordError
        The journal can't be written, or another process writes it.
    """

    def __init__(
        self,
        files: RunFiles,
        context: PacksContext,
        again: SavedRun | None = None,
        faults: Faults | None = None,
        earlier: Sequence[PacksContext] = (),
        beside: PromptsBeside | None = None,
        parent: Recorder | None = None,
    ) -> None:
        self.files = files
        self._prompts = PromptsBeside() if beside is None else beside
        self.faults = Faults() if faults is None else faults
        self.is_lost = False
        """The disk has refused the journal: nothing more is written."""
        self.run_id = files.new_id() if again is None else again.trajectory.run_id
        self._objects = files.objects
        if not self._is_child:
            atomic.sweep_once(files.shown.parent)
        if again is not None and again.journaled < 0:
            journal.set_aside(files.journal)
        self._journal = Journal.open(files.journal, self._objects)
        others = {} if self._is_child else self._prompts.of(files)
        self._notebook = NotebookWriter(
            files.shown,
            objects=self._objects,
            context=context,
            number=files.number,
            beside=others,
            children=partial(read_child, files),
        )
        self._begun = False
        self._is_under_way = asyncio.Event()
        """The kernel has its context, and something is recorded; or nothing ever will be."""
        if again is not None:
            self._take_in(again)
        self._is_shared = bool(others)
        """The notebook has other prompts, and is there already."""
        stored: list[tuple[PacksContext, asyncio.Task[None]]] = [] if parent is None else parent._stored
        task = next((task for kept, task in stored if is_same(kept, context)), None)
        contexts = [*earlier, context]
        self._storing = asyncio.create_task(self._store(contexts)) if task is None else task
        self._stored: list[tuple[PacksContext, asyncio.Task[None]]] = [
            *stored,
            *((one, self._storing) for one in contexts),
        ]
        """Contexts that are kept, and what keeps them, which may still be at it."""

    @property
    def has_begun(self) -> bool:
        """Whether anything is recorded, and kept."""
        return self._begun and not self.is_lost

    @property
    def _is_child(self) -> bool:
        return self.files.notebook.parent.name == CHILDREN

    async def _store(self, contexts: Sequence[PacksContext]) -> None:
        for context in contexts:
            # it would take from the kernel the time that it needs to have it
            if context.nbytes >= _LARGE or not context.is_described:
                await self._is_under_way.wait()
            await self.files.store_context(context.packed())

    def _begin(self) -> None:
        """Take the notebook that has the prompts before, with the first record: before that, nothing may be changed."""
        if not self._begun and self._is_shared:
            self._begun = True
            self.attempt(partial(self._notebook.adopt, self._prompts.left))
        self._begun = True
        self._is_under_way.set()

    def _take_in(self, again: SavedRun) -> None:
        self._begun = True
        self._is_under_way.set()
        for index, record in enumerate(again.records):
            if index >= again.journaled:  # the notebook alone was there, or held more
                self._journal.append(record)
            self._notebook.update(record)
        self._notebook.adopt()

    def journal(self, *records: Record) -> list[dict[str, Any]]:
        """Keep records in the journal, at once; `add` is given what this returns for each, for all the rest."""
        self._begin()
        return self._journal.append(*records)

    def add(self, record: Record, journaled: dict[str, Any] | None = None) -> None:
        """Keep a record: at once in the journal, within a second or so in the notebook.

        Parameters
        ----------
        journaled
            What `journal` returned for it, where it stands there already.
        """
        # once for both: an output of 5 MB takes as long to encode as to print
        data = self.journal(record)[0] if journaled is None else journaled
        self._notebook.update(record, data)
        self._notebook.maybe_write()

    def keep(self, record: Record) -> None:
        """Do as `add`, unless the disk refuses, or has before."""
        self.attempt(partial(self.add, record))

    def attempt(self, write: Callable[[], T], iteration: Callable[[], int] = int) -> T | None:
        """Write something; where the disk refuses, that is noted, and nothing is written from then on.

        Parameters
        ----------
        iteration
            Gives the one that the run is at, for the note. Default: it is at none.
        """
        if self.is_lost:
            return None
        try:
            return write()
        except RecordError as error:
            # the answer is worth more than its record
            self.is_lost = True
            at = iteration()
            since = f" from iteration {at} on" if at else ""
            self.faults.note(f"The run goes on without being saved{since}: {error}")
            return None

    async def close(self) -> None:
        """Write the last state of everything; where nothing was recorded, nothing is left."""
        self._is_under_way.set()
        try:
            await asyncio.shield(self._storing)  # it may be a parent's
        except RecordError as error:
            # the answer is worth more than the copy of a context that the caller has
            self.faults.note(f"The context was not kept with the run: {error}")
        finally:
            # a disk takes milliseconds, and other runs go on meanwhile
            await detached_or_here(self._let_go, "rlm_jupyter record")
            if self._begun:
                await self._write_last()
                if not self._is_child:
                    atomic.remove_staging(self._objects.staging)
            else:
                with contextlib.suppress(OSError):
                    removal.remove_folder(self.files)

    def _let_go(self) -> None:
        try:
            self._journal.close()
        except RecordError as error:
            self.faults.note(f"The run is over, and its journal is not safe yet: {error}")

    async def _write_last(self) -> None:
        try:
            await self._notebook.close()
            self._prompts.left = self._notebook.left
        except RecordError as error:
            has_all = "" if self.is_lost else ", the journal has all of it"
            self.faults.note(f"The notebook is behind its run{has_all}: {error}")


@asynccontextmanager
async def recording(
    prompt: str,
    context: PacksContext,
    save: str | Path | bool,
    parent: Recorder | None = None,
    again: SavedRun | None = None,
    faults: Faults | None = None,
    first: RunFiles | None = None,
    earlier: Sequence[PacksContext] = (),
    beside: PromptsBeside | None = None,
) -> AsyncIterator[Recorder | None]:
    """Yield a recorder for a new run, closed on leaving; `None` where nothing is to be saved.

    Parameters
    ----------
    save
        A path, `True` for the default place, or `False`.
    parent
        The recorder of the run that starts this one: its folder is the place then.
    again
        A run that is resumed: its record grows, wherever it is.
    faults
        Told what can't be written: also the default place, which nobody has asked for by name.
    first
        The first prompt to the same kernel, where it is kept: this one stands in its record.
    earlier, beside
        As for `Recorder`.

    Raises
    ------
    ConfigurationError
        The place that was named can't be written to.
    """
    recorder = None
    faults = Faults() if faults is None else faults
    if again is not None:
        recorder = Recorder(again.files, context, again, faults)
    elif parent is not None and save:
        recorder = _of_child(parent, context)
    elif first is not None and save:
        recorder = Recorder(first.next_prompt(), context, faults=faults, earlier=earlier, beside=beside)
    elif save is True:
        recorder = _by_default(prompt, context, faults, earlier)
    elif save:
        recorder = Recorder(RunFiles.create(prompt, save), context, faults=faults, earlier=earlier)
    if recorder is None:
        yield None
        return
    try:
        yield recorder
    finally:
        # also while the run is being cancelled: what was paid for is written
        await asyncio.shield(recorder.close())


def _by_default(prompt: str, context: PacksContext, faults: Faults, earlier: Sequence[PacksContext]) -> Recorder | None:
    try:
        return Recorder(RunFiles.create(prompt), context, faults=faults, earlier=earlier)
    except (ConfigurationError, RecordError) as error:
        faults.note(f"The run is not saved: {error}")
        return None


def _of_child(parent: Recorder, context: PacksContext) -> Recorder | None:
    """Make a child's recorder; none where the disk refuses by now: its answer is worth more than its record."""
    try:
        return Recorder(parent.files.child(), context, faults=parent.faults, parent=parent)
    except (ConfigurationError, RecordError) as error:
        parent.faults.note(f"A child run goes on without being saved: {error}")
        return None
