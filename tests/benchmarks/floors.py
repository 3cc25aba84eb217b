"""The floors, as a worker: what the same work takes with nothing of ours, or anybody's, around it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import zmq
import zmq.asyncio

from tests.benchmarks.worker import ROOT, seconds_of_python, serve, text_of

SHARED = Path("/dev/shm")
"""Memory-backed storage, where there is some."""
_LARGE = 65_536
"""Bytes above which sending a message without a copy pays."""


_CELL = """
import sys, time, statistics
sys.path.insert(0, {root!r})
from tests.benchmarks.floors import _EchoFromThreads
echo, seconds = _EchoFromThreads({url!r}), []
echo.ask(b"first")
for _ in range({count}):
    began = time.perf_counter()
    echo.ask(b"x")
    seconds.append(time.perf_counter() - began)
print(statistics.median(seconds))
"""


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
        self._echoes: dict[str, _BareEcho] = {}
        self._kernel: Any = None
        self._numbers = itertools.count()

    def echo(self, count: int, nbytes: int) -> float:
        """A message of so many bytes to an asyncio process and back, over a private ipc socket: the median."""
        return self._echo("bare", _BareEcho, count, nbytes)

    def echo_from_threads(self, count: int, nbytes: int) -> float:
        """The same where any thread may ask, as it may call `llm_query`: the socket has a thread of its own."""
        return self._echo("threads", _EchoFromThreads, count, nbytes)

    def echo_from_a_cell(self, count: int) -> float:
        """The same, asked by a cell of a stock kernel, as a sub-call is: the bare private ZMQ echo of that place."""
        url = f"{self._url}-cell"
        host = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.floors", url], cwd=ROOT)
        try:
            return float(
                self._loop.run_until_complete(self._run_cell(_CELL.format(root=str(ROOT), url=url, count=count)))
            )
        finally:
            host.terminate()
            host.wait()

    def _echo(self, name: str, kind: type[_BareEcho], count: int, nbytes: int) -> float:
        if name not in self._echoes:
            url = f"{self._url}-{name}"
            host = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.floors", url], cwd=ROOT)
            self._stack.callback(host.wait)
            self._stack.callback(host.terminate)
            self._echoes[name] = kind(url)
            self._echoes[name].ask(b"first")
        message = b"x" * nbytes
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            self._echoes[name].ask(message)
            seconds.append(time.perf_counter() - began)
        return median(seconds)

    def execute(self, count: int) -> float:
        """An `execute_request` to a stock ipykernel through `jupyter_client`, until it is idle: the median."""
        return median(self._loop.run_until_complete(self._execute()) for _ in range(count))

    async def _execute(self) -> float:
        if self._kernel is None:
            await self._run_cell("")
        began = time.perf_counter()
        shown = await self._run_cell(f"x = {next(self._numbers)}\nprint(x)")
        seconds = time.perf_counter() - began
        assert shown.strip()
        return seconds

    async def _run_cell(self, source: str) -> str:
        """What a cell prints in a stock kernel, which is started by the first."""
        if self._kernel is None:
            self._kernel = await _start()
            manager, client = self._kernel
            self._stack.callback(lambda: self._loop.run_until_complete(_stop(manager, client)))
        client = self._kernel[1]
        request = client.execute(source)
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
        return shown

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


class _BareEcho:
    """A private socket, used by one thread."""

    def __init__(self, url: str) -> None:
        # Any: its options and flags are typed as whole numbers, bytes or enumerations by turns
        self._socket: Any = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(url)

    def ask(self, message: bytes) -> None:
        """Send, and wait for what comes back."""
        self._socket.send(message, copy=len(message) < _LARGE)
        self._socket.recv()


class _EchoFromThreads(_BareEcho):
    """A private socket with an event loop in a thread of its own, because a socket belongs to one thread."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._answered = threading.Lock()
        self._answered.acquire()
        self._loop = asyncio.new_event_loop()
        self._loop.add_reader(self._socket.getsockopt(zmq.FD), self._drain)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def ask(self, message: bytes) -> None:
        """Hand it over, and wait until the other thread says that it was answered."""
        self._loop.call_soon_threadsafe(self._send, message)
        self._answered.acquire()

    def _send(self, message: bytes) -> None:
        self._socket.send(message, copy=len(message) < _LARGE)
        self._drain()

    def _drain(self) -> None:
        while self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            self._socket.recv(zmq.NOBLOCK)
            self._answered.release()


async def _start() -> Any:
    from jupyter_client.manager import start_new_async_kernel

    return await start_new_async_kernel()


async def _stop(manager: Any, client: Any) -> None:
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


async def _echo_for_ever(url: str) -> None:
    socket = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
    socket.bind(url)
    while True:
        peer, message = await socket.recv_multipart(copy=False)
        # a sub-call's reply is short, whatever its prompt was
        await socket.send_multipart([peer, bytes(message.buffer[:60])])


def main() -> None:
    """Serve; or, given an address, echo."""
    if len(sys.argv) > 1:
        asyncio.run(_echo_for_ever(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="rlm-") as folder, contextlib.ExitStack() as stack:
        floors = Floors(folder, stack)
        names = ("echo", "echo_from_threads", "echo_from_a_cell", "execute", "start", "file", "imports")
        serve({name: getattr(floors, name) for name in names})


if __name__ == "__main__":
    main()
