"""Files that are replaced whole or not at all, whatever happens to the process in between."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
_FRESH_SECONDS = 60.0
"""How long a temporary file is left alone after it was last written to, locked or not."""


def replace(path: Path, buffers: Iterable[bytes | memoryview], *, sync: bool = True) -> None:
    """Make `buffers` the content of `path`, which nobody ever sees half-written.

    Parameters
    ----------
    path
        Its folder exists. A symbolic link stays one: what it points to is replaced.
    buffers
        Written one after the other, without being joined first.
    sync
        Wait until the bytes are on the disk, so that the file survives a power cut too.

    Raises
    ------
    OSError
        The folder or the disk refuses; `path` is as it was.
    """
    path = Path(os.path.realpath(path))
    temporary, file = _temporary(path)
    try:
        with file:
            file.writelines(buffers)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(path.stat().st_mode)
            if sys.platform == "win32":
                file.close()  # Windows renames no open file; elsewhere its lock says that somebody is at it
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create(path: Path, content: bytes) -> None:
    """Make a new file with this content, which nobody ever sees half-written. What is there already stays.

    Raises
    ------
    FileExistsError
        Anything has that name, if only a link that leads nowhere.
    OSError
        The folder or the disk refuses.
    """
    temporary, file = _temporary(path)
    try:
        with file:
            file.write(content)
        if sys.platform == "win32":
            temporary.rename(path)  # which replaces nothing there
            return
        try:
            path.hardlink_to(temporary)  # a rename would replace what another process has put there meanwhile
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("xb") as file:
                try:
                    file.write(content)
                except BaseException:
                    path.unlink()
                    raise
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> tuple[Path, IO[bytes]]:
    """A new hidden file in the same folder, because a rename does not cross file systems; locked while it is open."""
    while True:
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        file = temporary.open("xb")  # plain `open`, so that the umask holds
        if sys.platform == "win32":
            return temporary, file
        with contextlib.suppress(OSError):  # where files can't be locked, they can't be swept either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # swept in between


@cache
def sweep_once(folder: Path) -> None:
    """Remove what killed processes have left of `replace` in a folder of runs: once, while nobody waits for it."""
    if sys.platform != "win32":  # where a file that somebody writes can't be told from one that nobody does
        threading.Thread(target=sweep, args=[folder], name="rlm_jupyter sweep", daemon=True).start()


def sweep(folder: Path) -> None:
    """Remove, in a folder and in the `NAME.rlm` there, the temporary files of our user whose process is gone."""
    with contextlib.suppress(OSError):
        found = [*folder.glob(".*.tmp"), *folder.glob("*.rlm/**/.*.tmp")]
        for path in found:
            with contextlib.suppress(OSError):
                if _TEMPORARY.fullmatch(path.name):
                    _sweep(path)


def _sweep(path: Path) -> None:
    if sys.platform == "win32":
        return
    about = path.lstat()
    is_ours = about.st_uid == os.getuid() and stat.S_ISREG(about.st_mode)
    if not is_ours or time.time() - about.st_mtime < _FRESH_SECONDS:
        return
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
