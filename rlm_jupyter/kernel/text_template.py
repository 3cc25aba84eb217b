"""`TextTemplate`: a template with a text, as the host sees it: kernels that are given this text are forked from it.

A text of a gigabyte is then in memory once, however many kernels of a run have it: nothing ever writes to a `str`. It
is the fork of another template, serves one run, and ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import threading
from typing import Self

from rlm_jupyter.kernel.forking import READY_SECONDS, Forking, TemplateError
from rlm_jupyter.kernel.start_channels import readable
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.types.utf8 import is_ascii

_PIECE = 1 << 26
"""Bytes that are written at once: between two pieces the writer waits for the other threads of this process."""
_PIPE_BYTES = 1 << 20
_BYTES_A_SECOND = 10_000_000
"""That are read on a slow machine."""
_MOST_BYTES = 10_000
_END_SECONDS = 10.0
_SET_PIPE_SIZE = 1031
"""`F_SETPIPE_SZ`, which `fcntl` of this Python may not name."""


class TextNotReadError(Exception):
    """A text is not held; the template that was asked is as good as before."""


class TextTemplate(Forking):
    """A template with a text; use `await TextTemplate.made(...)`."""

    def __init__(self, parent: Template, channel: socket.socket, pidfd: int) -> None:
        super().__init__(parent.environment, parent.variables)
        self._channel, self._pidfd = channel, pidfd
        self._closing = threading.Lock()
        self._parent = parent

    @classmethod
    async def made(cls, parent: Template, text: bytes | memoryview) -> Self:
        """Fork a template that reads a text, given as UTF-8 with `surrogatepass`.

        Raises
        ------
        TemplateError
            The other one gives none.
        TextNotReadError
            It could not be read.
        """
        nbytes = memoryview(text).nbytes
        sandbox = parent.environment.sandbox
        request = {
            "nbytes": nbytes,
            "is_ascii": await asyncio.to_thread(is_ascii, text),
            "disk": sandbox.disk if sandbox.kind == "bwrap" else None,
        }
        stop = threading.Event()
        with contextlib.ExitStack() as ours:
            try:
                channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.callback(channel.close)
                ours.callback(theirs.close)
                source, writes = os.pipe()
            except OSError as error:  # too many open files
                raise TextNotReadError(str(error)) from error
            channel.setblocking(False)
            is_asked = False
            writing = asyncio.create_task(asyncio.to_thread(_write, writes, text, stop))
            ours.callback(stop.set)
            try:
                async with asyncio.timeout(READY_SECONDS + nbytes / _BYTES_A_SECOND):
                    try:
                        sent = json.dumps(request).encode()
                        await parent.ask(sent, lambda host: [theirs.fileno(), source, host])
                        is_asked = True
                    finally:
                        theirs.close()
                        os.close(source)
                    await readable(channel)
                    await writing
            except (OSError, TimeoutError) as error:
                if is_asked and isinstance(error, TimeoutError):  # no fault of the template: the machine swaps, say
                    raise TextNotReadError("it takes too long") from error
                raise TemplateError(f"it does not answer ({type(error).__name__}: {error})") from error
            message, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, 1)
            if not fds:
                said = json.loads(message) if message else {}
                raise TextNotReadError(said["unread"]) if "unread" in said else parent.failure(message)
            ours.pop_all()
        return cls(parent, channel, fds[0])

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and can't be asked any more."""
        return self._pidfd < 0 or self._is_gone(0.0)

    def _is_gone(self, seconds: float) -> bool:
        looking = select.poll()
        looking.register(self._pidfd, select.POLLIN)
        return bool(looking.poll(1_000 * seconds))

    def stderr_tail(self) -> str:
        """Return what its kernels have said on standard error; empty where that went to ours."""
        return self._parent.stderr_tail()

    def close(self) -> None:
        """End it; its kernels go on. Wait until it is gone, for a few milliseconds."""
        with self._closing:
            if self._pidfd < 0:
                return
            self._channel.close()
            if not self._is_gone(_END_SECONDS):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = -1


def _write(writes: int, text: bytes | memoryview, stop: threading.Event) -> None:
    """Write a text into a pipe, and close that; less of it where nobody reads on."""
    import fcntl  # not on Windows, where there are no templates

    view = memoryview(text)
    try:
        with contextlib.suppress(OSError):
            fcntl.fcntl(writes, _SET_PIPE_SIZE, _PIPE_BYTES)
        with contextlib.suppress(BrokenPipeError):
            while view and not stop.is_set():
                view = view[os.write(writes, view[:_PIECE]) :]
    finally:
        os.close(writes)
