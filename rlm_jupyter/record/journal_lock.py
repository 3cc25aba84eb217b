"""The lock of a journal: whoever writes it holds it, and it ends with their process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can't be renamed or removed anyway
    fcntl = None  # type: ignore[assignment]


def lock(file: BufferedReader | FileIO) -> bool:
    """Take the file's lock, which ends with the file or its process; whether nobody else has it."""
    if fcntl is not None:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks, such as some network ones
    return True


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
