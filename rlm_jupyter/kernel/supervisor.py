"""`Supervisor`: the process that watches over a kernel and over the forks of it, as the host sees it.

What it does is in `guest/supervisor_process.py`. It is the one process there that the host believes: it runs nothing
of a model's. Numbers of processes are its own, which differ from ours where it is inside a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.supervisor_process import process_number

_GONE_SECONDS = 0.5
"""How long after its end its parent, where that is not us, may take to wait for it."""
_KEEP_SECONDS = 10.0
_MOST_BYTES = 256
_MOST_STATUS = 0xFFFF
Ended = Callable[[], None]


def can_fork_live() -> bool:
    """Return whether this system has what it takes to have one that talks to us, and so to fork a kernel that lives."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class Supervisor:
    """A supervisor, from the moment that its kernel is there until it is gone.

    Parameters
    ----------
    channel
        Ours; what it says comes there, and where it is closed, all end.
    pidfd
        Of its process.
    child
        Its `Popen`, or that of the sandbox that it is in, where we have started it.
    first
        A pidfd of the first process of the sandbox, with which all in it end, where that is another.
    is_boxed
        Whether it is in a sandbox.
    """

    def __init__(
        self, channel: socket.socket, pidfd: int, *, is_boxed: bool, child: Any = None, first: int | None = None
    ) -> None:
        self._channel, self._pidfd = channel, pidfd
        self._child = child
        self._first = None if first is None else os.dup(first)
        self.is_boxed = is_boxed
        self.pid = process_number(pidfd)
        self.kernels: set[int] = set()
        """Those of its kernels that we want to live, by its numbers."""
        self._codes: dict[int, int | None] = {}
        """Of those that have ended; `None`: nobody knows, as their parent, a kernel, goes on."""
        self._told: dict[int, Ended] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: asyncio.Queue[int] = asyncio.Queue()
        self._keeping = asyncio.Lock()
        self._ended_at: float | None = None
        self._directories: list[KernelDirectory] = []

    def has_ended(self, kernel: int) -> bool:
        """Return whether a kernel has, and what it had started, too."""
        if kernel not in self._codes and self._pidfd >= 0:
            is_over = self._is_over()
            self._listen()
            if is_over:
                self._codes.setdefault(kernel, -signal.SIGKILL)  # it had no time to say it
        return kernel in self._codes

    def code(self, kernel: int) -> int | None:
        """Return the exit code of a kernel that has ended, negative for a signal; `None`: that is not known."""
        return self._codes.get(kernel)

    def is_gone(self) -> bool:
        """Return whether its process is, and nothing is left to be waited for."""
        if self._pidfd < 0:
            return True
        if not self._is_over() or (self._first is not None and not _has_ended(self._first)):
            return False
        if self._child is not None:
            return self._child.poll() is not None
        self._ended_at = self._ended_at or time.monotonic()
        if time.monotonic() - self._ended_at > _GONE_SECONDS:
            return True
        try:
            signal.pidfd_send_signal(self._pidfd, 0)
        except ProcessLookupError:
            return True
        return False

    def watch(self, kernel: int, ended: Ended) -> None:
        """Call `ended` once this kernel has; until `forget`."""
        self._told[kernel] = ended
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            for fd in (self._pidfd, self._channel.fileno()):
                self._loop.add_reader(fd, self._look)
        self._loop.call_soon(self._look)  # it may have ended before

    def forget(self, kernel: int) -> None:
        """Tell of this kernel no more."""
        self._told.pop(kernel, None)
        if not self._told:
            self._stop_looking()

    async def keep(self, pidfd: int) -> int:
        """Have it watch over a fork of one of its kernels, too; return its number for that.

        Raises
        ------
        OSError
            It does not.
        """
        async with self._keeping:
            while not self._kept.empty():
                self._kept.get_nowait()
            socket.send_fds(self._channel, [b'{"keep": true}'], [pidfd])
            async with asyncio.timeout(_KEEP_SECONDS):
                while True:
                    self._listen()
                    if not self._kept.empty():
                        break
                    if self._is_over():
                        raise ProcessLookupError("the kernel is gone")
                    await asyncio.sleep(0.001)
            kernel = self._kept.get_nowait()
        if kernel <= 0:
            raise ProcessLookupError("the fork is gone")
        self.kernels.add(kernel)
        return kernel

    def end(self, kernel: int) -> None:
        """End a kernel, with all that it has started; the last one, with the supervisor."""
        self.kernels.discard(kernel)
        if self.kernels:
            with contextlib.suppress(OSError):
                self._channel.send(json.dumps({"end": kernel}).encode())
        else:
            # it kills what is below it; with the first process of a namespace, the system does
            self.signal(signal.SIGKILL if self.is_boxed else signal.SIGTERM)

    def signal(self, signum: int) -> None:
        """Signal its process, or the first of its sandbox."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._pidfd if self._first is None else self._first, signum)

    def put_away(self, kernel: int, directory: KernelDirectory, *, shared: bool) -> list[KernelDirectory]:
        """Close what is open here once no kernel is left; return the directories to be removed.

        Parameters
        ----------
        shared
            Forks of the kernel may have files in its directory: it goes with the last of them.
        """
        self.forget(kernel)
        self.kernels.discard(kernel)
        self._directories.append(directory)
        if not self.kernels:
            self._stop_looking()
            if self._pidfd >= 0:
                self._channel.close()
                os.close(self._pidfd)
                if self._first is not None:
                    os.close(self._first)
                self._pidfd = -1
        if not self.kernels:
            return self._directories
        return [] if shared else [directory]

    def _look(self) -> None:
        for kernel, ended in list(self._told.items()):
            if self.has_ended(kernel):
                self.forget(kernel)
                ended()

    def _stop_looking(self) -> None:
        if self._loop is not None:
            for fd in (self._pidfd, self._channel.fileno()):
                self._loop.remove_reader(fd)
            self._loop = None

    def _listen(self) -> None:
        """Take what it has said."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            while message := self._channel.recv(_MOST_BYTES):
                said = json.loads(message)
                if "kept" in said:
                    self._kept.put_nowait(int(said["kept"]))
                elif (status := said.get("status")) is None:
                    self._codes[int(said["ended"])] = None
                else:
                    self._codes[int(said["ended"])] = os.waitstatus_to_exitcode(int(status) & _MOST_STATUS)

    def _is_over(self) -> bool:
        return _has_ended(self._pidfd)


def _has_ended(pidfd: int) -> bool:
    looking = select.poll()  # which takes descriptors above 1023, too
    looking.register(pidfd, select.POLLIN)
    return bool(looking.poll(0))
