"""`Inventory`: what a kernel's process holds that is its connection's, and what else of it no fork could have."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ipykernel._version import version_info
from zmq.utils.garbage import gc as zmq_garbage

_PROCESS = Path("/proc/self")
_DEVICES = re.compile(r"/dev/(nvidia|kfd|dri/render|accel)")
_NUMBERED = ("socket:", "anon_inode:[eventfd]", "anon_inode:[eventpoll]")
"""What links of descriptors begin with that a connection is made of."""
_POLLS = "anon_inode:[eventpoll]"
_ZMQ_THREADS = 2
"""Of the one context that a kernel has."""
_LEAST_IPYKERNEL = (7, 4)
"""With which it was seen to work."""
_FORK_AWARE = {"jemalloc_bg_thd"}
"""As in `guest/template_process.py`."""


class RefusedError(Exception):
    """A kernel can't be forked; the text says why, as what stands after "because"."""


class Inventory:
    """What is a kernel's own.

    Parameters
    ----------
    app
        Its application.
    channel
        The descriptor that forks are asked for by.
    """

    def __init__(self, app: Any, channel: int) -> None:
        self.forks: set[int] = set()
        """Forks of this kernel: children of its process."""
        self._app, self._channel = app, channel
        self._others: set[int] = set()
        """Descriptors of a fork that are the user's."""
        self._own: dict[int, str] | None = None
        self._shared: frozenset[str] = frozenset()

    def note(self) -> None:
        """Note what is there as the kernel's own; only the first time counts."""
        if self._own is None:
            self._own = {fd: link for fd, link in _descriptors() if fd not in self._others}
            noted = self._app.shared_memory
            self._shared = shared_memory() if noted is None else noted

    def renew(self, channel: int, made: set[int]) -> None:
        """Be the inventory of the fork, whose connection has just been made of these descriptors."""
        self.forks = set()
        self._channel = channel
        self._others -= made
        self._own = {fd: link for fd, link in _descriptors() if fd not in self._others}

    def reap(self) -> None:
        """Take leave of forks that have ended."""
        for fork in list(self.forks):
            try:
                has_ended = os.waitpid(fork, os.WNOHANG)[0] == fork
            except ChildProcessError:  # a cell has
                has_ended = True
            if has_ended:
                self.forks.discard(fork)

    def connection(self) -> set[int]:
        """Return the descriptors of the connection, of its threads and loops; for a fork, which leaves them."""
        self.note()
        own, ends = self._own or {}, self._ends()
        found = set()
        for fd, link in _descriptors():
            is_own = own.get(fd) == link or _is_of(fd, link, ends)
            if is_own and link.startswith(_NUMBERED):
                found.add(fd)
            elif not is_own:
                self._others.add(fd)
        return found

    def check(self, made: set[int]) -> None:
        """Look for what a fork would lack, or share.

        Parameters
        ----------
        made
            Descriptors for the fork.

        Raises
        ------
        RefusedError
            There is something; it is named.
        """
        if version_info < _LEAST_IPYKERNEL:
            raise RefusedError("its ipykernel is too old, 7.4 or newer is needed")
        self.note()
        if extra := [thread.name for thread in threading.enumerate() if thread not in self._our_threads()]:
            raise RefusedError(f"it runs a thread ({extra[0]})")
        if children := [name for pid, name in _children() if pid not in self.forks]:
            raise RefusedError(f"it has started a process that runs ({children[0]})")
        self._check_descriptors(made)
        if shared := sorted(shared_memory() - self._shared):
            raise RefusedError(f"it shares memory with others, or with a file ({shared[0]})")

    def check_threads(self) -> None:
        """Look for threads that Python does not know, once libraries have ended theirs for the fork.

        Raises
        ------
        RefusedError
            There is one.
        """
        # that of the main thread may be the one that it had before a fork
        ours = {os.getpid(), *(thread.native_id for thread in self._our_threads())}
        garbage = 2 if zmq_garbage.thread is not None and zmq_garbage.is_alive() else 0
        others = [name for name, thread in _system_threads() if thread not in ours and name not in _FORK_AWARE]
        zmqs = [name for name in others if name.startswith("ZMQbg")]
        others = [name for name in others if name not in zmqs]
        if others:
            raise RefusedError(f"a library runs threads ({others[0]})")
        if len(zmqs) > _ZMQ_THREADS + garbage:
            raise RefusedError("it has sockets of ZMQ's")

    def _our_threads(self) -> set[threading.Thread]:
        app, kernel = self._app, self._app.kernel
        streams = (kernel._stdout, kernel._stderr)
        found = (
            threading.main_thread(),
            app.iopub_thread.thread,
            app.control_thread,
            app.poller,
            zmq_garbage.thread,
            *(getattr(stream, "watch_fd_thread", None) for stream in streams),
        )
        return {thread for thread in found if thread is not None}

    def _check_descriptors(self, made: set[int]) -> None:
        own = self._own or {}
        ends = self._ends()
        polls = 0
        for fd, link in _descriptors():
            if own.get(fd) == link or fd in made or fd == self._channel:
                continue
            if _DEVICES.match(link):
                raise RefusedError(f"it uses a device ({link})")
            polls += link == _POLLS
            if link.startswith("socket:") and not _is_of(fd, link, ends):
                raise RefusedError(f"it has a socket ({_described(fd)})")
        if polls > (2 if zmq_garbage.thread is not None else 0):
            raise RefusedError("it has an event loop of its own")

    def _ends(self) -> set[object]:
        """Return the addresses of the connection's own sockets: what connects to one has it, too."""
        app = self._app
        ends: set[object] = set()
        for one in (app.shell_socket, app.control_socket, app.iopub_thread.socket, app.stdin_socket):
            if one is not None and (end := one.last_endpoint):
                ends.add(end.rstrip(b"\0").decode().removeprefix("ipc://"))
        ends.add(getattr(app.iopub_thread, "_pipe_port", None))
        return ends - {None}


def _is_of(fd: int, link: str, ends: set[object]) -> bool:
    if not link.startswith("socket:"):
        return False
    try:
        name = _name_of(fd)
    except OSError:
        return False
    return (name[1] if isinstance(name, tuple) else name) in ends


def _name_of(fd: int) -> Any:
    with socket.socket(fileno=os.dup(fd)) as looked:
        return looked.getsockname()


def _described(fd: int) -> str:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as looked:
        kind = getattr(looked.family, "name", looked.family)
        with contextlib.suppress(OSError):
            return f"{kind}, to {looked.getpeername()}"
        return f"{kind}, at {looked.getsockname()}"
    return "closed"


def _descriptors() -> list[tuple[int, str]]:
    found = []
    folder = str(_PROCESS / "fd")
    for name in os.listdir(folder):  # noqa: PTH208  a path for each takes longer than all else here
        with contextlib.suppress(OSError):
            found.append((int(name), os.readlink(f"{folder}/{name}")))  # noqa: PTH115
    return found


def _system_threads() -> list[tuple[str, int]]:
    found = []
    for thread in (_PROCESS / "task").iterdir():
        with contextlib.suppress(OSError):
            found.append(((thread / "comm").read_text().strip(), int(thread.name)))
    return found


def _children() -> Iterator[tuple[int, str]]:
    for thread in (_PROCESS / "task").iterdir():
        with contextlib.suppress(OSError):
            for child in (thread / "children").read_text().split():
                with contextlib.suppress(OSError):
                    status = Path(f"/proc/{child}/stat").read_text()
                    name, _, rest = status.partition("(")[2].rpartition(")")
                    if rest.split()[0] != "Z":
                        yield int(child), name


def shared_memory() -> frozenset[str]:
    """Return what this process has mapped that others see it write to: the names of its files."""
    lines = (line.split(maxsplit=5) for line in (_PROCESS / "maps").read_text().splitlines())
    return frozenset(
        fields[5] if len(fields) > 5 else "no file"
        for fields in lines
        if fields[1].startswith("rw") and fields[1].endswith("s")
    )
