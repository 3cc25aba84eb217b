"""`KernelDirectory`: a kernel's private directory, and the removal of those that a killed host has left.

All of them are in one folder of the user's, `$TMPDIR/rlm_jupyter-UID`. Beside a directory `NAME` stands its marker
`NAME.owner`, written first and removed last: it names the host that made the directory. So what a host leaves is
proved to be ours at whatever moment it is killed, and what has no marker is never removed.

Long because how a directory is made, and how it is told that one may be removed, are to be read side by side.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO

from rlm_jupyter.kernel.sandbox import cgroup
from rlm_jupyter.types.errors import KernelStartError

if sys.platform != "win32":
    import fcntl

_FORMAT = "rlm_jupyter kernel directory 1"
"""The first line of a marker."""
_MARKER = ".owner"
_RESTS = (0.002, 0.01, 0.05, 0.0)
"""Seconds after which it is tried again to remove a directory."""
_MOST_MARKER = 4_096
"""Bytes of a marker that are read."""
_NAME_BYTES = 4
_MOST_PATH = 103
"""Bytes of an ipc socket's path, at most (macOS; Linux has 4 more)."""
_SOCKET = "/run/k-ipc-5"
_SAME_START_SECONDS = 2.0
"""How far two readings of one process's start may be apart: the system's clock can be set meanwhile."""


class KernelDirectory:
    """A directory of the kernel's own, readable by its user alone.

    `run` holds the sockets, and the connection file of a kernel that is not forked. A lock on the marker is held as
    long as this process lives.

    Raises
    ------
    KernelStartError
        It can't be made; the text says what to do.
    """

    def __init__(self) -> None:
        self._group: Path | None = None
        self._changing = threading.Lock()
        base = _base()
        try:
            folder = _folder(base)
            _sweep_once(base)
            self.path, self._marker = _made(folder)
            try:
                (self.path / "run").mkdir(mode=0o700)
            except BaseException:
                self.remove()
                raise
        except OSError as error:
            raise not_made(base, error) from error

    def seal(self) -> None:
        """Take `run` away: whoever is connected stays so, nobody else can connect, and the key is on no disk.

        Shown to a shut-off kernel, it was its one place on a disk; what is removed takes no more files.
        """
        shutil.rmtree(self.path / "run", ignore_errors=True)

    def hold(self, process: int, most: int) -> None:
        """Bound the processes below this one, where the system lets us; twice, and when it is removed, does no harm."""
        with self._changing:
            if self._group is not None or self._marker.closed:
                return
            self._group = cgroup.hold(process, most, self.path.name)
            if self._group is not None:
                with contextlib.suppress(OSError):
                    self._marker.write(json.dumps({"cgroup": str(self._group)}).encode() + b"\n")

    def remove(self) -> None:
        """Remove it all; twice does no harm."""
        with self._changing:
            if self._marker.closed:
                return
            _remove(self.path, self._group)
            self._marker.close()


def not_made(where: object, error: OSError) -> KernelStartError:
    """Return what says that a kernel's directory, or one in it, can't be made there."""
    return KernelStartError(
        f"No private directory for the kernel could be made in {where}: {error.strerror}. Set TMPDIR to a writable one."
    )


def folder_of_all() -> Path:
    """Return the folder that all private directories are in."""
    return _folder_in(_base())


def places_in(folders: Iterable[Path]) -> list[Path]:
    """Return where in these folders that folder is: keys and sockets of kernels are in it, for no other kernel."""
    own = folder_of_all().resolve()
    reals = ((folder, folder.resolve()) for folder in folders)
    return [folder / own.relative_to(real) for folder, real in reals if own.is_relative_to(real)]


@dataclass(frozen=True, slots=True)
class _Host:
    """The process that made a directory, as a marker names it."""

    entry: str
    """The directory's name: a marker that was copied beside another one says nothing of it."""
    pid: int
    started: float
    """When the process started, in seconds since 1970: tells it from a later one with the same number."""

    @classmethod
    def current(cls, entry: str) -> _Host:
        """Name the process that runs this."""
        return cls(entry, os.getpid(), _start_of(os.getpid()))

    def is_running(self) -> bool:
        """Return whether that very process lives."""
        import psutil

        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started) < _SAME_START_SECONDS
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except (psutil.Error, ValueError, OverflowError):
            return True  # it can't be told


@cache
def _start_of(pid: int) -> float:
    """Return when this process started: a millisecond to find out, and the same for each of its kernels."""
    import psutil

    return float(psutil.Process(pid).create_time())


def _base() -> str:
    base = tempfile.gettempdir()
    longest = f"{_folder_in(base)}/{'0' * 2 * _NAME_BYTES}{_SOCKET}"
    if len(os.fsencode(longest)) > _MOST_PATH and Path("/tmp").is_dir():
        return "/tmp"
    return base


def _folder_in(base: str) -> Path:
    return Path(base) / ("rlm_jupyter" if sys.platform == "win32" else f"rlm_jupyter-{os.getuid()}")


def _folder(base: str) -> Path:
    """Make and check the folder of all directories: whoever can write there could have us remove things.

    Raises
    ------
    KernelStartError
        It is there and not ours alone.
    """
    folder = _folder_in(base)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if why := _unfit(folder):
        raise KernelStartError(
            f"{folder}, the folder of kernels' private directories, {why}. Remove it, or set TMPDIR to another folder."
        )
    return folder


def _unfit(folder: Path) -> str:
    """Return why a folder is not ours alone; empty where it is."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        return "is no folder"
    if sys.platform != "win32":
        if about.st_uid != os.getuid():
            return "belongs to another user"
        if about.st_mode & 0o077:
            return f"is open to other users (mode {stat.S_IMODE(about.st_mode):04o}, not 0700)"
    return ""


def _made(folder: Path) -> tuple[Path, IO[bytes]]:
    """Return a new directory, with its marker, which is locked before anything stands in it."""
    while True:
        path = folder / secrets.token_hex(_NAME_BYTES)
        marker = _marker_of(path)
        try:
            file = marker.open("xb", buffering=0)
        except FileExistsError:
            continue
        try:
            if sys.platform != "win32":
                with contextlib.suppress(OSError):  # where files can't be locked, nothing is swept either
                    fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{_FORMAT}\n{json.dumps(asdict(_Host.current(path.name)))}\n".encode())
            path.mkdir(mode=0o700)
        except FileExistsError:  # not ours
            marker.unlink()
            file.close()
        except BaseException:
            marker.unlink()
            file.close()
            raise
        else:
            return path, file


def _marker_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_MARKER}")


def _remove(path: Path, group: Path | None) -> None:
    """Remove a directory whose marker we hold; where something resists, the marker stays for the next sweep."""
    is_released = group is None or cgroup.release(group, path.name)
    for rest in _RESTS:
        shutil.rmtree(path, ignore_errors=True)  # follows no link
        if not os.path.lexists(path):
            break
        time.sleep(rest)  # a kernel whose start was cancelled may still make files there, until it is ended
    if is_released and not os.path.lexists(path):
        with contextlib.suppress(OSError):
            _marker_of(path).unlink()


@cache
def _sweep_once(base: str) -> None:
    """Look once in the life of this process, and let nobody wait for it."""
    if sys.platform != "win32":  # where no lock says that a directory is in use
        threading.Thread(target=sweep, args=[base], name="rlm_jupyter sweep", daemon=True).start()


def sweep(base: str) -> None:
    """Remove the directories whose marker says that we made them, and whose host is gone."""
    folder = _folder_in(base)
    with contextlib.suppress(OSError):
        if _unfit(folder):
            return
        for marker in list(folder.glob(f"*{_MARKER}")):
            with contextlib.suppress(OSError):
                _sweep(marker)


def _sweep(marker: Path) -> None:
    path = marker.with_suffix("")
    with _locked(marker) as file:
        lines = [] if file is None else file.read(_MOST_MARKER).split(b"\n")
        host = _host(lines)
        if host is None or host.entry != path.name or host.is_running():
            return
        if _is_ours(path):
            _remove(path, _group(lines))


@contextlib.contextmanager
def _locked(marker: Path) -> Iterator[IO[bytes] | None]:
    """Yield a marker, locked by us; `None` where it is in use, is no plain file of ours, or has just been removed."""
    if sys.platform == "win32":
        yield None
        return
    with open(os.open(marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  flags
        about = os.fstat(file.fileno())
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        is_plain = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and about.st_nlink == 1
        yield file if is_plain and os.path.samestat(about, marker.lstat()) else None


def _host(lines: list[bytes]) -> _Host | None:
    """Return the host that a marker names; `None` where it is not whole, or not of this format."""
    if len(lines) < 3 or lines[0] != _FORMAT.encode():
        return None
    try:
        host = _Host(**json.loads(lines[1]))
    except (ValueError, TypeError):
        return None
    is_sound = (type(host.entry), type(host.pid), type(host.started)) == (str, int, float)
    return host if is_sound and host.pid > 0 else None


def _is_ours(path: Path) -> bool:
    """Return whether a directory of this user has this name, or nothing has it."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(about.st_mode) and (sys.platform == "win32" or about.st_uid == os.getuid())


def _group(lines: list[bytes]) -> Path | None:
    try:
        return Path(json.loads(lines[2])["cgroup"])
    except (ValueError, TypeError, LookupError):
        return None
