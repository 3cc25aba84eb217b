"""The run as a notebook: written while it goes on, and read back into the records it was made of.

Prose is Markdown, blocks are code cells with their outputs, what the run told the model is quoted. A
record stands whole in the `metadata.rlm` of the cell it belongs to (or of the notebook), under `records`,
with its place (`at`) among all; only what the cell itself shows is left out there: a reply's text, a
cell's source and outputs. Joining each cell of a reply with its `segment` gives the reply byte for byte.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlm_jupyter.record import atomic, changes
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import decode, unescaped
from rlm_jupyter.record.notebook_cell import outputs_of, source_of
from rlm_jupyter.record.notebook_layout import SCHEMA, Layout
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunStarted
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import PackedContext

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
    interval
        Seconds between two writes of `maybe_write`, at least.
    """

    def __init__(
        self,
        path: str | Path,
        objects: Objects | None = None,
        context: PackedContext | None = None,
        *,
        interval: float = 1.0,
    ) -> None:
        self.path = Path(path).absolute()
        self._layout = Layout(objects, context)
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

    def adopt(self) -> None:
        """Take the notebook that an earlier process has written of this run; see to it that no change to it is lost.

        Raises
        ------
        RecordError
            It can't be read, or what somebody has changed can't be kept.
        """
        with self._writing:
            try:
                self._keep_changes(b"".join(self._layout.pieces()))
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
            await asyncio.to_thread(self._replace, *drawn)
        except BaseException:
            self._dirty = True
            raise

    def _draw(self) -> tuple[int, list[bytes]]:
        """Return the notebook as it is now, in pieces that nothing changes any more."""
        self._dirty = False
        self._drawn += 1
        return self._drawn, self._layout.pieces()

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


def read(path: str | Path, objects: Objects | None = None) -> list[Record]:
    """Return the records that a run's notebook was made of, in order.

    Cells that are not ours are passed over, and so are copies of cells; a cell that was edited counts as
    it is now.

    Parameters
    ----------
    path
        The `.ipynb`.
    objects
        Where large outputs are; those of `NAME.rlm` beside the notebook, when left out. An output that
        is not there is as short as the notebook shows it.

    Raises
    ------
    RecordError
        It can't be read, is not the notebook of a run, or a newer version wrote it (named).
    """
    path = Path(path)
    content = _load(path)
    ours = content["metadata"]["rlm"]
    objects = objects or Objects.of_run(path.with_suffix(".rlm"))
    version = str(ours.get("version", ""))
    cells = [cell for cell in content["cells"] if "rlm" in cell["metadata"]]
    replies = _replies(cells)
    records: dict[int, Record] = {}
    try:
        for cell, data in _records(ours, cells):
            at = data.pop("at")
            if at not in records:
                records[at] = decode(_filled(data, cell, replies), objects, version=version)
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{path}: metadata.rlm is damaged ({quoted(error)}).") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    return [records[at] for at in sorted(records)]


def read_started(path: str | Path) -> RunStarted:
    """Return the first record of a run, from its notebook.

    Raises
    ------
    RecordError
        As `read`.
    """
    record = read(path)[0]
    if not isinstance(record, RunStarted):
        raise RecordError(f"{path}: the record does not begin with RunStarted.")
    return record


def read_context(path: str | Path) -> PackedContext | None:
    """Return the context that stands in the notebook itself; `None` when it was not small enough for that.

    Raises
    ------
    RecordError
        As `read`.
    """
    context = unescaped(_load(Path(path))["metadata"]["rlm"]).get("context")
    if context is None:
        return None
    if "text" in context:
        buffers: tuple[bytes, ...] = (context["text"].encode("utf-8", "surrogatepass"),)
    elif "gzip" in context:  # of an exported run: a large one
        try:
            buffers = tuple(gzip.decompress(base64.b64decode(buffer)) for buffer in context["gzip"])
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise RecordError(f"{path}: metadata.rlm.context is damaged ({error}).") from error
    else:
        buffers = tuple(base64.b64decode(buffer) for buffer in context["base64"])
    return PackedContext(context["kind"], buffers, read_started(path).context)


def is_run(path: str | Path) -> bool:
    """Whether a file is the notebook of a run."""
    return bool(run_id(path))


def run_id(path: str | Path) -> str:
    """Return the id of the run whose notebook this is; an empty text where it is none."""
    try:
        return str(_load(Path(path))["metadata"]["rlm"]["run_id"] or "")
    except (RecordError, KeyError):
        return ""


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RecordError(f"There is no {path}.") from None
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}.") from error
    except ValueError as error:
        raise RecordError(f"{path} is not a notebook: {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise RecordError(f"{path} is not a notebook.")
    ours = content["metadata"].get("rlm")
    if not isinstance(ours, dict) or "schema" not in ours or not isinstance(content.get("cells"), list):
        raise RecordError(f"{path} is a notebook, but not the notebook of a run.")
    if ours["schema"] != SCHEMA:
        raise RecordError(
            f"{path} was written by rlm_jupyter {ours.get('version') or '(unknown)'} (schema {ours['schema']}); "
            f"this one reads schema {SCHEMA}. Upgrade to read it."
        )
    return content


def _records(ours: dict[str, Any], cells: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each record's data, with the cell that it is attached to (the notebook's own: an empty one)."""
    for data in ours["records"]:
        yield {}, unescaped(data)
    for cell in cells:
        for data in cell["metadata"]["rlm"].get("records", ()):
            yield cell, dict(unescaped(data))


def _filled(data: dict[str, Any], cell: dict[str, Any], replies: dict[int, str]) -> dict[str, Any]:
    """Return a record's data with what its cell shows put back."""
    if data["record"] == "ReplyReceived" and "text" not in data:
        return data | {"text": replies[data.pop("reply")] + data.pop("rest", "")}
    if data["record"] == "CellFinished":
        shown = {"outputs": outputs_of(cell), "execution_count": cell["execution_count"]}
        return {"source": source_of(cell)} | data | shown
    return data


def _replies(cells: list[dict[str, Any]]) -> dict[int, str]:
    """Return the texts of the replies, each from its cells."""
    parts: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for cell in cells:
        if "segment" in (ours := unescaped(cell["metadata"]["rlm"])):
            segment = ours["segment"]
            text = segment["text"] if "text" in segment else source_of(cell)
            parts[segment["reply"]].setdefault(segment["part"], segment["prefix"] + text + segment["suffix"])
    return {reply: "".join(texts[place] for place in sorted(texts)) for reply, texts in parts.items()}
