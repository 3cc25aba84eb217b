"""`LinkedWire`: the wire of a guest whose host is far away, behind a Jupyter server.

All that the kernel says goes to the host over its control channel, numbered: sub-calls and replies, what cells put out,
and the replies of its shell. A server hands on what goes over IOPub only up to a rate, and loses what it had sent when
a connection breaks. For the server, the status of the kernel stays on IOPub as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp
from zmq.eventloop.zmqstream import ZMQStream

from rlm_jupyter.kernel.guest.codec import DELIMITER, Codec, Frame, WireMessage, is_ours
from rlm_jupyter.kernel.guest.numbered import LINK, Numbered
from rlm_jupyter.kernel.guest.wire import Receive, Wire, send

GONE_SECONDS = 900.0
"""After so long without a word from the host, the kernel ends itself: whoever killed the host has left it."""
_LOOK_SECONDS = 15.0


class LinkedWire(Wire):
    """As `Wire`, for a host that may lose its connection and come back; parameters as there."""

    def __init__(self, kernel: Any, receive: Receive) -> None:
        self._link = Numbered(self._say, self._take)
        self._is_attached = False
        self._connections = 0
        self._heard = time.monotonic()
        super().__init__(kernel, receive)
        stream = kernel.control_stream
        stream.io_loop.add_callback(self._begin)
        self._divert(kernel.iopub_thread)

    def renew(self) -> None:
        """Do as `Wire.renew`; what goes inside a link message, which is signed, is not."""
        super().renew()
        self._signing, self._codec = self._codec, Codec(b"", self._kernel.session.session)

    @property
    def attached(self) -> bool:
        """Whether a host is there to talk to; it may have lost its connection for a while."""
        return self._is_attached

    def attach(self, idents: list[bytes]) -> None:
        """Take whoever links for the host, from now on."""
        self._is_attached = True

    def accepts(self, frames: Sequence[Any]) -> bool:
        """Take the message if it is one of ours (control thread); `False` leaves it to ipykernel."""
        if not is_ours(frames):
            return False
        message = self._signing.decode(frames)
        if message is not None and message.type == LINK:
            self._heard = time.monotonic()
            self._receive_link(message)
        return True

    def _post(self, idents: Sequence[bytes], frames: Sequence[Frame]) -> None:
        self._hand_on("control", frames[2:])

    def _hand_on(self, channel: str, parts: Sequence[Frame]) -> None:
        """Send the host a message, from any thread."""
        with contextlib.suppress(RuntimeError):  # the kernel ends, and its loop is closed
            self._loop.call_soon_threadsafe(self._link.send, channel, parts)

    def _begin(self) -> None:
        """Connect to the kernel's own shell, and take over its control channel (control thread)."""
        stream, app = self._stream, IPKernelApp.instance()
        ip = "127.0.0.1" if app.transport == "tcp" and app.ip in {"", "*", "0.0.0.0"} else app.ip
        at = (
            f"ipc://{Path(ip).absolute()}-{app.shell_port}"
            if app.transport == "ipc"
            else f"tcp://{ip}:{app.shell_port}"
        )
        # not of the kernel's own context, which it can't end before all its sockets are closed
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.linger = 0
        socket.set_hwm(0)
        socket.connect(at)
        self._shell = ZMQStream(socket, stream.io_loop)
        self._shell.on_recv(self._replied, copy=False)
        stream.on_recv(self._dispatch, copy=False)
        self._loop.call_later(_LOOK_SECONDS, self._look)

    def _dispatch(self, frames: Any) -> Any:
        return self._kernel.dispatch_control(frames)

    def _look(self) -> None:
        """End the kernel once nobody has talked to it for long, however busy a cell is."""
        if time.monotonic() - self._heard > GONE_SECONDS:
            os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        self._loop.call_later(_LOOK_SECONDS, self._look)

    def _divert(self, iopub: Any) -> None:
        """Send the host what cells put out, and on IOPub itself the status alone."""
        send_there, own = iopub._really_send, os.getpid()

        def really_send(frames: Sequence[Any], *args: Any, **options: Any) -> None:
            if os.getpid() != own:  # a process that was forked from the kernel: its parent sends it
                send_there(frames, *args, **options)
                return
            parts = _parts(frames)
            if b'"msg_type": "status"' in bytes(parts[0]) or b'"msg_type":"status"' in bytes(parts[0]):
                send_there(frames, *args, **options)
            self._hand_on("iopub", parts)

        iopub._really_send = really_send

    def _replied(self, frames: Sequence[Any]) -> None:
        self._link.send("shell", _parts([frame.buffer for frame in frames]))

    def _receive_link(self, message: WireMessage) -> None:
        content = message.content
        if "resume" in content:
            if content["resume"] < self._connections:
                return  # of a connection that was given up
            self._connections, self._host = content["resume"], message.idents
            self._say({"resumed": content["resume"], "seen": self._link.seen}, ())
            self._link.resume(content["seen"])
        elif "lost" in content:
            self._link.resume(content["seen"])
        elif "n" in content:
            if self._link.receive(content, message.buffers):
                self._say({"lost": True, "seen": self._link.seen}, ())
        else:
            self._link.settle(content["seen"])
            if "ping" in content:
                is_lost = self._link.lacks(content["ping"])
                self._say(({"lost": True} if is_lost else {"pong": self._link.posted}) | {"seen": self._link.seen}, ())

    def _say(self, content: dict[str, Any], buffers: Sequence[Frame]) -> None:
        self._outbox.append([*self._host, *self._signing.encode(LINK, content, buffers=buffers)])
        # never while a message is taken: that may be in a flush of the stream, and one within another loops for good as
        # soon as a message comes between the two (`ZMQStream.flush` reads no more then, and waits for what is there)
        self._loop.call_soon(self._flush)

    def _take(self, channel: str, parts: list[Frame]) -> None:
        if channel == "shell":
            send(self._shell.socket, self._signing.signed(parts))
            self._shell.flush(zmq.POLLIN)
            return
        message = self._codec.decode([DELIMITER, b"", *map(_bytes, parts[:4]), *parts[4:]])
        if message is not None:
            self._receive(message)


def _parts(frames: Sequence[Any]) -> list[Frame]:
    """Return what follows the signature."""
    start = next(at for at, frame in enumerate(frames) if bytes(frame) == DELIMITER)
    return [*frames[start + 2 :]]


def _bytes(frame: Frame) -> bytes:
    return frame if isinstance(frame, bytes) else bytes(frame)
