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
    known: dict[str, str] = kernel.__dict__.setdefault(_ATTRIBUTE, {})
    control, iopub = kernel.control_stream, kernel.iopub_thread
    if "control" not in known:
        # sub-calls are bounded by the model's own threads, and one that is lost is never answered: no mark
        _on(control.io_loop.add_callback, lambda: known.update(control=_opened(control.socket, transport, ip, 0)))
    if "iopub" not in known:
        _on(iopub.schedule, lambda: known.update(iopub=_opened(iopub.socket, transport, ip, _MOST_WAITING)))
    return known


def _on(schedule: Callable[[Callable[[], None]], object], work: Callable[[], None]) -> None:
    """Do it on the thread that the socket belongs to, and wait for it."""
    done: Future[None] = Future()

    def carry_out() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    schedule(carry_out)
    try:
        done.result(_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"one of its threads has not answered within {_SECONDS:.0f} s") from None


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
