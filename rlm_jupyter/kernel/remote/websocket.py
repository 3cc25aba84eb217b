"""The websocket of a kernel's channels on a Jupyter server.

Source: https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html
"""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Sequence

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from rlm_jupyter.kernel.guest.codec import Frame
from rlm_jupyter.kernel.remote.server import JupyterServer

PROTOCOL = Subprotocol("v1.kernel.websocket.jupyter.org")
_OPEN_SECONDS = 30.0
_PING_SECONDS = 10.0
_PONG_SECONDS = 20.0
"""A connection over which nothing comes back for so long is given up."""
_SIZE = 8
_log = logging.getLogger(f"{__name__}.library")
_log.setLevel(logging.INFO)  # at DEBUG it says the headers, and the token is one


class Websocket(connect):
    """A connection to be made by `async with`; it follows no redirect, which could lead the token elsewhere."""

    def __init__(self, server: JupyterServer, kernel_id: str, session: str) -> None:
        super().__init__(
            server.websocket(kernel_id, session),
            additional_headers=server.headers,
            subprotocols=[PROTOCOL],
            compression=None,
            max_size=None,
            open_timeout=_OPEN_SECONDS,
            ping_interval=_PING_SECONDS,
            ping_timeout=_PONG_SECONDS,
            close_timeout=1.0,
            logger=_log,
        )

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse to go elsewhere."""
        return exc


def acknowledge_at_once(connection: ClientConnection) -> None:
    """Have the system acknowledge what came: else a server that sends small messages waits 40 ms (Nagle)."""
    if hasattr(socket, "TCP_QUICKACK") and (raw := connection.transport.get_extra_info("socket")) is not None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def packed(channel: str, parts: Sequence[Frame]) -> bytes:
    """Return a message as it travels: where each part begins, the channel, the parts."""
    frames = [channel.encode(), *parts]
    offsets = [_SIZE * (len(frames) + 2)]
    for frame in frames:
        offsets.append(offsets[-1] + (len(frame) if isinstance(frame, bytes) else frame.nbytes))
    head = [number.to_bytes(_SIZE, "little") for number in (len(offsets), *offsets)]
    return b"".join([*head, *frames])


def unpacked(data: bytes) -> tuple[str, list[bytes]]:
    """Undo `packed`."""
    count = int.from_bytes(data[:_SIZE], "little")
    at = [int.from_bytes(data[_SIZE * number : _SIZE * (number + 1)], "little") for number in range(1, count + 1)]
    channel, *parts = (data[start:end] for start, end in itertools.pairwise(at))
    return channel.decode(), parts
