"""The way in where a container is all there is: a relay between standard input and output and a kernel's sockets.

It is the first process there, and executes nothing of a model's. It starts the kernel as its child, and ends with it,
or as soon as its standard input is closed: whoever kills the host, or the client that the host started, ends all of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import zmq

from rlm_jupyter.kernel.guest.confine import SAFE_PATH, VARIABLE

CHANNELS = ("shell", "control", "iopub")
COMMAND = 255
"""The channel of what the host tells the relay itself: one of these."""
INTERRUPT, SEAL = b"interrupt", b"seal"
MOST_PARTS = 1_000_000
MOST_BYTES = 1 << 40
"""Of one message: what claims more is none."""
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _MODE_FILTER = 4, 22, 2
_SIGNALLED = 128
_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def pack(channel: int, frames: Sequence[Any]) -> list[Any]:
    """Return a message as what is written one after the other: its head, and its frames."""
    sizes = [memoryview(frame).nbytes for frame in frames]
    return [b"".join(number.to_bytes(8, "big") for number in (channel, len(frames), *sizes)), *frames]


def unpack(read: Callable[[int], bytes]) -> tuple[int, list[bytes]]:
    """Read one message: its channel, and its frames.

    Parameters
    ----------
    read
        Returns so many bytes.

    Raises
    ------
    EOFError
        There is none any more.
    ValueError
        It is none.
    """
    channel, count = _numbers(read(16))
    if count > MOST_PARTS:
        raise ValueError("no message")
    sizes = _numbers(read(8 * count))
    if sum(sizes) > MOST_BYTES:
        raise ValueError("no message")
    return channel, [read(size) for size in sizes]


def reader(fd: int) -> Callable[[int], bytes]:
    """Return what reads so many bytes from a descriptor, or raises `EOFError`."""

    def read(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(fd, min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    return read


def _numbers(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8)]


def relay(hello: dict[str, Any]) -> NoReturn:
    """Start the kernel, and pass on what it and its host say to each other.

    Parameters
    ----------
    hello
        `key`: the connection's; `confined`: for `guest/confine.py`; `library`: where our modules are;
        `environment`: of the kernel; `home`, `work`: folders to be made; `filters`: of system calls, in hexadecimal, by
        the machine.
    """
    forbid(bytes.fromhex(hello["filters"].get(platform.machine(), "")))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the kernel's code has the same user
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of a terminal's; the host says what it wants
    run = tempfile.mkdtemp(prefix="rlm-")
    kernel = _started(hello, run)
    threading.Thread(target=_end_with, args=[kernel], daemon=True).start()
    context = zmq.Context()
    inbox = context.socket(zmq.PULL)
    inbox.set_hwm(0)
    inbox.bind("inproc://host")
    threading.Thread(target=_listen, args=[context, kernel, run], daemon=True).start()
    sockets = [_connected(context, channel, run) for channel in CHANNELS]
    poller = zmq.Poller()
    for socket in (inbox, *sockets):
        poller.register(socket, zmq.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready is inbox:
                channel, *frames = inbox.recv_multipart(copy=False)
                sockets[int(bytes(channel))].send_multipart(frames, copy=False)
            else:
                _write(pack(sockets.index(ready), [frame.buffer for frame in ready.recv_multipart(copy=False)]))


def forbid(rules: bytes) -> None:
    """Filter the system calls of this process and those below, beside what the client's own filter does.

    It is tried in a child before: where an image of another machine is emulated, the numbers are not what they seem.
    """
    size = len(rules) // 8
    if not size:
        return
    held = ctypes.create_string_buffer(rules)
    program = struct.pack("HxxxxxxQ" if ctypes.sizeof(ctypes.c_void_p) == 8 else "HxxI", size, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)

    def install() -> bool:
        return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(program), 0, 0) == 0)

    child = os.fork()
    if child == 0:
        is_installed = install()
        os._exit(0 if is_installed and os.getppid() >= 0 else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        install()


def _started(hello: dict[str, Any], run: str) -> subprocess.Popen[bytes]:
    for folder in (hello["home"], hello["work"]):
        Path(folder).mkdir(exist_ok=True)
    connection = {name: at for at, name in enumerate(_PORTS, 1)}
    about = {"transport": "ipc", "ip": f"{run}/k-ipc", "key": hello["key"], "signature_scheme": "hmac-sha256"}
    file = Path(run, "k.json")
    file.write_text(json.dumps(connection | about))
    own = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    own |= {"HOME": hello["home"], "TMPDIR": "/tmp", "IPYTHONDIR": f"{hello['home']}/.ipython", "PYTHONHASHSEED": "0"}
    own |= hello["environment"] | {
        "PYTHONPATH": hello["library"],
        VARIABLE: json.dumps(hello["confined"] | {"parent": os.getpid()}),
        SAFE_PATH: "1",
    }
    words = [sys.executable, "-m", "rlm_jupyter.kernel.guest", "-f", str(file), "--HistoryManager.enabled=False"]
    cwd = hello["work"] if str(Path.cwd()) == "/tmp" else None
    # what it prints past its sockets is nobody's; on standard error it says why it did not come up
    return subprocess.Popen(words, env=own, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _connected(context: zmq.Context[Any], channel: str, run: str) -> zmq.Socket[Any]:
    socket: zmq.Socket[Any] = context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
    socket.linger = 0
    socket.set_hwm(0)
    socket.reconnect_ivl = 3  # the kernel binds a little later
    if channel == "iopub":
        socket.subscribe(b"")
    socket.connect(f"ipc://{run}/k-ipc-{_PORTS.index(f'{channel}_port') + 1}")
    return socket


def _listen(context: zmq.Context[Any], kernel: subprocess.Popen[bytes], run: str) -> None:
    """Take what the host says, also while it is slow to hear us; end with it."""
    outbox = context.socket(zmq.PUSH)
    outbox.set_hwm(0)
    outbox.connect("inproc://host")
    read = reader(0)
    try:
        while True:
            channel, frames = unpack(read)
            if channel != COMMAND:
                outbox.send_multipart([str(channel).encode(), *frames], copy=False)
            elif frames == [INTERRUPT]:
                kernel.send_signal(signal.SIGINT)  # its supervisor passes it on
            elif frames == [SEAL]:
                shutil.rmtree(run, ignore_errors=True)
    finally:
        os._exit(0)


def _end_with(kernel: subprocess.Popen[bytes]) -> None:
    code = kernel.wait()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code if code >= 0 else _SIGNALLED - code)


def _write(pieces: Sequence[Any]) -> None:
    for piece in pieces:
        rest = memoryview(piece).cast("B")
        while rest:
            rest = rest[os.write(1, rest) :]
