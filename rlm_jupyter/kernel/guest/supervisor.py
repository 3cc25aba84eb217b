"""The process between a host and its kernel: whatever a cell has started ends with the kernel, and that with the host.

A kernel can't see to that itself: it may be killed, or hold the interpreter's lock for good, and who leaves its session
is not reached by a signal to its group. So the guest forks before anything else: the child becomes the kernel, in a
session of its own; this process, which executes nothing of the model's, waits, passes interrupts on, and at the end
kills all that is left. On Linux it inherits every process below that has lost its parent, so that none escapes it,
and it is told at once when the host ends. Elsewhere it looks twice a second, and misses what has left the tree.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_LOOK_SECONDS = 0.5
"""How often it looks for the host, where nothing tells of it."""
_END_SECONDS = 1.0
"""How long it kills what is left, and what that starts meanwhile."""


def supervise(host: int) -> None:
    """Return in a new process, that of the kernel; this one ends when that has ended, or the host, and never returns.

    Parameters
    ----------
    host
        Our parent: where it has ended already, so do we.
    """
    heard = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _end_with(host, signal.SIGTERM)
    supervisor = os.getpid()
    kernel = os.fork()
    if kernel:
        _prctl(_PR_SET_NAME, b"rlm-supervisor")
        try:
            _watch(kernel, host, heard)
        finally:
            os._exit(1)  # never on into what is the kernel's
    os.setsid()
    _end_with(supervisor, signal.SIGKILL)
    os.environ["JPY_PARENT_PID"] = str(supervisor)  # ipykernel ends when this is not its parent
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int, number: signal.Signals) -> None:
    """Get this signal when the thread that started us ends, whatever our code is at: Python need not notice."""
    _prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def _watch(kernel: int, host: int, heard: Iterable[signal.Signals]) -> NoReturn:
    # some systems drop a signal that nobody handles even while it is blocked
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if sys.platform != "linux":
        signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    while (status := _reap(kernel)) is None:
        number = signal.sigwait(heard)
        if number == signal.SIGINT:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(kernel, signal.SIGINT)
        elif number in {signal.SIGTERM, signal.SIGHUP} or os.getppid() != host:
            break
    ended = _end_all(kernel)
    _end(ended if status is None else status)


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
