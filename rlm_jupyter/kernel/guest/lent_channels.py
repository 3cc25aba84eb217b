"""`lent_channels`: endpoints of a user's kernel on which nothing is lost, opened once in that kernel's life.

Above a socket's high-water mark a ROUTER and a PUB drop silently. Raising it reaches the peers that are there, and
the endpoints bound later: one that is bound already gives each peer to come the mark of its own time. So those of
Jupyter's that the kernel was started with stay what they are, and our host is given others.

It is done once, and nothing of it is taken back: libzmq tells each peer's pipe of a new mark, also one that is gone
but not yet taken leave of, and then its thread reads freed memory, and the kernel dies. A run's end, when its host
disconnects, is such a moment; the first run's beginning is none.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import zmq

_MOST_WAITING = 100_000
"""Messages of IOPub that may wait for a slow reader. With ZeroMQ's 1,000, a busy machine loses a flood's last ones."""
_SECONDS = 20.0
"""How long the kernel's threads may take to open one."""
_ATTRIBUTE = "rlm_channels"


def lent_channels(kernel: Any, transport: str, ip: str) -> dict[str, str]:
    """Return where `control` and `iopub` of this kernel can be reached without loss; opened where they are not yet.

    Parameters
    ----------
    kernel
        The `ipykernel.kernelbase.Kernel`; its control thread and its IOPub thread must be free.
    transport
        `tcp` or `ipc`.
    ip
        The address to bind; for `ipc`, what the sockets' paths begin with.

    Raises
    ------
    TimeoutError
        One of the threads doesn't answer.
    zmq.ZMQError
        Nothing can be bound there.
    """
    known: dict[str, str] | None = getattr(kernel, _ATTRIBUTE, None)
    if known is None:
        control, iopub = kernel.control_stream, kernel.iopub_thread
        known = {
            # sub-calls are bounded by the model's own threads, and one that is lost is never answered: no mark
            "control": _on(control.io_loop.add_callback, lambda: _opened(control.socket, transport, ip, 0)),
            "iopub": _on(iopub.schedule, lambda: _opened(iopub.socket, transport, ip, _MOST_WAITING)),
        }
        setattr(kernel, _ATTRIBUTE, known)
    return known


def _on(schedule: Callable[[Callable[[], None]], object], work: Callable[[], str]) -> str:
    """Do it on the thread that the socket belongs to, and wait for it."""
    done: Future[str] = Future()

    def carry_out() -> None:
        try:
            done.set_result(work())
        except (OSError, zmq.ZMQError) as error:
            done.set_exception(error)

    schedule(carry_out)
    return done.result(_SECONDS)


def _opened(socket: Any, transport: str, ip: str, mark: int) -> str:
    if 0 < socket.get(zmq.SNDHWM) < (mark or float("inf")):  # 0 is none
        socket.set(zmq.SNDHWM, mark)
    if transport == "ipc":
        path = next(path for n in range(1, 10_000) if not (path := Path(f"{ip}-{n}")).exists())
        socket.bind(f"ipc://{path}")
        atexit.register(_remove, path, os.getpid())
    else:
        socket.bind(f"{transport}://{ip}:*")
    endpoint: bytes = socket.get(zmq.LAST_ENDPOINT)
    return endpoint.rstrip(b"\0").decode()


def _remove(path: Path, owner: int) -> None:
    """Remove a socket's file as its kernel ends: Jupyter knows of its own alone."""
    if os.getpid() == owner:  # a fork of the kernel leaves it to its parent
        path.unlink(missing_ok=True)
