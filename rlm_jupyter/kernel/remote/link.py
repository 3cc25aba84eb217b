"""`Link`: the host's end of the connection to a kernel on a Jupyter server, made again whenever it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import broadcast
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from rlm_jupyter.kernel.guest.codec import DELIMITER, Codec, Frame, WireMessage
from rlm_jupyter.kernel.guest.numbered import LINK, PIECE_BYTES, Numbered
from rlm_jupyter.kernel.remote.guest_source import bootstrap
from rlm_jupyter.kernel.remote.rest import Rest
from rlm_jupyter.kernel.remote.server import NOT_RUNNING, JupyterServer
from rlm_jupyter.kernel.remote.websocket import PROTOCOL, Websocket, acknowledge_at_once, packed, unpacked

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 300.0
"""For how long a lost connection is tried again."""
HUB_SECONDS = 30.0
"""For how long a hub may say that the server does not run: one that was started again finds its servers first."""
_RESTS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds between two tries; the last one from then on."""
_BEAT_SECONDS = 3.0
_LOOK_BEATS = 5
"""Each so many beats the server is asked whether it has the kernel still: it tells nobody that it has ended one."""
_AT_ONCE_SECONDS = 0.02
_SMALL_BYTES = 65_536
"""A message up to so large is sent at once where nothing waits before it: a task that does costs a turn of the loop."""
_DEAD = frozenset({"restarting", "autorestarting", "dead"})
"""What a server says of a kernel whose process has ended, also where it has started another."""
_PLAIN = Codec(b"", "rlm")


class LinkChannel:
    """What `Channel` is where the kernel is on this machine."""

    def __init__(self, name: str, link: Link) -> None:
        self._name, self._link = name, link

    def send(self, frames: Sequence[Frame]) -> None:
        """Send one message; never blocks."""
        self._link.send(self._name, frames)

    def close(self) -> None:
        """Do nothing: the link is closed as a whole."""


class Link:
    """Messages to the guest and from it; begun by `open`.

    Parameters
    ----------
    server, rest
        Where the kernel is.
    kernel_id
        The server's for it.
    on_end
        Told why, once, when there is no kernel to be reached any more.
    """

    def __init__(self, server: JupyterServer, rest: Rest, kernel_id: str, on_end: Callable[[str], None]) -> None:
        self._server, self._rest, self._kernel_id = server, rest, kernel_id
        self._on_end = on_end
        self._receivers: dict[str, Callable[[list[Any]], None]] = {}
        self._numbered = Numbered(self._say, self._take, PIECE_BYTES)
        self._connection: ClientConnection | None = None
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_writing = False
        self._keeping: asyncio.Task[None] | None = None
        self._connections = 0
        self._is_in = False
        self._coming_in = ""
        self._clocks: dict[asyncio.Timeout, float] = {}
        self._loop = asyncio.get_running_loop()
        self._lost_at = self._loop.time()
        self._opened = asyncio.Event()
        self._ended = False

    def channel(self, name: str, on_message: Callable[[list[Any]], None]) -> LinkChannel:
        """Open one of the kernel's channels."""
        self._receivers[name] = on_message
        return LinkChannel(name, self)

    def open(self) -> None:
        """Begin to connect; what is sent waits until the guest is there."""
        self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Close the connection for good."""
        self._ended = True
        if self._keeping is not None and self._keeping is not asyncio.current_task():
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    def send(self, channel: str, frames: Sequence[Frame]) -> None:
        """Send the guest a message; without a connection, as soon as there is one."""
        self._numbered.send(channel, frames[2:])

    @property
    def waiting(self) -> int:
        """How many messages, or pieces of one, have not come there yet."""
        return self._numbered.waiting

    async def opened(self) -> None:
        """Wait until there is a connection."""
        await self._opened.wait()

    @contextlib.asynccontextmanager
    async def within(self, seconds: float | None) -> AsyncIterator[None]:
        """Raise `TimeoutError` after so much time with a connection; without one, the time stands still."""
        async with asyncio.timeout(None) as clock:
            if seconds is not None:
                self._clocks[clock] = seconds
                if self._numbered.is_open:
                    clock.reschedule(self._loop.time() + seconds)
            try:
                yield
            finally:
                self._clocks.pop(clock, None)

    async def _keep(self) -> None:
        """Hold one connection after the other."""
        tries, stopped_at = 0, None
        while not self._ended:
            is_stopped = False
            try:
                await self._hold()
            except InvalidStatus as error:
                status = error.response.status_code
                if status == 404:
                    self._end("the server has ended the kernel, as one does that ends idle kernels (culling)")
                elif status in {401, 403}:
                    self._end(f"{self._server.refusal(status)}: it has taken it before; it may have run out")
                is_stopped = status in NOT_RUNNING
            except (OSError, WebSocketException, InvalidHandshake, TimeoutError) as error:
                log.info("the connection to %s is lost: %s", self._server.url, str(error) or type(error).__name__)
            tries = 0 if self._numbered.is_open else tries + 1
            self._pause()
            stopped_at = (stopped_at or self._loop.time()) if is_stopped else None
            if stopped_at is not None and self._loop.time() - stopped_at > HUB_SECONDS:
                self._end("its hub has stopped the server, and the kernel with it")
            if self._loop.time() - self._lost_at > RECONNECT_SECONDS:
                self._end(f"the server at {self._server.url} could not be reached for {RECONNECT_SECONDS:.0f} s")
            if not self._ended:
                await asyncio.sleep(_RESTS[min(tries, len(_RESTS) - 1)])

    async def _hold(self) -> None:
        self._connections += 1
        async with Websocket(self._server, self._kernel_id, secrets.token_hex(8)) as connection:
            if connection.subprotocol != PROTOCOL:
                self._end(f"the Jupyter server at {self._server.url} is too old: it needs jupyter_server 2")
                return
            self._connection, self._outgoing, self._is_writing = connection, asyncio.Queue(), False
            if self._is_in:
                self._resume()
            else:
                self._come_in()
            helpers = [asyncio.create_task(self._write(connection)), asyncio.create_task(self._beat())]
            try:
                await self._read(connection)
            finally:
                for helper in helpers:
                    helper.cancel()
                await asyncio.gather(*helpers, return_exceptions=True)

    async def _write(self, connection: ClientConnection) -> None:
        while True:
            await connection.send(await self._outgoing.get())
            self._is_writing = not self._outgoing.empty()

    async def _read(self, connection: ClientConnection) -> None:
        until = self._loop.time() + _AT_ONCE_SECONDS
        async for data in connection:
            acknowledge_at_once(connection)
            try:
                if isinstance(data, bytes):
                    self._receive(*unpacked(data))
            except Exception:  # neither kernel nor server is trusted: what they make up must not stop the reading
                log.exception("a message of the server's can't be read")
            if self._ended:
                return
            if self._loop.time() > until:
                await asyncio.sleep(0)  # a flood must not hold up what ends it
                until = self._loop.time() + _AT_ONCE_SECONDS

    async def _beat(self) -> None:
        """Tell the guest that we are there, find out what was lost on the way, and whether there is a kernel."""
        beats = 0
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            beats += 1
            if self._numbered.is_open:
                self._say({"ping": self._numbered.posted, "seen": self._numbered.seen}, ())
            elif self._is_in:
                self._resume()
            if beats % _LOOK_BEATS == 0 and not await self._rest.is_there(self._kernel_id):
                self._end("the server has ended the kernel, as one does that ends idle kernels (culling)")

    def _come_in(self) -> None:
        """Send the guest into the kernel."""
        self._coming_in = _PLAIN.next_id()
        content = {"code": bootstrap(), "silent": True, "store_history": False, "allow_stdin": False}
        self._post("shell", _PLAIN.encode("execute_request", content, msg_id=self._coming_in))

    def _resume(self) -> None:
        """Ask the guest to go on over this connection."""
        self._say({"resume": self._connections, "seen": self._numbered.seen}, ())
        if self._connections > 1:
            # a kernel that was started again has no guest, and answers this alone
            self._post("control", _PLAIN.encode("kernel_info_request", {}))

    def _receive(self, channel: str, parts: list[bytes]) -> None:
        message = _PLAIN.decode([DELIMITER, b"", *parts])
        if message is None or not isinstance(message.content, dict):
            return
        if channel == "control" and message.type == LINK:
            self._receive_link(message)
        elif channel == "control" and message.type == "kernel_info_reply" and not self._numbered.is_open:
            self._end("the kernel's process ended, and its server has started another")
        elif channel == "shell" and message.parent_id == self._coming_in and not self._is_in:
            self._came_in(message)
        elif channel == "iopub" and message.content.get("execution_state") in _DEAD:
            self._end("the kernel's process ended")

    def _came_in(self, message: WireMessage) -> None:
        if message.content.get("status") != "ok":
            why = str(message.content.get("evalue") or message.content.get("ename") or "no reason is given")
            self._end(f"the kernel on {self._server.url} can't be used: {why}")
            return
        self._is_in = True
        self._resume()

    def _receive_link(self, message: WireMessage) -> None:
        content = message.content
        if content.get("resumed") == self._connections:
            if not self._numbered.is_open:
                self._numbered.resume(content["seen"])
                self._opened.set()
                for clock, seconds in self._clocks.items():
                    clock.reschedule(self._loop.time() + seconds)
        elif "lost" in content:
            self._numbered.resume(content["seen"])
        elif "n" in content:
            if self._numbered.receive(content, message.buffers):
                self._say({"lost": True, "seen": self._numbered.seen}, ())
        else:
            self._numbered.settle(content["seen"])
            if "pong" in content and self._numbered.lacks(content["pong"]):
                self._say({"lost": True, "seen": self._numbered.seen}, ())

    def _take(self, channel: str, parts: list[Frame]) -> None:
        if (receive := self._receivers.get(channel)) is not None:
            head = [bytes(part) for part in parts[:4]]
            receive([DELIMITER, b"", *head, *parts[4:]])

    def _say(self, content: dict[str, Any], buffers: Sequence[Frame]) -> None:
        self._post("control", _PLAIN.encode(LINK, content, buffers=buffers))

    def _post(self, channel: str, frames: Sequence[Frame]) -> None:
        message = packed(channel, frames[2:])
        if self._connection is not None and not self._is_writing and len(message) <= _SMALL_BYTES:
            broadcast([self._connection], message)
        else:
            self._is_writing = True
            self._outgoing.put_nowait(message)

    def _pause(self) -> None:
        """Take note that there is no connection."""
        if self._numbered.is_open:
            self._lost_at = self._loop.time()
        self._numbered.is_open = False
        self._opened.clear()
        for clock in self._clocks:
            clock.reschedule(None)

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(reason)
