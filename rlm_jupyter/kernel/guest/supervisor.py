"""The process between a host and its kernel: whatever a cell has started ends with the kernel, and that with the host.

A kernel can't see to that itself: it may be killed, or hold the interpreter's lock for good, and who leaves its session
is not reached by a signal to its group. So the guest forks before anything else: the child becomes the kernel, in a
session of its own; this process, which executes nothing of the model's, waits, passes interrupts on, and at the end
kills all that is left. On Linux it inherits every process below that has lost its parent, so that none escapes it,
and it is told at once when the host ends. Elsewhere it looks twice a second, and misses what has left the tree.

That of a kernel that is the fork of a template (`guest/template.py`) is no child of the host's: it learns of the host's
end by a `Host`, and tells it the same way how the kernel has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36
_LOOK_SECONDS = 0.5
"""How often it looks for the host, where nothing tells of it."""
_END_SECONDS = 1.0
"""How long it kills what is left, and what that starts meanwhile."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a kernel that it is not the parent of."""

    process: int
    """A pidfd of its process."""
    channel: socket.socket
    """Takes pidfds of the supervisor and of the kernel, and then the kernel's wait status; closed when it may end."""


def supervise(host: int | Host) -> None:
    """Return in a new process, that of the kernel; this one ends when that has ended, or the host, and never returns.

    Parameters
    ----------
    host
        Our parent, where that is the host: where it has ended already, so do we.
    """
    heard = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if not isinstance(host, Host):
        _end_with(host, signal.SIGTERM)
    supervisor = os.getpid()
    kernel = os.fork()
    if kernel:
        name_process("rlm-supervisor")
        try:
            _watch(kernel, host, heard)
        finally:
            os._exit(1)  # never on into what is the kernel's
    os.setsid()
    _end_with(supervisor, signal.SIGKILL)
    os.environ["JPY_PARENT_PID"] = str(supervisor)  # ipykernel ends when this is not its parent
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def name_process(name: str) -> None:
    """Set what `ps` and `top` call this process."""
    _prctl(_PR_SET_NAME, name.encode())


def end_with(parent: int) -> None:
    """Get killed when the thread that started us ends."""
    _end_with(parent, signal.SIGKILL)


def _end_with(parent: int, number: signal.Signals) -> None:
    """Get this signal when the thread that started us ends, whatever our code is at: Python need not notice."""
    _prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def _watch(kernel: int, host: int | Host, heard: Iterable[int]) -> NoReturn:
    told, tells = os.pipe()
    for end in (told, tells):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    for number in heard:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    if sys.platform != "linux":
        signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    news = select.poll()
    news.register(told, select.POLLIN)
    if isinstance(host, Host):
        _prctl(_PR_SET_DUMPABLE, 0)  # the kernel's code has no business with the channel
        socket.send_fds(host.channel, [b"started"], [os.pidfd_open(os.getpid()), os.pidfd_open(kernel)])
        for fd in (host.process, host.channel.fileno()):
            news.register(fd, select.POLLIN)
    while (status := _reap(kernel)) is None:
        ready = {fd for fd, _ in news.poll()}
        numbers = os.read(told, 64) if told in ready else b""
        if signal.SIGINT in numbers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(kernel, signal.SIGINT)
        is_orphan = ready - {told} if isinstance(host, Host) else os.getppid() != host
        if is_orphan or {signal.SIGTERM, signal.SIGHUP} & set(numbers):
            break
    ended = _end_all(kernel)
    status = ended if status is None else status
    if isinstance(host, Host) and status is not None:
        with contextlib.suppress(OSError):
            host.channel.send(str(status).encode())
    _end(status)


def _reap(kernel: int) -> int | None:
    """Take leave of all that has ended; how the kernel did, if it is among them.

    Raises
    ------
    ChildProcessError
        There is nothing below any more, and the kernel was not among the last.
    """
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        if ended[0] == kernel:
            return ended[1]
    return None


def _end_all(kernel: int) -> int | None:
    """Kill all that is below, and what comes up when its parent is killed; how the kernel ended, where it did."""
    found = None
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until:
        for child in _below():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            if (ended := _reap(kernel)) is not None:
                found = ended
        except ChildProcessError:
            break
        time.sleep(0.001)
    return found


def _below() -> list[int]:
    own = os.getpid()
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/self/task/{own}/children").read_text().split()]
    import psutil  # comes with ipykernel

    return [child.pid for child in psutil.Process().children(recursive=True)]


def _end(status: int | None) -> NoReturn:
    """End as the kernel did, so that the host sees how."""
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):  # SIGKILL can't be handled
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os._exit(1 if status is None else os.waitstatus_to_exitcode(status))


def _prctl(option: int, value: int | bytes) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
