"""A template of kernels: a process that has imported what a kernel needs, and forks one whenever the host asks.

It runs nothing of a model's. Before a fork it has no event loop, no ZMQ socket and no thread, so that what is forked is
as good as started anew; a module that it is to import first and that starts threads is refused, unless it ends them
before a fork, as the threads of numpy's libraries do. It ends when its host does, or closes the channel.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rlm_jupyter.kernel.guest import namespaces
from rlm_jupyter.kernel.guest.app import GuestKernelApp
from rlm_jupyter.kernel.guest.forked import become_kernel
from rlm_jupyter.kernel.guest.supervisor_process import name_process

_MOST_BYTES = 200_000
"""Of a request; more is no message of the host's."""
_IDLE_SECONDS = 600.0
"""After so long without a request, and without a kernel, it ends."""
_FDS = 4
_FORK_AWARE = {"jemalloc_bg_thd"}
"""Threads, by their names for the system, that prepare for a fork and go on after it: pyarrow's memory has one."""


def serve(channel: socket.socket, preload: Sequence[str], arguments: Sequence[str]) -> tuple[int, int]:
    """Fork kernels as the host asks for them; return in each of them, and never in this process.

    Parameters
    ----------
    channel
        Each message of the host's asks for a kernel (`become_kernel`).
    preload
        Modules to import first.
    arguments
        Of the application.

    Returns
    -------
    tuple
        What `become_kernel` returns.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name = Path("/proc/self/comm").read_text().strip()
    name_process("rlm-template")
    try:
        _prepare(preload, arguments)
    except _UnfitError as error:
        _refuse(channel, str(error), imported=not isinstance(error, _NotImportedError))
    except Exception as error:  # noqa: BLE001  a release of IPython's that nobody here knows
        _refuse(channel, f"this Python's IPython can't be prepared for it ({type(error).__name__}: {error})")
    return _fork_on_request(channel, name)


def _fork_on_request(channel: socket.socket, name: str) -> tuple[int, int]:
    """Return in each kernel, whose process is called `name`; this process ends when the channel is closed."""
    told, tells = os.pipe()
    for end in (told, tells):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    news = select.poll()
    for fd in (told, channel.fileno()):
        news.register(fd, select.POLLIN)
    is_claimed, asked_at = False, time.monotonic()
    while True:
        left = asked_at + _IDLE_SECONDS - time.monotonic()
        ready = {fd for fd, _ in news.poll(1_000 * (left if left > 0 else _IDLE_SECONDS))}
        if told in ready:
            os.read(told, _MOST_BYTES)
            _reap()
        if channel.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, _FDS)
            if not message:
                os._exit(0)
            asked_at = time.monotonic()
            asked = json.loads(message)
            if not fds:
                is_claimed = asked["claimed"]
                continue
            # inside a sandbox, its kernels would end with it
            is_claimed = is_claimed or (asked["disk"] is not None and not asked.get("idle"))
            if (made := _fork(channel, asked, fds, name)) is not None:
                return made
        if not ready and not is_claimed and not _reap():
            os._exit(0)


def _refuse(channel: socket.socket, why: str, *, imported: bool = True) -> NoReturn:
    """Answer every request by the reason why there is no kernel."""
    while True:
        message, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, _FDS)
        if not message:
            os._exit(1)
        if not fds:
            continue
        with socket.socket(fileno=fds[0]) as asking, contextlib.suppress(OSError):
            asking.send(json.dumps({"failed": why, "imported": imported}).encode())
        for fd in fds[1:]:
            os.close(fd)


def _fork(channel: socket.socket, asked: dict[str, Any], fds: list[int], name: str) -> tuple[int, int] | None:
    """Fork a kernel; return in it what `become_kernel` does, and `None` here."""
    is_shut_off = asked["disk"] is not None
    try:
        child = namespaces.fork() if is_shut_off else _fork_plainly()
    except OSError as error:  # there are too many already; the kernels that there are go on
        said = {"failed": f"{type(error).__name__}: {error}", "imported": True, "passes": True}
        with contextlib.suppress(OSError):
            os.write(fds[0], json.dumps(said).encode())
        child = -1
    if child:
        for fd in fds:
            os.close(fd)
        return None
    try:
        channel.detach()  # it is closed by its number, which is another's by the time that this object goes
        made = become_kernel(asked, fds)
        if asked["idle"]:
            GuestKernelApp.instance().await_host(asked["idle"], name)
        else:
            name_process(name)
        return made
    except BaseException:  # noqa: BLE001  never on as a second template
        import traceback

        traceback.print_exc()
        os._exit(1)


def _fork_plainly() -> int:
    child = namespaces.fork_quietly()  # of what comes of it, the kernel is forked as usual
    if child is not None:
        return child
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are gone by then
        return os.fork()


def _reap() -> bool:
    """Take leave of children that have ended; return whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


class _UnfitError(Exception):
    """No kernel can be forked from this process; the text says why."""


class _NotImportedError(_UnfitError):
    """A module that is to be imported first can't be."""


def _prepare(preload: Sequence[str], arguments: Sequence[str]) -> None:
    GuestKernelApp.instance().prepare(arguments)
    for name in preload:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  whatever a module does when it is imported
            raise _NotImportedError(f"importing {name} failed: {type(error).__name__}: {error}") from None
        if extra := [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]:
            raise _UnfitError(f"importing {name} starts a thread ({extra[0]}), which no fork has")
        if not _is_alone():
            raise _UnfitError(f"importing {name} starts threads, which no fork has")
    if not _is_alone():
        raise _UnfitError("this Python starts threads by itself")
    GuestKernelApp.instance().complete()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # what is there stays there: looking at it would copy its pages into each kernel


def _is_alone() -> bool:
    """Return whether no fork can miss a thread of this process; some libraries end theirs before one."""
    if _other_threads():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return not _other_threads()


def _other_threads() -> list[str]:
    threads = Path("/proc/self/task").iterdir()
    names = [(thread / "comm").read_text().strip() for thread in threads if thread.name != str(os.getpid())]
    return [name for name in names if name not in _FORK_AWARE]
