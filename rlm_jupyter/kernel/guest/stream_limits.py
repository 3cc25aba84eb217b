"""`BoundedStream`: a cell's standard output and error, up to a size, and all of it before the cell has ended.

ipykernel gathers what is printed until it is sent. A cell that prints without end would fill this process's memory,
and then the host's, before anybody could stop it. What code in C puts out, and processes that a cell has started, is
read from a pipe by a thread, which may come to it when the cell has ended, and is seen no more. So whoever prints, or
flushes, reads it first.
"""

from __future__ import annotations

import codecs
import contextlib
import contextvars
import os
import select
import threading
import time
from collections.abc import Mapping
from typing import Any

from ipykernel.iostream import OutStream

MOST_CHARS = 64 * 2**20
"""That a cell may print to one stream."""
_MOST_READ = 2**20
"""Bytes: as many as a pipe holds, where pages are large."""
_LOOK_SECONDS = 50e-6
"""Between two looks at the pipe by who prints: no process starts and ends sooner, and a loop may print often."""
_MOST_TEXT = MOST_CHARS - 1_024
"""So that the news of it has room as well: whoever reads keeps no more than that."""


class OutputFloodError(RuntimeError):
    """A cell prints without end."""


def _has(lock: Any) -> bool:
    """Return whether this thread holds an `RLock`."""
    return bool(lock._is_owned())


class _Printed:
    """What one cell has printed so far.

    Parameters
    ----------
    parent
        As for `belong_to`.
    """

    __slots__ = ("chars", "key", "parent")

    def __init__(self, parent: Mapping[str, Any]) -> None:
        self.chars = 0
        self.belong_to(parent)

    def belong_to(self, parent: Mapping[str, Any]) -> None:
        """Take the header of the request that it is executed for: by its content, ipykernel tells cells apart."""
        self.parent, self.key = parent, frozenset(parent.items())


class BoundedStream(OutStream):
    """Refuses what a cell prints beyond `MOST_CHARS`: an error in the cell, silence in its other threads."""

    _reading: Any = None
    """Held while the pipe is read from; `None`: ipykernel's own thread reads it, or nobody does."""
    _decoder: Any = None
    """Of what comes through the pipe: a character may come in two pieces."""
    _looked = 0.0
    """When who prints has looked at the pipe."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bound()

    def _bound(self) -> None:
        self._by_cell: dict[str, _Printed] = {}
        """By its id: threads of an earlier cell may still be at it."""
        self._latest = _Printed({})
        self._is_sending = False
        """The thread that sends has taken what was printed, and has not handed it on yet."""

    @classmethod
    def adopt(cls, stream: Any) -> None:
        """Bound a stream of a kernel that lives already."""
        if isinstance(stream, OutStream) and not isinstance(stream, cls):
            stream.__class__ = cls
            stream._bound()  # type: ignore[attr-defined]
            if hasattr(stream, "_original_stdstream_copy"):
                cls._leave_out(stream._original_stdstream_copy)

    def _setup_stream_redirects(self, name: str) -> None:
        """Show what goes to the file descriptor itself: of C code, of processes that a cell has started.

        ipykernel puts that out a second time where the kernel was started, which is the host's own output: a flood
        would fill a terminal or a log. And where that takes no more, it stops to read, and who writes is stuck.
        """
        self.begin_reading()
        super()._setup_stream_redirects(name)
        self._leave_out(self._original_stdstream_copy)

    def begin_reading(self) -> None:
        """Make ready for a new pipe, of which nothing was read yet."""
        self._reading = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _watch_pipe_fd(self) -> None:
        """Read what comes through the pipe, in a thread, until nobody writes there any more."""
        fd = self._fid
        if fd is None:
            return
        coming = select.poll()
        coming.register(fd, select.POLLIN)
        with contextlib.suppress(OSError):  # it was closed
            while self._should_watch:
                coming.poll()
                if not self._take(fd):
                    break

    def _take(self, fd: int) -> bool:
        """Print what is in the pipe by now; return whether there may come more.

        It is the output of the cell that runs, whichever cell has started the thread that takes it.
        """
        with self._reading:
            there = select.poll()
            there.register(fd, select.POLLIN)
            if not there.poll(0):  # another thread has taken it
                return True
            taken = os.read(fd, _MOST_READ)
            if text := self._decoder.decode(taken, final=not taken):
                contextvars.Context().run(self._put, text)
            return bool(taken)

    def _take_first(self) -> None:
        """Print what is in the pipe before anything else; not in a signal's handler that has interrupted just that."""
        fd = self._fid
        if self._reading is None or fd is None or os.getpid() != self._master_pid:
            return
        # amid a print whoever reads may wait for that print, and amid a look nothing may be left to read
        if not _has(self._buffer_lock) and not _has(self._reading):
            self._looked = time.monotonic()
            with contextlib.suppress(OutputFloodError, OSError):  # it is said where the cell itself prints; or closed
                self._take(fd)

    @staticmethod
    def _leave_out(copy: int) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, copy)
        os.close(null)

    def _printed(self) -> _Printed:
        """Return what the cell has printed that is at work, or that has started the thread that is."""
        parent, latest = self.parent_header, self._latest  # once each: another thread may change what is the latest
        if parent is not latest.parent:
            latest = self._by_cell.setdefault(str(parent.get("msg_id", "")), _Printed(parent))
            latest.belong_to(parent)
            self._latest = latest
        return latest

    def _add(self, key: frozenset[Any], string: str) -> bool:
        """Add to what is sent next, as ipykernel does, but in less time: a loop may print often.

        Returns
        -------
        bool
            Whether it did; in a process that the cell has forked, ipykernel's own way is the one to take.
        """
        if self.echo is not None or os.getpid() != self._master_pid:
            return False
        with self._buffer_lock:
            self._buffers[key].write(string)
        if not self._flush_pending:
            self._schedule_flush()
        return True

    def flush(self) -> None:
        """Send what was printed, and wait until the thread that sends has done so; where nothing was, for nobody."""
        if _has(self._buffer_lock):  # a signal's handler amid a print: who sends would wait for that
            return
        self._take_first()
        if self._buffers or self._is_sending or self.echo is not None or os.getpid() != self._master_pid:
            super().flush()

    def _flush(self) -> None:
        self._is_sending = True
        try:
            super()._flush()
        finally:
            self._is_sending = False

    def close(self) -> None:
        """Stay open: a cell that closes its stream would take it from all cells after it."""
        self.flush()

    def write(self, string: Any) -> int:
        """Print, as any stream does.

        Raises
        ------
        OutputFloodError
            The cell has printed more than anybody reads.
        """
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string).__name__}")
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._take_first()
        return self._put(string)

    def _put(self, string: str) -> int:
        printed = self._printed()
        before = printed.chars
        printed.chars = written = before + len(string)
        if written <= _MOST_TEXT and self._add(printed.key, string):
            return len(string)
        room = _MOST_TEXT - before
        if room > 0:
            super().write(string if len(string) <= room else string[:room])
        if before <= _MOST_TEXT < written:
            super().write(f"\n[no more of this stream is shown: it is longer than {MOST_CHARS:,} characters]\n")
        if written > _MOST_TEXT and threading.current_thread() is threading.main_thread():
            raise OutputFloodError(
                f"this cell has printed more than {MOST_CHARS:,} characters, and no more is shown. Keep long things in "
                "variables, and print a part."
            )
        return len(string)
