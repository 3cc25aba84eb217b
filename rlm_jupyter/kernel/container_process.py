"""`ContainerProcess`: a kernel in a container of docker's or podman's, reached through the client's pipes.

The image needs Python and ipykernel, nothing of ours: the guest is sent in as source, through the same pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import secrets
import subprocess
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.kernel.guest.codec import Frame
from rlm_jupyter.kernel.guest.piped import CHANNELS, COMMAND, INTERRUPT, SEAL, pack, reader, unpack
from rlm_jupyter.kernel.process import KernelProcess, working_directory
from rlm_jupyter.kernel.remote.guest_source import sources
from rlm_jupyter.kernel.sandbox import container, seccomp
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.sandbox.undumpable import hide
from rlm_jupyter.kernel.shield import in_a_thread
from rlm_jupyter.types.errors import ForkRefusedError, KernelStartError

_GUEST = ("rlm_jupyter.kernel.guest.piped", "rlm_jupyter.kernel.guest.__main__")
_LIBRARY = "/tmp/rlm-guest"
_BOOT = f"""
import json, os, sys, zlib
if sys.version_info < (3, 11):
    sys.exit("its Python is %d.%d; it needs 3.11 or newer" % sys.version_info[:2])
try:
    import ipykernel, zmq
except ImportError:
    sys.exit("the image has no ipykernel: RUN pip install ipykernel")
def read(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            sys.exit("the host is gone")
        data += piece
    return data
hello = json.loads(zlib.decompress(read(int.from_bytes(read(8), "big"))))
for name, text in hello.pop("sources").items():
    path = os.path.join({_LIBRARY!r}, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
sys.path.insert(0, {_LIBRARY!r})
from rlm_jupyter.kernel.guest.piped import relay
relay(hello)
"""
_SIGNALLED = 128
_AHEAD = 1_000
"""Messages that are read before the loop has taken them: a flood must not fill the memory here."""
_STDERR_LINES = 20
_PIECE = 1 << 16
_LINE_CHARS = 500
_CLOSE_SECONDS = 10.0


class PipedChannel:
    """What `Channel` is where the kernel has sockets on this machine."""

    def __init__(self, send: Callable[[Sequence[Frame]], None]) -> None:
        self.send = send
        """Send one message; never blocks."""

    def close(self) -> None:
        """Do nothing: the pipe is closed as a whole."""


class ContainerProcess(KernelProcess):
    """A kernel in a container; made by `ContainerProcess.run(...)`."""

    def __init__(self, kind: str, name: str, client: subprocess.Popen[bytes], key: bytes) -> None:
        self._kind, self._name, self._client, self._key = kind, name, client, key
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[int, Callable[[list[Any]], None]] = {}
        self._outgoing: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._ahead = threading.Semaphore(_AHEAD)
        self._said: deque[str] = deque(maxlen=_STDERR_LINES)
        self._tell: Callable[[int | None], None] | None = None
        self._has_ended = False
        self._threads = [
            threading.Thread(target=target, name="rlm_jupyter container", daemon=True)
            for target in (self._write, self._read, self._read_errors)
        ]

    @classmethod
    async def run(cls, sandbox: Sandbox, cwd: str | Path | None, environment: Mapping[str, str] | None) -> Self:
        """Start a container, and send the guest in.

        Parameters
        ----------
        sandbox
            Its kind is `docker` or `podman`.
        cwd
            The working directory, where the sandbox shows it. Default: the caller's.
        environment
            Variables of the kernel, which see no other of this process's.

        Raises
        ------
        ConfigurationError
            There is no such directory.
        KernelStartError
            The client can't be run; whatever else is wrong shows when the kernel does not come up.
        """
        name, key = f"rlm-{secrets.token_hex(8)}", secrets.token_hex(32)
        hide()
        words = container.command(sandbox, name, working_directory(cwd), _BOOT)
        confined = {"memory": sandbox.memory, "processes": None, "template": False}
        hello = {"key": key, "confined": confined, "library": _LIBRARY, "environment": dict(environment or {})}
        hello["filters"] = {machine: rules.hex() for machine, rules in seccomp.in_containers().items()}
        hello |= {"home": container.HOME, "work": container.WORK, "sources": sources(_GUEST)}
        packed = zlib.compress(json.dumps(hello).encode())
        pipe = subprocess.PIPE
        # a session of its own: Ctrl-C in a terminal is the host's affair
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            client = subprocess.Popen(  # noqa: ASYNC220  some milliseconds
                words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, **options
            )
        except OSError as error:
            raise KernelStartError(f"{sandbox.kind} could not be started: {error.strerror or error}.") from error
        process = cls(sandbox.kind, name, client, key.encode())
        process._outgoing.put([len(packed).to_bytes(8, "big"), packed])
        for thread in process._threads:
            thread.start()
        return process

    @property
    def key(self) -> bytes:
        """The connection's signing key."""
        return self._key

    @property
    def is_forked(self) -> bool:
        """Whether it was forked from a template: never."""
        return False

    @property
    def supervised(self) -> None:
        """Nothing: who watches over it is in the container, too."""
        return

    @property
    def pid(self) -> int:
        """Of the client; the kernel's own is the container's affair."""
        return self._client.pid

    @property
    def stderr_tail(self) -> str:
        """What client and kernel have said last on standard error."""
        return "\n".join(self._said)

    def channel(self, name: str, on_message: Callable[[list[Any]], None]) -> Any:
        """Open `shell`, `control` or `iopub`; `on_message` is told the frames of each message."""
        number = CHANNELS.index(name)
        self._receivers[number] = on_message
        return PipedChannel(lambda frames: self._outgoing.put(pack(number, frames)))

    def on_death(self, tell: Callable[[int | None], None]) -> None:
        """Call `tell` with the exit code as soon as the container ends."""
        self._tell = tell
        if self._has_ended:
            self._loop.call_soon(self._ended)

    async def seal(self) -> None:
        """Take away what only the kernel's start needed, before any cell runs."""
        self._command(SEAL)

    async def interrupt(self) -> None:
        """Send SIGINT to the kernel and what it started."""
        self._command(INTERRUPT)

    async def fork(self, *args: object, **options: object) -> KernelProcess:
        """Refuse.

        Raises
        ------
        ForkRefusedError
            Always.
        """
        raise ForkRefusedError("it is in a container")

    async def _kill(self) -> None:
        self._tell = None
        self._outgoing.put(None)
        await in_a_thread(self._remove)

    def _remove(self) -> None:
        if self._client.poll() is None:
            self._client.kill()
        for thread in self._threads:
            thread.join(_CLOSE_SECONDS)
        self._client.wait()
        for pipe in (self._client.stdin, self._client.stdout, self._client.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        container.remove(self._kind, self._name)

    def _command(self, what: bytes) -> None:
        self._outgoing.put(pack(COMMAND, [what]))

    def _write(self) -> None:
        """Write what there is to say (a thread of its own); nobody hears it once the client has ended."""
        assert self._client.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (pieces := self._outgoing.get()) is not None:
                for piece in pieces:
                    rest = memoryview(piece).cast("B")
                    while rest:
                        rest = rest[self._client.stdin.write(rest) :]

    def _read(self) -> None:
        """Read what the kernel says, then wait for the client's end (a thread of its own)."""
        assert self._client.stdout is not None
        read = reader(self._client.stdout.fileno())
        with contextlib.suppress(EOFError, OSError, ValueError, RuntimeError, MemoryError):
            while True:
                channel, frames = unpack(read)
                self._ahead.acquire()
                self._loop.call_soon_threadsafe(self._deliver, channel, frames)
        try:
            self._client.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._client.kill()  # it says what is no message, and goes on: of no use any more
            self._client.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended)

    def _read_errors(self) -> None:
        assert self._client.stderr is not None
        rest = b""
        with contextlib.suppress(OSError, ValueError):
            while piece := self._client.stderr.read(_PIECE):  # unbuffered: what is there
                *lines, rest = (rest + piece).split(b"\n")
                self._say(lines)
                rest = rest[-_LINE_CHARS:]
        self._say([rest])

    def _say(self, lines: Sequence[bytes]) -> None:
        said = (line[:_LINE_CHARS].decode(errors="replace").strip() for line in lines)
        self._said.extend(filter(None, said))

    def _deliver(self, channel: int, frames: list[bytes]) -> None:
        self._ahead.release()
        if (receive := self._receivers.get(channel)) is not None:
            receive(frames)

    def _ended(self) -> None:
        self._has_ended = True
        if self._tell is not None:
            tell, self._tell = self._tell, None
            code = self._client.returncode
            tell(_SIGNALLED - code if code is not None and code > _SIGNALLED else code)
