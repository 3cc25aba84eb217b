"""The process between a host and its kernel: whatever a cell has started ends with the kernel, and that with the host.

A kernel can't see to that itself: it may be killed, or hold the interpreter's lock for good, and who leaves its session
is not reached by a signal to its group. So the guest forks before anything else: the child becomes the kernel, in a
session of its own; this process, which executes nothing of the model's, waits, passes interrupts on, and at the end
kills all that is left. On Linux it inherits every process below that has lost its parent, so that none escapes it,
and it is told at once when the host ends. Elsewhere it looks twice a second, and misses what has left the tree.

That of a kernel that is the fork of a template (`guest/template_process.py`) is no child of the host's: it learns of
the host's end by a `Host`, and tells it the same way how the kernel has ended. On Linux every other one has such a
channel, too: a kernel may be forked while it lives (`guest/self_fork.py`), and the host says which processes are such
forks. They go on when the kernel that they come from ends; this process ends with the last of them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without enumerations: they write to a hundred pages of a fork
import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rlm_jupyter.kernel.guest.libc import LIBC

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36
_LOOK_SECONDS = 0.5
"""How often it looks for the host, where nothing tells of it."""
_END_SECONDS = 1.0
"""How long it kills what is left, and what that starts meanwhile."""
_REAP_SECONDS = 0.02
"""After so long it looks again for what it has killed, when no child of its own has ended."""
_MOST_BYTES = 1_000
"""Of a message of the host's."""
_NUMBER = re.compile(r"^Pid:\s*(-?\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a kernel, as far as it can be spoken to."""

    channel: socket.socket
    """Takes pidfds of the supervisor and of the kernel, and then how each kernel has ended; closed when all may end.

    The host says on it which process is a fork of a kernel of ours, and which kernel is to end."""
    process: int | None = None
    """A pidfd of its process, where that is not our parent."""


def supervise(parent: int | None, host: Host | None = None) -> None:
    """Return in a new process, that of the kernel; this one ends when that has ended, or the host, and never returns.

    Parameters
    ----------
    parent
        Our parent, where that is the host, and can be seen: where it has ended already, so do we.
    host
        How the host is spoken to, where it is.
    """
    heard = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM}
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, heard)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if parent is not None:
        _end_with(parent, signal.SIGTERM)
    supervisor = os.getpid()
    kernel = os.fork()
    if kernel:
        name_process("rlm-supervisor")
        try:
            _Watch(kernel, parent, host, heard).run()
        finally:
            os._exit(1)  # never on into what is the kernel's
    if host is not None:
        host.channel.close()
    os.setsid()
    _end_with(supervisor, signal.SIGKILL)
    os.environ["JPY_PARENT_PID"] = str(supervisor)  # ipykernel ends when this is not its parent
    _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


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


class _Watch:
    """What a supervisor does: waits for kernels, and for word of the host."""

    def __init__(self, kernel: int, parent: int | None, host: Host | None, heard: Iterable[int]) -> None:
        self._parent = parent
        self._host = host
        self._told, tells = os.pipe()
        for end in (self._told, tells):
            os.set_blocking(end, False)
        _signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
        for number in heard:
            _signal.signal(number, _nothing)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, heard)
        if sys.platform != "linux":
            signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
        self._news = select.poll()
        self._news.register(self._told, select.POLLIN)
        self._kernels: dict[int, int | None] = {kernel: None}
        """By process id, their pidfds, where these are forks of a living one: they are no children of ours."""
        self._statuses: dict[int, int] = {}
        """How kernels have ended that were children of ours by then."""
        if host is not None:
            _prctl(_PR_SET_DUMPABLE, 0)  # the kernel's code has no business with the channel
            pidfds = [os.pidfd_open(os.getpid()), os.pidfd_open(kernel)]
            socket.send_fds(host.channel, [b'{"started": %d}' % kernel], pidfds)
            for fd in pidfds:
                os.close(fd)
            for fd in (host.channel.fileno(), *([] if host.process is None else [host.process])):
                self._news.register(fd, select.POLLIN)

    def run(self) -> NoReturn:
        """Wait until no kernel is left, or the host wants none; then end as the last one did."""
        last = next(iter(self._kernels))
        while True:
            self._statuses |= _reap(self._kernels)
            for kernel in [kernel for kernel in self._kernels if self._has_ended(kernel)]:
                last = kernel
                self._forget(kernel)
                if self._kernels:
                    self._clear_up(kernel)
            if not self._kernels or self._is_over():
                break
        self._statuses |= _end_all(set(), {last, *self._kernels}, self._told)
        for kernel in (last, *self._kernels):
            self._tell({"ended": kernel, "status": self._statuses.get(kernel)})
        _end(self._statuses.get(last))

    def _is_over(self) -> bool:
        """Wait for news, and act on it; return whether the host is gone, or wants us to end."""
        ready = {fd for fd, _ in self._news.poll()}
        numbers = os.read(self._told, 64) if self._told in ready else b""
        if signal.SIGINT in numbers:
            for kernel in self._kernels:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(kernel, signal.SIGINT)
        if {signal.SIGTERM, signal.SIGHUP} & set(numbers) or (self._parent or os.getppid()) != os.getppid():
            return True
        host = self._host
        if host is None:
            return False
        return host.process in ready or (host.channel.fileno() in ready and not self._obey(host.channel))

    def _obey(self, channel: socket.socket) -> bool:
        """Do what the host says; `False`: it has closed the channel."""
        try:
            message, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, 1)
        except OSError:
            return False
        if not message:
            return False
        asked = json.loads(message)
        if "end" in asked:
            if asked["end"] in self._kernels:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(asked["end"], signal.SIGKILL)
        elif fds:
            kernel = process_number(fds[0])
            if kernel in self._kernels or kernel <= 0:
                os.close(fds[0])
                kernel = -1
            else:
                self._kernels[kernel] = fds[0]
                self._news.register(fds[0], select.POLLIN)
            self._tell({"kept": kernel})
        return True

    def _has_ended(self, kernel: int) -> bool:
        pidfd = self._kernels[kernel]
        if kernel in self._statuses or pidfd is None:
            return kernel in self._statuses
        looking = select.poll()
        looking.register(pidfd, select.POLLIN)
        return bool(looking.poll(0))

    def _forget(self, kernel: int) -> None:
        pidfd = self._kernels.pop(kernel)
        if pidfd is not None:
            self._news.unregister(pidfd)
            os.close(pidfd)

    def _clear_up(self, kernel: int) -> None:
        """End what a kernel has left while others go on; what had left one of these is not told apart from it."""
        self._statuses |= _end_all(set(self._kernels), {kernel, *self._kernels})
        self._tell({"ended": kernel, "status": self._statuses.pop(kernel, None)})

    def _tell(self, content: dict[str, int | None]) -> None:
        if self._host is not None:
            with contextlib.suppress(OSError):
                self._host.channel.send(json.dumps(content).encode())


def process_number(pidfd: int) -> int:
    """Return the process id that a pidfd stands for, as it is here; -1 where the process is gone."""
    found = _NUMBER.search(Path(f"/proc/self/fdinfo/{pidfd}").read_text())
    return int(found[1]) if found else -1


def _reap(kernels: Iterable[int]) -> dict[int, int]:
    """Take leave of all that has ended; how those of these did that are among them."""
    found = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] in kernels:
                found[ended[0]] = ended[1]
    return found


def _end_all(spared: set[int], kernels: set[int], told: int | None = None) -> dict[int, int]:
    """Kill all that is below, and what comes up when its parent is killed; how kernels ended that were among it.

    Parameters
    ----------
    spared
        Kernels that go on, with what is below them.
    kernels
        Those of which it is told how they ended.
    told
        Can be read from once a child has ended; what other signals wrote there is lost. Default: it looks again soon.
    """
    found: dict[int, int] = {}
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until:
        children = [child for child in _below() if child not in spared]
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        found |= _reap(kernels)
        if not children:
            break
        if told is None:
            time.sleep(0.001)
        elif select.select([told], [], [], _REAP_SECONDS)[0]:
            os.read(told, 64)
    return found


def _below() -> list[int]:
    own = os.getpid()
    with contextlib.suppress(OSError), open(f"/proc/self/task/{own}/children", "rb", buffering=0) as children:  # noqa: PTH123  each fork's
        return [int(child) for child in children.readall().split()]
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


def _nothing(*_: object) -> None:
    """Handle a signal: that it came can be read from a pipe."""


def _prctl(option: int, value: int | bytes) -> None:
    if LIBC is not None:
        LIBC.prctl(option, value, 0, 0, 0)
