"""Namespaces of its own for each kernel that is forked inside a sandbox.

A template that is shut off may fork several kernels, of one run and of those after it. None of them sees another's
processes or files: each gets a process namespace, a network without anything in it, and `/tmp` and `/dev/shm` of its
own, of the same limited size. That takes rights which bubblewrap leaves to the template alone (`sandbox/bwrap.py`);
they are given up before anything of a kernel's runs.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import re
import shutil
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from rlm_jupyter.kernel.guest.libc import HELD, LIBC

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = (
    0x20000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_BIND, _MOVE, _RECURSIVE = 4_096, 8_192, 16_384
_SHARED, _TMP = Path("/dev/shm"), Path("/tmp")
_CLONES = {"x86_64": 56, "aarch64": 220}
"""By the machine, the system call that forks into namespaces."""
_ESCAPED = re.compile(r"\\(\d{3})")


def prepare() -> None:
    """Give the template what it takes to make namespaces, and no right over what it is shown.

    As bubblewrap does by itself (`--disable-userns`), it goes into a user namespace below that which owns the mounts
    of the sandbox: what is read-only stays so, whatever it runs from now on. There can be none below that. Before, it
    takes away the lids that bubblewrap puts on parts of `/proc`: with them, no kernel could have a `/proc` of its own.

    Raises
    ------
    OSError
        The system does not allow it.
    """
    for path in set(_mounted_in(Path("/proc"))):
        _check(LIBC.umount2(os.fsencode(path), 0), f"umount {path}")
    Path("/proc/sys/user/max_user_namespaces").write_text("1")
    user, group = os.getuid(), os.getgid()
    _check(LIBC.unshare(_NEW_USER), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def fork() -> int:
    """Fork, as `os.fork` does; the new process is the first of namespaces of its own, and is to `enter` them.

    It is forked right into them, where that is known how.

    Raises
    ------
    OSError
        The system does not allow it.
    """
    new = _NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK
    if (child := fork_quietly(new)) is not None:
        return child
    if child := os.fork():
        return child
    try:
        _check(LIBC.unshare(new), "unshare")
        if os.fork():
            os._exit(0)
    except BaseException:  # noqa: BLE001  never on as a second template
        traceback.print_exc()
        os._exit(1)
    return 0


def fork_quietly(new: int = 0) -> int | None:
    """Fork, with no library taking note of it, in a third less time; `None`: that is not known how here.

    It is no matter to a process without threads that does no more than fork: the kernel.

    Parameters
    ----------
    new
        The namespaces that the new process is the first in.

    Raises
    ------
    OSError
        The system does not allow it.
    """
    number = _CLONES.get(platform.machine())
    # elsewhere, these are numbers of another interface
    if number is None or sys.maxsize <= 2**32 or len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208  each fork's
        return None
    child = int(HELD.syscall(*map(ctypes.c_long, (number, new | signal.SIGCHLD, 0, 0, 0, 0))))
    _check(min(child, 0), "clone")
    return child


def enter(size: int) -> None:
    """Give these namespaces files of their own, in their first process.

    Parameters
    ----------
    size
        Bytes of its `/tmp`, and of its `/dev/shm`.

    Raises
    ------
    OSError
        The system does not allow it.
    """
    _bring_up_loopback()
    # read-only: what stands in /proc/sys is the whole machine's
    _mount("proc", Path("/proc"), "proc", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
    before = os.open(_SHARED, os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", _SHARED, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode=1777")
    staged = _SHARED / ".tmp"
    staged.mkdir()
    _mount("tmpfs", staged, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode=0755")
    _show_again(_TMP, _TMP, staged)
    _mount(str(staged), _TMP, None, _MOVE)
    staged.rmdir()
    _show_again(_SHARED, Path(f"/proc/self/fd/{before}"), _SHARED)
    os.close(before)


def _show_again(there: Path, before: Path, staged: Path) -> None:
    """Make what is shown in such a folder of the template's, and its folders, part of the new one.

    Parameters
    ----------
    there
        What it is called.
    before
        Where its files are found now.
    staged
        The new one.
    """
    shown = {before / path.relative_to(there) for path in _mounted_in(there)}
    for folder, names, files in os.walk(before):
        for name in (*names, *files):
            path = Path(folder) / name
            made = staged / path.relative_to(before)
            if path in shown:
                if path.is_dir():
                    made.mkdir()
                else:
                    made.touch()
                _mount(str(path), made, None, _BIND | _RECURSIVE)
            elif path.is_symlink():
                made.symlink_to(path.readlink())
            elif path.is_dir():
                made.mkdir()
                shutil.copymode(path, made)
        names[:] = [name for name in names if Path(folder) / name not in shown]


def _mounted_in(folder: Path) -> Iterator[Path]:
    """Yield what is mounted in a folder, whose name has nothing that the list would write in another way."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        name = line.split(maxsplit=5)[4]
        if name.startswith(f"{folder}/"):
            yield Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), name))


def _bring_up_loopback() -> None:
    """Bring up the loopback device as bubblewrap does: code may talk to servers of its own."""
    set_flags, up_and_running = 0x8914, 0x41
    with socket.socket() as asked:
        fcntl.ioctl(asked, set_flags, struct.pack("16sh14x", b"lo", up_and_running))


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str = "") -> None:
    kind_bytes = None if kind is None else kind.encode()
    done = LIBC.mount(
        os.fsencode(source), os.fsencode(target), kind_bytes, ctypes.c_ulong(flags), options.encode() or None
    )
    _check(done, f"mount {target}")


def _check(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
