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
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

STAGING = "unfinished"
"""In a run's folder: where the temporary files of its notebook and its objects are. Nothing else belongs there."""
_MARKER = "rlm_jupyter"
_FORMAT = b"Files that rlm_jupyter has not finished. The next run removes those that nobody writes any more.\n"
"""What stands in the marker of such a folder: without it, nothing there is removed."""
_TEMPORARY = re.compile(r"[0-9a-f]{16}\.tmp")
Identity = tuple[int, int, int, int]
"""Device, number, size and time of change of a file."""
_FRESH_SECONDS = 60.0
"""How long a temporary file is left alone after it was last written to, locked or not."""


def replace(
    path: Path, buffers: Iterable[bytes | memoryview], *, sync: bool = True, staging: Path | None = None
) -> Identity:
    """Make `buffers` the content of `path`, which nobody ever sees half-written.

    Parameters
    ----------
    path
        Its folder exists. A symbolic link stays one: what it points to is replaced.
    buffers
        Written one after the other, without being joined first.
    sync
        Wait until the bytes are on the disk, so that the file survives a power cut too.
    staging
        A folder named `STAGING` for the temporary file, where `sweep` finds it if this process is killed. Without it,
        the temporary file is beside `path`, where it can't be told from the user's: a killed process leaves it there.

    Raises
    ------
    OSError
        The folder or the disk refuses; `path` is as it was.

    Returns
    -------
    Identity
        Of what was written, for `identity` to recognize.
    """
    path = Path(os.path.realpath(path))
    temporary, file = _temporary(path, staging)
    try:
        with file:
            file.writelines(buffers)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(path.stat().st_mode)
            written = _identity_of(os.fstat(file.fileno()))
            if sys.platform == "win32":
                file.close()  # Windows renames no open file; elsewhere its lock says that somebody is at it
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return written


def identity(path: Path) -> Identity | None:
    """Return what tells a file from what anybody writes in its place; `None` where there is none."""
    try:
        return _identity_of(path.stat())
    except FileNotFoundError:
        return None


def _identity_of(about: os.stat_result) -> Identity:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def create(path: Path, content: bytes) -> None:
    """Make a new file with this content, which nobody ever sees half-written. What is there already stays.

    Raises
    ------
    FileExistsError
        Anything has that name, if only a link that leads nowhere.
    OSError
        The folder or the disk refuses.
    """
    temporary, file = _temporary(path, None)
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


def create_numbered(path: Path, content: bytes) -> Path:
    """Make a new file with this content: `NAME-2`, `NAME-3`… where something has the name.

    Returns
    -------
    Path
        The file, which may be an earlier one that holds exactly this.

    Raises
    ------
    OSError
        The folder or the disk refuses.
    """
    free, number = path, 1
    while True:
        try:
            create(free, content)
        except FileExistsError:
            if holds(free, content):
                return free
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        else:
            return free


def holds(path: Path, content: bytes) -> bool:
    """Return whether a file has exactly this content."""
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _temporary(path: Path, staging: Path | None) -> tuple[Path, IO[bytes]]:
    """Return a new file from which a rename leads to `path`; locked while it is open."""
    while True:
        folder = _staged(path, staging) if staging is not None else None
        name = secrets.token_hex(8)
        temporary = path.with_name(f".{name}.tmp") if folder is None else folder / f"{name}.tmp"
        try:
            file = temporary.open("xb")  # plain `open`, so that the umask holds
        except FileNotFoundError:
            if folder is None or folder.exists():
                raise
            continue  # another process has just removed the empty folder
        if sys.platform == "win32":
            return temporary, file
        with contextlib.suppress(OSError):  # where files can't be locked, they can't be swept either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # swept in between


def _staged(path: Path, staging: Path) -> Path | None:
    """Make and mark the folder for temporary files; `None` where no rename leads from it to `path`."""
    beside = Path(os.path.realpath(staging.parent.parent))
    if not staging.parent.is_dir() or not path.is_relative_to(beside):
        return None
    staging.mkdir(exist_ok=True)
    if staging.stat().st_dev != path.parent.stat().st_dev:
        return None
    with contextlib.suppress(FileExistsError), (staging / _MARKER).open("xb") as marker:
        marker.write(_FORMAT)
    return staging


def remove_staging(staging: Path) -> None:
    """Remove a folder for temporary files, with its marker, where nothing else is left in it."""
    with contextlib.suppress(OSError):
        if _is_marked(staging) and [path.name for path in staging.iterdir()] == [_MARKER]:
            (staging / _MARKER).unlink()
            staging.rmdir()


@cache
def sweep_once(folder: Path) -> None:
    """Remove what killed processes have left of `replace` in a folder of runs: once, while nobody waits for it."""
    if sys.platform != "win32":  # where a file that somebody writes can't be told from one that nobody does
        threading.Thread(target=sweep, args=[folder], name="rlm_jupyter sweep", daemon=True).start()


def sweep(folder: Path) -> None:
    """Remove temporary files of which the process is gone, in the marked folders of a folder's runs and batches."""
    with contextlib.suppress(OSError):
        for staging in [*folder.glob(f"*.rlm/{STAGING}"), *folder.glob(f"*.batch/{STAGING}")]:
            with contextlib.suppress(OSError):
                if _is_marked(staging):
                    for path in list(staging.iterdir()):
                        with contextlib.suppress(OSError):
                            _sweep(path)
                    remove_staging(staging)


def _is_marked(staging: Path) -> bool:
    """Return whether a folder is one that we made for temporary files: our user's, no link, and with our marker."""
    marker = staging / _MARKER
    is_ours = _is_of_user(staging, stat.S_ISDIR) and _is_of_user(marker, stat.S_ISREG)
    return is_ours and marker.stat().st_size == len(_FORMAT) and marker.read_bytes() == _FORMAT


def _is_of_user(path: Path, is_kind: Callable[[int], bool]) -> bool:
    about = path.lstat()
    return is_kind(about.st_mode) and (sys.platform == "win32" or about.st_uid == os.getuid())


def _sweep(path: Path) -> None:
    if sys.platform == "win32" or not _TEMPORARY.fullmatch(path.name) or not _is_of_user(path, stat.S_ISREG):
        return
    if time.time() - path.lstat().st_mtime < _FRESH_SECONDS:
        return
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
