"""The floors, as a worker: what the same work takes with nothing of ours, or anybody's, around it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.worker import ROOT, seconds_of_python, serve, text_of

SHARED = Path("/dev/shm")
"""Memory-backed storage, where there is some."""


class Floors:
    """What can be measured.

    Parameters
    ----------
    folder
        For sockets.
    stack
        Closes what was started.
    """

    def __init__(self, folder: str, stack: contextlib.ExitStack) -> None:
        self._url = f"ipc://{folder}/echo"
        self._stack = stack
        self._loop = asyncio.new_event_loop()
        self._socket: Any = None
        self._kernel: Any = None
        self._numbers = itertools.count()

    def echo(self, count: int, nbytes: int) -> float:
        """A message of so many bytes to an asyncio process and back, over a private ipc socket: the median."""
        import zmq

        if self._socket is None:
            host = subprocess.Popen([sys.executable, "-m", __spec__.name, self._url], cwd=ROOT)
            self._stack.callback(host.wait)
            self._stack.callback(host.terminate)
            self._socket = zmq.Context.instance().socket(zmq.DEALER)
            self._socket.connect(self._url)
            self._stack.callback(self._socket.close, 0)
            self._echo(b"first")
        message = b"x" * nbytes
        return median(self._echo(message) for _ in range(count))

    def _echo(self, message: bytes) -> float:
        began = time.perf_counter()
        self._socket.send(message, copy=len(message) < 65_536)
        # a sub-call's reply is short, whatever its prompt was
        self._socket.recv()
        return time.perf_counter() - began

    def execute(self, count: int) -> float:
        """An `execute_request` to a stock ipykernel through `jupyter_client`, until it is idle: the median."""
        if self._kernel is None:
            self._kernel = self._loop.run_until_complete(_start())
            manager, client = self._kernel
            self._stack.callback(lambda: self._loop.run_until_complete(_stop(manager, client)))
        return median(self._loop.run_until_complete(self._execute()) for _ in range(count))

    async def _execute(self) -> float:
        client = self._kernel[1]
        began = time.perf_counter()
        request = client.execute(f"x = {next(self._numbers)}\nprint(x)")
        shown = ""
        while True:
            message = await client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                shown += message["content"]["text"]
            elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        await client.get_shell_msg()
        assert shown.strip()
        return time.perf_counter() - began

    def start(self) -> float:
        """`start_new_async_kernel`."""

        async def start() -> float:
            began = time.perf_counter()
            manager, client = await _start()
            seconds = time.perf_counter() - began
            await _stop(manager, client)
            return seconds

        return self._loop.run_until_complete(start())

    def file(self, nbytes: int) -> float:
        """Write a text to a file in memory-backed storage, and read it again."""
        text = text_of(nbytes)
        where = SHARED if SHARED.is_dir() else None
        with tempfile.TemporaryDirectory(dir=where) as folder:
            path = Path(folder, "context.txt")
            began = time.perf_counter()
            path.write_bytes(text.encode())
            again = path.read_bytes().decode()
            seconds = time.perf_counter() - began
        assert len(again) == nbytes
        return seconds

    def imports(self) -> float:
        """A Python that imports nothing."""
        return seconds_of_python("pass")


async def _start() -> Any:
    from jupyter_client.manager import start_new_async_kernel

    return await start_new_async_kernel()


async def _stop(manager: Any, client: Any) -> None:
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


async def _echo_for_ever(url: str) -> None:
    import zmq
    import zmq.asyncio

    socket = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
    socket.bind(url)
    while True:
        peer, message = await socket.recv_multipart(copy=False)
        await socket.send_multipart([peer, bytes(message.buffer[:60])])


def main() -> None:
    """Serve; or, given an address, echo."""
    if len(sys.argv) > 1:
        asyncio.run(_echo_for_ever(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="rlm-") as folder, contextlib.ExitStack() as stack:
        floors = Floors(folder, stack)
        names = ("echo", "execute", "start", "file", "imports")
        serve({name: getattr(floors, name) for name in names})


if __name__ == "__main__":
    main()
