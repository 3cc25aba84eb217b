"""`write_file`: a file is put into a folder of the user's, which a kernel may be able to write to as well.

So no link is followed there: a new file is made beside the name and linked to it, which replaces nothing; where a
replacement is agreed on, the name itself is replaced, whatever it leads to. What the run has brought there before is
replaced, too, as long as nobody has changed it. And the folder is the one that it was when the run began, by its
number: one that was put in its place gets nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from rlm_jupyter.record import atomic
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

_MOST_NUMBERS = 10_000
_READING = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # as far as the system has them
    _READING |= getattr(os, _flag, 0)
Identity = tuple[int, int]


_users: Counter[Identity] = Counter()
"""How many runs of this process write to a folder."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where files go."""

    path: Path
    identity: Identity | None = None
    """Device and number, as it was when the run began; `None`: it has not."""
    is_new: bool = False
    """The run has made it."""

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return a folder that is there, or can be made: no more than its last part is missing.

        Raises
        ------
        ConfigurationError
            It can't be one.
        """
        try:
            path = path.expanduser().absolute()
            is_there, can_be = path.exists(), path.is_dir() or (not os.path.lexists(path) and path.parent.is_dir())
        except (OSError, ValueError, RuntimeError) as error:  # a name with a zero byte, a home of nobody
            raise ConfigurationError(f"The folder {quoted(str(path))} for the files can't be used: {error}.") from None
        if not can_be:
            why = (
                "is no folder" if is_there else "does not exist, and can't be made: more than its last part is missing"
            )
            raise ConfigurationError(f"The folder for the files, {path}, {why}.")
        return cls(path)

    def made(self) -> Self:
        """Return the same, which is there from now on, and known by its number.

        Raises
        ------
        ConfigurationError
            It can't be made, or written to.
        """
        try:
            is_new = not self.path.exists()
            self.path.mkdir(exist_ok=True)
            about = self.path.stat()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"The folder {quoted(str(self.path))} can't be made: {why}.") from None
        if not os.access(self.path, os.W_OK):
            raise ConfigurationError(f"The folder {self.path} for the files can't be written to.")
        identity = about.st_dev, about.st_ino
        _users[identity] += 1
        return replace(self, identity=identity, is_new=is_new or self.is_new)

    def leave(self) -> None:
        """Take note that the run is over; an empty folder that it has made, and no other run uses, is removed."""
        if self.identity is None:
            return
        _users[self.identity] -= 1
        if self.is_new and _users[self.identity] <= 0:
            with contextlib.suppress(OSError):
                about = self.path.lstat()
                if self.identity == (about.st_dev, about.st_ino):
                    self.path.rmdir()


def is_taken(folder: Folder, name: str, ours: Collection[str]) -> bool:
    """Return whether something has that name in the folder, but a file of these SHA-256."""
    path = folder.path / name
    return os.path.lexists(path) and not _is_ours(path, ours)


def write_file(folder: Folder, name: str, content: bytes, *, replaces: bool, ours: Collection[str] = ()) -> Path:
    """Put a file there, whole or not at all.

    Parameters
    ----------
    replaces
        A regular file of that name is replaced; else, and where something else has the name, it becomes `NAME-2`.
    ours
        SHA-256 of files that are replaced all the same.

    Returns
    -------
    Path
        The file, which may be an earlier one that holds exactly this.

    Raises
    ------
    OSError
        The folder is another one by now, or it or the disk refuses.
    """
    if sys.platform == "win32":  # which has no calls by a folder's number, and no links without a privilege
        path = folder.path / name
        if path.is_file() and (replaces or _is_ours(path, ours)):
            atomic.replace(path, [content], sync=False)
            return path
        return atomic.create_numbered(path, content)
    with _opened(folder) as at:
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            _write(at, temporary, content)
            return folder.path / _named(at, temporary, name, content, replaces or _is_ours(name, ours, at))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=at)


@contextmanager
def _opened(folder: Folder) -> Iterator[int]:
    at = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        about = os.fstat(at)
        if folder.identity not in {None, (about.st_dev, about.st_ino)}:
            raise OSError(errno.ESTALE, "it is another folder than when the run began")
        yield at
    finally:
        os.close(at)


def _write(at: int, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o666, dir_fd=at), "wb") as file:  # noqa: PTH123  flags
        file.write(content)


def _named(at: int, temporary: str, name: str, content: bytes, replaces: bool) -> str:
    """Give the file its name, or the first free one after it."""
    stem, suffix = Path(name).stem, Path(name).suffix
    for number in range(1, _MOST_NUMBERS):
        free = name if number == 1 else f"{stem}-{number}{suffix}"
        if number == 1 and replaces and _is_file(at, free):
            os.replace(temporary, free, src_dir_fd=at, dst_dir_fd=at)
            return free
        try:
            os.link(temporary, free, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        except FileExistsError:
            if _holds(at, free, content):
                return free
        except OSError:  # a file system without links
            try:
                _write(at, free, content)
            except FileExistsError:
                continue
            return free
        else:
            return free
    raise FileExistsError(errno.EEXIST, "too many files have names like it")


def _is_file(at: int, name: str) -> bool:
    """Return whether that is a regular file, and not the notebook of a run that is kept."""
    try:
        about = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(about.st_mode):
        return False
    if not name.endswith(".ipynb"):
        return True
    with contextlib.suppress(FileNotFoundError):
        os.stat(f"{Path(name).stem}.rlm", dir_fd=at, follow_symlinks=False)
        return False
    return True


def _is_ours(path: Path | str, ours: Collection[str], at: int | None = None) -> bool:
    """Return whether a regular file has one of these SHA-256."""
    if not ours:
        return False
    try:
        found = os.open(path, _READING, dir_fd=at)
    except OSError:
        return False
    with open(found, "rb") as file:  # noqa: PTH123  flags
        is_file = stat.S_ISREG(os.fstat(found).st_mode)
        return is_file and hashlib.file_digest(file, "sha256").hexdigest() in ours


def _holds(at: int, name: str, content: bytes) -> bool:
    """Return whether a regular file has exactly this content."""
    try:
        found = os.open(name, _READING, dir_fd=at)
    except OSError:
        return False
    with open(found, "rb") as file:  # noqa: PTH123  flags
        about = os.fstat(found)
        is_alike = stat.S_ISREG(about.st_mode) and about.st_size == len(content)
        return is_alike and file.read(len(content) + 1) == content
