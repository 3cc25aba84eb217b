"""`Channel`: one ZMQ socket on an asyncio loop, read until it is dry.

ZMQ announces readability by an edge on a file descriptor, and a send may swallow it: whoever sends and
then waits for the edge waits for ever. So every send here is followed by another look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from rlm_jupyter.kernel.guest.codec import Frame
from rlm_jupyter.kernel.guest.wire import send

_POLLIN = int(zmq.POLLIN)  # pyzmq's own is slow to reckon with
_AT_ONCE = 200
_AT_ONCE_SECONDS = 0.02
"""Messages, and time, taken before the loop gets its turn again: a flood must not hold up what ends it."""


class Channel:
    """A connected socket.

    Parameters
    ----------
    kind
        `zmq.DEALER` or `zmq.SUB`.
    url
        Where to connect.
    on_message
        Called with the frames of each message, on the loop.
    """

    def __init__(self, kind: int, url: str, on_message: Callable[[list[Any]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
        self._socket = socket
        socket.linger = 0
        # unlimited: above a high-water mark messages are lost without a word
        socket.set_hwm(0)
        # the kernel binds a little later than we connect
        socket.reconnect_ivl = 3
        if kind == zmq.SUB:
            socket.subscribe(b"")
        socket.connect(url)
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._drain)

    def send(self, frames: Sequence[Frame]) -> None:
        """Send one message; never blocks. Large buffers are not copied."""
        send(self._socket, frames)
        if self._is_readable:
            self._loop.call_soon(self._drain)

    def close(self) -> None:
        """Close the socket; what is unsent is dropped. A second time does nothing."""
        if not self._socket.closed:
            self._loop.remove_reader(self._fd)
            self._socket.close()

    @property
    def _is_readable(self) -> bool:
        # cheaper than to try
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & _POLLIN)

    def _drain(self) -> None:
        until = self._loop.time() + _AT_ONCE_SECONDS
        for taken in range(_AT_ONCE):
            if self._socket.closed or not self._is_readable:
                return
            if taken and self._loop.time() > until:
                break
            self._on_message(self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        self._loop.call_soon(self._drain)
