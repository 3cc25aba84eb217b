"""`StartChannels`: the two sockets that a kernel is started with, beside those of its connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from rlm_jupyter.kernel.supervised_process import SupervisedProcess
from rlm_jupyter.kernel.supervisor import Supervisor

_MOST_BYTES = 10_000


class NotStartedError(Exception):
    """No process came; `message` is what was said in place of one, or nothing."""

    def __init__(self, message: bytes) -> None:
        super().__init__()
        self.message = message


class StartChannels:
    """One for its supervisor, and one for the kernel itself, on which it is sent what a fork of it needs."""

    def __init__(self) -> None:
        self.channel, self._their_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._forks, self._their_forks = fork_channel()
        self.channel.setblocking(False)

    @property
    def theirs(self) -> tuple[int, int]:
        """The descriptors that are passed on: that of the supervisor, and that of the kernel."""
        return self._their_channel.fileno(), self._their_forks.fileno()

    def tell(self, connection: Mapping[str, Any]) -> None:
        """Send a fork what its connection is: its key is in no file, and not in the template that others come from."""
        self._forks.send(json.dumps(connection).encode())

    def pass_on(self) -> None:
        """Close our copies of what has been passed on."""
        self._their_channel.close()
        self._their_forks.close()

    async def process(self, **about: Any) -> SupervisedProcess:
        """Wait until the kernel's process is there, and return it.

        Parameters
        ----------
        **about
            As for `Supervisor`.

        Raises
        ------
        NotStartedError
            It has ended before.
        """
        await readable(self.channel)
        message, fds, _, _ = socket.recv_fds(self.channel, _MOST_BYTES, 2)
        if len(fds) != 2:
            raise NotStartedError(message)
        supervisor = Supervisor(self.channel, fds[0], **about)
        number = int(json.loads(message)["started"])
        supervisor.kernels.add(number)
        return SupervisedProcess(supervisor, number, fds[1], self._forks)

    def close(self) -> None:
        """Close all of it."""
        self.pass_on()
        self.channel.close()
        self._forks.close()


def fork_channel() -> tuple[socket.socket, socket.socket]:
    """Return our end, which takes nothing, and that of a kernel: code of a model's may get hold of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)  # it may read nothing of what it is sent
    ours.shutdown(socket.SHUT_RD)
    return ours, theirs


async def readable(channel: socket.socket) -> None:
    """Wait until there is something to read, or the other end is closed."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(channel, tell)
    try:
        await ready
    finally:
        loop.remove_reader(channel)
