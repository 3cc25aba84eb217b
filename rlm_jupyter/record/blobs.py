"""`Objects`: large things of a run, each in a file that is named by its SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from rlm_jupyter.record import atomic
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import ContextInfo, PackedContext

CHILDREN = "children"
"""The folder, inside of a run's, where the runs that it started are; they share its objects."""
PROMPTS = "prompts"
"""The folder, inside of a run's, where the further prompts to its kernel are; they share its objects, too."""
SHARED_BYTES = 1_000_000
"""From this size on, runs of one folder that keep the same share a file, by a hard link; so each can be removed."""
Buffer = bytes | memoryview
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def digest(buffers: Iterable[Buffer]) -> str:
    """Return the SHA-256, in hexadecimal, of the buffers one after the other."""
    sha = hashlib.sha256()
    for buffer in buffers:
        sha.update(buffer)
    return sha.hexdigest()


def is_digest(value: object) -> bool:
    """Return whether this is a SHA-256 in hexadecimal, as `digest` returns it."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def context_kind(info: ContextInfo) -> Literal["none", "str", "bytes", "pickle"]:
    """Return how a context with this description is packed."""
    if info.type_name == "none":
        return "none"
    if info.type_name == "str":
        return "str"
    return "bytes" if info.type_name == "bytes" else "pickle"


def _has(path: Path, size: int) -> bool:
    """Return whether a file is there, and whole: a power cut can leave a name without its bytes."""
    return path.is_file() and path.stat().st_size == size


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Objects:
    """Content-addressed files: what is the same is kept once, what is read is checked.

    Parameters
    ----------
    folder
        Made when the first object is put.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_run(cls, run_folder: Path) -> Objects:
        """Return the objects of the run whose folder is this; a child's, and a further prompt's, are its root's."""
        while run_folder.parent.name in {CHILDREN, PROMPTS} and run_folder.parents[1].suffix == ".rlm":
            run_folder = run_folder.parents[1]
        return cls(run_folder / "objects")

    @property
    def staging(self) -> Path:
        """Where files that are being written are: objects, and the notebooks of the run and its children."""
        return self.folder.parent / atomic.STAGING

    def path(self, sha256: str) -> Path:
        """Return where the object is, or would be.

        Raises
        ------
        RecordError
            That is no digest: a record of somebody else's may name any path.
        """
        if not is_digest(sha256):
            raise RecordError(
                f"{quoted(sha256)} is no SHA-256: this record is damaged, or was not written by rlm_jupyter."
            )
        return self.folder / sha256

    def label(self, sha256: str) -> str:
        """Return where the object is, for people: `NAME.rlm/objects/SHA256`."""
        return f"{self.folder.parent.name}/{self.folder.name}/{sha256}"

    def put(self, content: Buffer | Iterable[Buffer], sha256: str = "") -> str:
        """Keep `content`, and say how it is found again.

        Parameters
        ----------
        content
            Bytes, or several buffers that are kept one after the other, never joined in memory.
        sha256
            Of the content, where it is known.

        Returns
        -------
        str
            The SHA-256, in hexadecimal.

        Raises
        ------
        RecordError
            The folder or the disk refuses.
        """
        buffers = [content] if isinstance(content, bytes | memoryview) else list(content)
        sha256 = sha256 or digest(buffers)
        path = self.path(sha256)
        try:
            size = sum(memoryview(buffer).nbytes for buffer in buffers)
            if not _has(path, size):
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (size >= SHARED_BYTES and self._link(path, size)):
                    atomic.replace(path, buffers, sync=False, staging=self.staging)
        except OSError as error:
            raise RecordError(f"{self.folder} can't be written: {error.strerror}.") from error
        return sha256

    def _link(self, path: Path, size: int) -> bool:
        """Share the file of a run beside this one that keeps the same; returns whether one does."""
        if path.exists():
            return False
        for other in self.folder.parent.parent.glob(f"*.rlm/{self.folder.name}/{path.name}"):
            with contextlib.suppress(OSError):  # a file system without hard links, or the other was just removed
                # what is shared is whole: else the damage of one run would be that of all
                if _has(other, size) and not other.is_symlink() and _digest_of(other) == path.name:
                    path.hardlink_to(other)
                    return True
        return False

    def get(self, sha256: str) -> bytes:
        """Return the content that `put` named so.

        Raises
        ------
        RecordError
            The file is missing, can't be read, or no longer holds what was put; names file and hash.
        """
        path = self.path(sha256)
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise RecordError(f"{path} is no plain file. Delete it.")
            content = path.read_bytes()
        except FileNotFoundError:
            raise RecordError(f"{self.label(sha256)} is missing in {self.folder.parent.parent}.") from None
        except OSError as error:
            raise RecordError(f"{path} can't be read: {error.strerror}.") from error
        if digest([content]) != sha256:
            raise RecordError(f"{path} is damaged: its content is not what its name says. Delete it.")
        return content

    def put_context(self, packed: PackedContext) -> None:
        """Keep a context; what was kept already is not written again.

        Raises
        ------
        RecordError
            The folder or the disk refuses.
        """
        if packed.kind == "none":
            return
        sha256 = self.put(packed.buffers, packed.info.sha256)
        if packed.kind == "pickle":
            lengths = [memoryview(buffer).nbytes for buffer in packed.buffers]
            try:
                content = [json.dumps(lengths).encode()]
                atomic.replace(self._lengths(sha256), content, sync=False, staging=self.staging)
            except OSError as error:
                raise RecordError(f"{self.folder} can't be written: {error.strerror}.") from error

    def get_context(self, info: ContextInfo) -> PackedContext:
        """Return the context that a run's record describes. Nothing is unpickled here.

        Raises
        ------
        RecordError
            It is not here, or no longer what it was; names file and hash.
        """
        kind = context_kind(info)
        if kind == "none":
            return PackedContext("none", info=info)
        content = self.get(info.sha256)
        if kind != "pickle":
            return PackedContext(kind, (content,), info)
        try:
            lengths = [int(length) for length in json.loads(self._lengths(info.sha256).read_bytes())]
        except (OSError, ValueError):
            raise RecordError(f"{self._lengths(info.sha256)} is missing or damaged.") from None
        view, buffers, start = memoryview(content), list[Buffer](), 0
        for length in lengths:
            buffers.append(view[start : start + length])
            start += length
        return PackedContext(kind, tuple(buffers), info)

    def _lengths(self, sha256: str) -> Path:
        return self.path(sha256).with_suffix(".lengths")
