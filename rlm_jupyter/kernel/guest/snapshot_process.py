"""The forked child that writes a snapshot: begun without interrupts, harmless to its kernel, ended in time."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import select
import signal
import sys
import time
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

_CHUNK = 2**20
_NO_TIME = "it takes too long to pickle"
_NICE = 10
"""How much the writing child stands back behind cells."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child that writes."""

    pid: int
    pipe: int
    progress: mmap.mmap
    names: list[str]
    deadline: float

    def read(self) -> Iterator[bytes]:
        """Yield what it writes, until it has ended, or its time is up."""
        while select.select([self.pipe], [], [], max(self.deadline - time.monotonic(), 0))[0]:
            if not (piece := os.read(self.pipe, _CHUNK)):
                return
            yield piece

    def end(self) -> int:
        """End it, if it has not ended; its exit code."""
        os.close(self.pipe)
        try:
            if time.monotonic() >= self.deadline:
                os.kill(self.pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except (ChildProcessError, ProcessLookupError):  # a cell has waited for all children there are
            return -1


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Without SIGINT, which goes to all processes of the kernel, and means none but the kernel."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with warnings.catch_warnings():
            # of forks in a process with threads: the child uses none
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle() -> None:
    """Make this a process that can do no harm to the one that it was forked from."""
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    gc.disable()
    os.nice(_NICE)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  until the end


class Clock:
    """The time of a child; what is done under it is broken off after a quarter of it, or with all that is left."""

    def __init__(self, seconds: float) -> None:
        self._most, self._end = seconds / 4, time.monotonic() + seconds
        self._runs = False
        signal.signal(signal.SIGALRM, self._alarm)

    def __enter__(self) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(_NO_TIME)
        self._runs = True
        # again and again: the model's own code may swallow it
        signal.setitimer(signal.ITIMER_REAL, min(left, self._most), self._most / 10)

    def __exit__(self, *_: object) -> None:
        self._runs = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _alarm(self, _number: int, _frame: types.FrameType | None) -> None:
        if self._runs:
            raise TimeoutError(_NO_TIME)
