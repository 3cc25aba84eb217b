"""`Place`: a kernel's private directory, and the removal of those that a killed host has left."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO

from rlm_jupyter.errors import KernelStartError
from rlm_jupyter.kernel.sandbox import pids

if sys.platform != "win32":
    import fcntl

_PREFIX = "rlm-"
_OWNER, _GROUP = "owner", "cgroup"
_FRESH_SECONDS = 60.0
"""How long one without an `owner` is left alone: its host may be about to make it."""
_MOST_PATH = 90
"""Bytes of a directory for ipc sockets: their paths end at 104 (macOS) or 108 (Linux)."""


class Place:
    """A directory of the kernel's own, readable by its user alone.

    `run` holds the connection file and the sockets, `home` and `tmp` what they are called after. A lock on `owner`
    is held as long as this process lives, so that another can tell what nobody will remove any more.

    Raises
    ------
    KernelStartError
        It can't be made; the text says what to do.
    """

    def __init__(self) -> None:
        base = _base()
        _sweep_once(base)
        try:
            self.path, made = _made(base)
            try:
                for name in ("run", "home", "tmp"):
                    (self.path / name).mkdir(mode=0o700)
                self._owner = _lock(self.path)
            except BaseException:
                shutil.rmtree(self.path, ignore_errors=True)
                raise
            finally:
                if made is not None:
                    os.close(made)
        except OSError as error:
            raise KernelStartError(
                f"No private directory for the kernel could be made in {base}: {error.strerror}. "
                "Set TMPDIR to a writable one."
            ) from error
        self._group: Path | None = None

    def seal(self) -> None:
        """Take `run` away: whoever is connected stays so, nobody else can connect, and the key is on no disk.

        Shown to a shut-off kernel, it was its one place on a disk; what is removed takes no more files.
        """
        shutil.rmtree(self.path / "run", ignore_errors=True)

    def hold(self, process: int, most: int) -> None:
        """Bound the processes below this one, where the system lets us."""
        self._group = pids.hold(process, most)
        if self._group is not None:
            with contextlib.suppress(OSError):
                (self.path / _GROUP).write_text(str(self._group))

    def remove(self) -> None:
        """Remove it all; twice does no harm."""
        if self._group is not None:
            pids.release(self._group)
        shutil.rmtree(self.path, ignore_errors=True)
        if self._owner is not None:
            self._owner.close()


def _base() -> str:
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > _MOST_PATH - 30 and Path("/tmp").is_dir():
        return "/tmp"
    return base


def _made(base: str) -> tuple[Path, int | None]:
    """A new directory, locked by this descriptor until its `owner` is: one that nobody owns is swept."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        if sys.platform == "win32":
            return path, None
        try:
            made = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # swept at once
            continue
        fcntl.flock(made, fcntl.LOCK_EX)
        if path.exists():
            return path, made
        os.close(made)


def _lock(path: Path) -> IO[bytes] | None:
    """A lock that ends with this process, and its name only once it is held."""
    if sys.platform == "win32":
        return None
    fresh = path / f"{_OWNER}.new"
    owner = fresh.open("wb")
    fcntl.flock(owner, fcntl.LOCK_EX)
    fresh.rename(path / _OWNER)
    return owner


@cache
def _sweep_once(base: str) -> None:
    """Look once in the life of this process, and let nobody wait for it."""
    if sys.platform != "win32":  # where a directory can't be told from one in use
        threading.Thread(target=sweep, args=[base], name="rlm_jupyter sweep", daemon=True).start()


def sweep(base: str) -> None:
    """Remove the directories of our user whose host is gone, also where that ended before it had signed its own."""
    if sys.platform == "win32":
        return
    for path in Path(base).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            about = path.lstat()
            if about.st_uid == os.getuid() and path.is_dir() and not path.is_symlink():
                _sweep(path)


def _sweep(path: Path) -> None:
    if sys.platform == "win32":
        return
    owner = path / _OWNER
    owned = owner.exists()
    if not owned and time.time() - path.stat().st_mtime < _FRESH_SECONDS:
        return
    held = os.open(owner if owned else path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if owned or not owner.exists():  # else its host has just come that far
            with contextlib.suppress(OSError):
                pids.release(Path((path / _GROUP).read_text()))
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(held)
