"""Real Jupyter servers in processes of their own, and a proxy before them that delays and cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.support.ports import port_of

TOKEN = "a-token-of-the-tests"
_ATTEMPTS = 3
"""A `jupyter_server` chooses its port before it takes it, and ends where another has taken it meanwhile."""


@contextlib.contextmanager
def serving(folder: Path, module: str = "jupyter_server", *options: str) -> Iterator[str]:
    """Start a `jupyter_server` or a `kernel_gateway`, and yield its address."""
    own = {
        "jupyter_server": [
            "--ServerApp.port=0",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={folder}",
            "--ServerApp.jpserver_extensions={}",
            "--no-browser",
            "--allow-root",
        ],
        "kernel_gateway": [
            "--KernelGatewayApp.port=0",
            f"--KernelGatewayApp.auth_token={TOKEN}",
        ],
    }[module]
    command = [sys.executable, "-m", module, *own, *options]
    for _ in range(_ATTEMPTS):
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            if (port := port_of(process)) is not None:
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            process.terminate()
            process.wait(30)
    raise AssertionError((folder / "server.log").read_text())


class Proxy:
    """Passes connections on to a server: each direction late, and now and then cuts those of channels.

    Parameters
    ----------
    url
        The server's.
    delay
        Seconds, each way.
    cuts
        Seconds between two cuts, at random between a tenth of it and it; `None`: none but those of `cut`.
    """

    def __init__(self, url: str, *, delay: float = 0.0, cuts: float | None = None, seed: int = 0) -> None:
        self._port = int(url.rpartition(":")[2])
        self._delay, self._cuts, self._random = delay, cuts, random.Random(seed)
        self._channels: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.cut_so_far = 0
        self.is_down = False
        """Refuse whoever connects."""
        self.is_stopped = False
        """Answer as a hub does that has stopped the server."""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> None:
        """Cut the connections of channels now; what is on its way is lost."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for pair in self._channels:
            self.cut_so_far += 1
            for writer in pair:
                writer.transport.abort()
        self._channels.clear()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._socket))
        if self._cuts is not None:
            self._loop.create_task(self._keep_cutting(self._cuts))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with contextlib.suppress(RuntimeError):
            self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _keep_cutting(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.1, 1) * seconds)
            self._cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        if self.is_stopped:
            path = (await reader.readline()).split()[1].decode()
            answer = f"HTTP/1.1 302 Found\r\nLocation: /hub{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(answer.encode())
            await writer.drain()
            writer.close()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            first = await reader.read(65_536)
        except OSError:
            writer.transport.abort()
            return
        for each in (writer, back):
            each.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (writer, back)
        if b"/channels" in first.split(b"\r\n", 1)[0]:
            self._channels.add(pair)
        try:
            await asyncio.gather(self._pass(reader, back, first), self._pass(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._channels.discard(pair)
            for each in pair:
                each.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, first: bytes = b"") -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                at, data = await late.get()
                await asyncio.sleep(at - self._loop.time())
                if not data:
                    target.transport.abort()
                    return
                target.write(data)
                await target.drain()

        delivering = asyncio.create_task(deliver())
        try:
            if first:
                late.put_nowait((self._loop.time() + self._delay, first))
            while data := await source.read(262_144):
                late.put_nowait((self._loop.time() + self._delay, data))
            late.put_nowait((self._loop.time() + self._delay, b""))
            await delivering
        finally:
            delivering.cancel()
