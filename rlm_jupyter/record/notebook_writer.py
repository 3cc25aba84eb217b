"""`NotebookWriter`: writes the notebook of a run while the run goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_jupyter.record import atomic, changes
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.child_steps import Children, no_children
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.types.detached import detached_or_here
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record
from rlm_jupyter.types.values import PacksContext

_REST = 10
"""Between two writes, at least so many times what the last one took."""
_log = logging.getLogger(__name__)


class NotebookWriter:
    """Writes a run's notebook; what was encoded once is only joined after that.

    Parameters
    ----------
    path
        The `.ipynb`, replaced as a whole with every write.
    objects
        Where large outputs go; without them everything is inline.
    context
        Put into the notebook when it is small.
    number
        Which of the prompts in the notebook it is.
    beside
        The others, by their number.
    children
        Where the records of the run's children are.
    interval
        Seconds between two writes of `maybe_write`, at least.
    """

    def __init__(
        self,
        path: str | Path,
        objects: Objects | None = None,
        context: PacksContext | None = None,
        *,
        number: int = 1,
        beside: Mapping[int, Layout] | None = None,
        children: Children = no_children,
        interval: float = 1.0,
    ) -> None:
        self.path = Path(path).absolute()
        self._layout = Layout(objects, context, number, children)
        layouts = {**(beside or {}), number: self._layout}
        self._layouts = [layouts[one] for one in sorted(layouts)]
        self._staging = None if objects is None else objects.staging
        self._interval = interval
        self._dirty = False
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None
        self._writing = threading.Lock()
        self._drawn = 0
        self._written = 0
        self._found: atomic.Identity | None = None
        """Of the file as we left it; `None`: there was none."""

    def update(self, record: Record, data: dict[str, Any] | None = None) -> None:
        """Take in the next record; costs what the record is long, whatever came before.

        Parameters
        ----------
        data
            What `encode` made of it, where that is known.

        Raises
        ------
        RecordError
            The first record is not `RunStarted`, or an object can't be written.
        """
        self._layout.add(record, data)
        self._dirty = True

    @property
    def left(self) -> atomic.Identity | None:
        """What tells the file as it was last written from any other; `None`: it was not written."""
        return self._found

    def adopt(self, left: atomic.Identity | None = None) -> None:
        """Take the notebook that was written of this run before; see to it that no change to it is lost.

        Parameters
        ----------
        left
            Of the file, where it is known how it was left: if it is still that one, nobody has changed it.

        Raises
        ------
        RecordError
            It can't be read, or what somebody has changed can't be kept.
        """
        with self._writing:
            try:
                if left is None or atomic.identity(self.path) != left:
                    self._keep_changes(b"".join(joined(self._layouts)))
                self._found = atomic.identity(self.path)
            except OSError as error:
                raise RecordError(f"{self.path} can't be read or copied: {error.strerror}.") from error

    def write(self) -> None:
        """Write now, in this thread.

        Raises
        ------
        RecordError
            The folder or the disk refuses; the notebook is as it was.
        """
        self._replace(*self._draw())

    def maybe_write(self) -> None:
        """See to it that what is new gets written soon: at most once in `interval`, in a thread.

        Returns at once; needs a running loop. A failure is logged, and tried again with the next call:
        the journal has everything, so a run need not end for it.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_when_due())

    async def close(self) -> None:
        """Write the last state, when it is not written yet.

        Raises
        ------
        RecordError
            The folder or the disk refuses.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._dirty:
            await self._write_in_thread()

    async def _write_when_due(self) -> None:
        while self._dirty:
            await asyncio.sleep(self._due - time.monotonic())
            began = time.monotonic()
            try:
                await self._write_in_thread()
            except RecordError as error:
                _log.warning("The notebook is behind its run: %s", error)
                return
            finally:
                took = time.monotonic() - began
                self._due = time.monotonic() + max(self._interval, _REST * took)

    async def _write_in_thread(self) -> None:
        drawn = self._draw()
        try:
            await detached_or_here(lambda: self._replace(*drawn), "rlm_jupyter notebook")
        except BaseException:
            self._dirty = True
            raise

    def _draw(self) -> tuple[int, list[bytes]]:
        """Return the notebook as it is now, in pieces that nothing changes any more."""
        self._dirty = False
        self._drawn += 1
        return self._drawn, joined(self._layouts)

    def _replace(self, number: int, pieces: list[bytes]) -> None:
        with self._writing:
            if number < self._written:
                return  # a write that was given up was overtaken
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if atomic.identity(self.path) not in {None, self._found}:
                    if self._found is None:
                        raise RecordError(f"{self.path} was made by another program, so it is not replaced.")
                    self._keep_changes(b"".join(pieces))
                self._found = atomic.replace(self.path, pieces, staging=self._staging)
            except OSError as error:
                raise RecordError(f"{self.path} can't be written: {error.strerror}.") from error
            self._written = number

    def _keep_changes(self, ours: bytes) -> None:
        """Copy what stands in the run's place, where somebody has changed it."""
        if atomic.identity(self.path) is None:
            return
        found = self.path.read_bytes()
        if changes.is_changed(found, ours):
            kept = atomic.create_numbered(self.path.with_name(f"{self.path.stem}-edited.ipynb"), found)
            _log.warning("%s was edited: your version is saved as %s.", self.path.name, kept.name)
