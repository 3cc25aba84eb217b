"""`Wire`: the guest's end of the control channel.

Requests of the host are answered, and sub-calls are pushed to it, as messages on the kernel's own
**control** socket, to the identity that attached. They take a path of their own through the control
thread: no busy/idle, no flush of the streams, no lock. That path is what makes a call 0.7 ms here, and
keeps it from stalling for 40 ms (Nagle and delayed ACK) behind a Jupyter Server.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from rlm_jupyter.kernel.guest.codec import Codec, Frame, WireMessage, is_ours

Receive = Callable[[WireMessage], None]
# whole numbers, because the arithmetic of pyzmq's enumerations takes longer than the calls that it is for
_POLLIN = int(zmq.POLLIN)
_SNDMORE = int(zmq.SNDMORE)
_LARGE = 65_536
"""Bytes of a frame above which sending it without a copy pays."""


class Wire:
    """Sends from any thread, receives on the control thread.

    Parameters
    ----------
    kernel
        The `ipykernel.kernelbase.Kernel` whose control channel is used.
    receive
        Called on the control thread with each of our messages.
    """

    def __init__(self, kernel: Any, receive: Receive) -> None:
        self._kernel = kernel
        self._receive = receive
        if kernel.control_stream is not None:  # that of a template has none yet
            self.renew()

    def renew(self) -> None:
        """Take the kernel's control channel as it is now; nobody is attached to it."""
        kernel = self._kernel
        self._codec = Codec(kernel.session.key, kernel.session.session)
        self._stream = kernel.control_stream
        self._thread = kernel.control_thread
        self._loop = kernel.control_thread.io_loop.asyncio_loop
        self._host: list[bytes] = []
        self._outbox: deque[list[Frame]] = deque()
        self._pid = os.getpid()

    @property
    def is_own_thread(self) -> bool:
        """Whether this is the control thread, which must never wait for a message: nobody else takes them."""
        return threading.get_ident() == self._thread.ident

    @property
    def is_forked(self) -> bool:
        """Whether this is a process forked from the kernel: the connection is its parent's."""
        return os.getpid() != self._pid

    @property
    def attached(self) -> bool:
        """Whether a host is there to talk to."""
        return bool(self._host)

    def attach(self, idents: list[bytes]) -> None:
        """Take this peer of the control ROUTER for the host from now on."""
        self._host = idents

    def accepts(self, frames: Sequence[Any]) -> bool:
        """Take the message if it is one of ours (control thread); `False` leaves it to ipykernel."""
        if not is_ours(frames):
            return False
        message = self._codec.decode(frames)
        if message is not None:
            self._receive(message)
        return True

    def greets(self, frames: Sequence[Any], stream: Any) -> bool:
        """Answer a host that looks whether this channel is there (its thread); `False` leaves the message to ipykernel.

        Parameters
        ----------
        frames
            What came by the channel.
        stream
            The channel's.
        """
        if not is_ours(frames):
            return False
        if (greeting := self._codec.decode(frames)) is not None:
            stream.send_multipart([*greeting.idents, *self._done(greeting)])
        return True

    def send(self, msg_type: str, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        """Push a message to the host, from any thread.

        Raises
        ------
        RuntimeError
            In a forked child: the connection belongs to its parent.
        """
        if self.is_forked:
            raise RuntimeError(
                "Sub-calls work in the kernel's own process, not in a process forked from it: "
                "call llm_query before or after, or use threads."
            )
        self._post(self._host, self._codec.encode(msg_type, content, buffers=buffers))

    def reply(self, request: WireMessage, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        """Answer a request of the host."""
        self._post(request.idents, self._done(request, content, buffers))

    def _done(
        self, request: WireMessage, content: dict[str, Any] | None = None, buffers: Sequence[Frame] = ()
    ) -> list[Frame]:
        parent = b'{"msg_id": "%s", "msg_type": "%s"}' % (request.id.encode(), request.type.encode())
        return self._codec.encode("rlm_done", content or {}, parent=parent, buffers=buffers)

    def _post(self, idents: Sequence[bytes], frames: Sequence[Frame]) -> None:
        self._outbox.append([*idents, *frames])
        self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        socket = self._stream.socket
        while self._outbox:
            send(socket, self._outbox.popleft())
        # a raw send consumes the notification of what arrived meanwhile: look again ourselves
        if socket.getsockopt(zmq.EVENTS) & _POLLIN:
            self._stream.flush(zmq.POLLIN)


def send(socket: Any, frames: Sequence[Frame]) -> None:
    """Send one message: `send_multipart` in less than half of its time."""
    *first, last = frames
    for frame in first:
        socket.send(frame, _SNDMORE, copy=len(frame) < _LARGE)
    socket.send(last, 0, copy=len(last) < _LARGE)
