"""The lock of a journal: whoever writes it holds it, and it ends with their process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can't be renamed or removed anyway
    fcntl = None  # type: ignore[assignment]


_files: WeakSet[BufferedReader | FileIO] = WeakSet()
"""That are locked by this process."""


def lock(file: BufferedReader | FileIO) -> bool:
    """Take the file's lock, which ends with the file or its process; whether nobody else has it."""
    if fcntl is not None:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks, such as some network ones
        _files.add(file)
    return True


def _leave() -> None:
    """Close the files in a process that was forked, as those of a pool: their locks would last as long as it does."""
    for file in list(_files):
        (file.raw if isinstance(file, BufferedReader) else file).close()  # no buffer's lock is waited for
    _files.clear()


if fcntl is not None:
    os.register_at_fork(after_in_child=_leave)


def is_open(path: Path) -> bool:
    """Return whether a run that is still going on, here or in another process, writes this journal."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return not lock(file)
    return False


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool]:
    """Keep everybody else from writing a journal; yields `False` where somebody writes it, or it can't be opened."""
    if sys.platform == "win32":  # where nothing that is open is removed or renamed
        yield not is_open(path)
        return
    try:
        file = path.open("rb")
    except OSError:
        yield False
        return
    with file:
        yield lock(file)
