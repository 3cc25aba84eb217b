"""`SelfFork`: a second kernel with everything that this one has, forked from it between two of its cells.

The fork is made by the main thread, and goes on where that was: in the same event loop, whose tasks and timers it has.
Whatever belongs to the connection is left behind and made anew: threads, ZMQ's sockets, pipes, the signing key. Nothing
of ZMQ's that was the parent's is ever used again there. A kernel that has run a model's code is given no way to any
folder of the host's: what comes with the request are sockets that listen already, and nothing else can be done with
these. How it ends is in `guest/supervisor_process.py`.

Long because what a fork leaves, takes over and makes anew has one order, which is to be read in one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import fcntl
import gc
import os
import random
import select
import selectors
import signal
import socket
import stat
import threading
import uuid
import warnings
from pathlib import Path
from typing import Any

import zmq
from ipykernel.control import ControlThread
from ipykernel.iostream import IOPubThread
from ipykernel.kernelbase import Kernel
from zmq.eventloop.zmqstream import ZMQStream
from zmq.utils.garbage import gc as zmq_garbage

from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.guest.fork_obstacles import Inventory, RefusedError
from rlm_jupyter.kernel.guest.passed_files import PassedFiles

_FDS = 5
"""Sockets of shell, control and iopub, which listen; where forks of the fork are asked for; what it ends with."""
_MOST_BYTES = 64
_LOOKS, _LOOK_SECONDS = 50, 0.005
"""How often it is looked whether the cell before is quite over."""
_SCORE = Path("/proc/self/oom_score_adj")
_ENDED_FIRST, _MOST_SCORE = 300, 1000
"""Of a thousand of the memory: by so much more than it has, a kernel seems to have while a fork of it sleeps."""


class SelfFork:
    """Forks a kernel whenever the host asks for it.

    Parameters
    ----------
    app
        The kernel's application, once it is initialized.
    channel
        The descriptor that a fork's sockets come by, and large texts.
    """

    def __init__(self, app: Any, channel: int) -> None:
        self._app = app
        self._files = PassedFiles(channel)
        self._inventory = Inventory(app, channel)
        self._left: list[Any] = []
        """What was the parent's: never to be finalized, as the numbers of its descriptors are others' by now."""
        self._context = contextvars.copy_context()
        """That of the last cell, with the user's own variables in it."""
        self._score = _score()
        app.shell.events.register("pre_run_cell", self._before_cell)
        app.shell.events.register("post_run_cell", self._after_cell)
        app.kernel.rlm_guest.self_fork = self

    def ask(self, message: WireMessage) -> None:
        """Fork as soon as no cell runs (control thread)."""
        self._app.kernel.io_loop.add_callback(self._begin, message, _LOOKS)

    def text(self, *, passed: int, **form: Any) -> str:
        """Return the text of this form (`mapped`) that the host has passed with this number (control thread)."""
        from rlm_jupyter.kernel.guest.mapped_text import mapped  # few kernels have a large text

        [file] = self._files.take(passed)
        try:
            return mapped(file, **form)
        finally:
            os.close(file)

    def _before_cell(self, *_: object) -> None:
        self._inventory.note()  # what is the kernel's own, before the first cell adds to it
        self._inventory.reap()

    def _after_cell(self, *_: object) -> None:
        self._context = contextvars.copy_context()

    def _begin(self, message: WireMessage, looks: int) -> None:
        kernel = self._app.kernel
        if self._is_busy() and looks:
            kernel.io_loop.call_later(_LOOK_SECONDS, self._begin, message, looks - 1)
            return
        content: dict[str, Any] = {}
        fds: list[int] = []
        try:
            fds = self._files.take(message.content["passed"])
            if self._is_busy():
                raise RefusedError("a cell is running")
            if len(fds) != _FDS:
                raise RefusedError("the sockets for it have not come")
            self._inventory.reap()
            self._inventory.check(set(fds))
            if self._fork(message.content, fds):
                fds = []
                return
        except RefusedError as error:
            content = {"refused": str(error)}
        except Exception as error:  # noqa: BLE001  the host is told, whatever it was
            content = {"error": f"{type(error).__name__}: {error}"}
        finally:
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
        kernel.rlm_guest.wire.reply(message, content)

    def _is_busy(self) -> bool:
        lock: asyncio.Lock | None = getattr(self._app.kernel, "_main_asyncio_lock", None)
        return lock is not None and lock.locked()

    def _fork(self, asked: dict[str, Any], fds: list[int]) -> bool:
        """Fork; return whether this is the fork.

        Raises
        ------
        RefusedError
            It lacks something that this kernel has.
        """
        kernel = self._app.kernel
        for stream in (kernel._stdout, kernel._stderr):
            stream.flush()
        state = random.getstate()  # Python's is seeded anew in a child
        told, tells = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of our own threads
                child = os.fork()
            if not child:
                os.close(tells)
                self._be_the_fork(asked, fds, told, state)
                return True
        finally:
            os.close(told)
        try:
            self._inventory.check_threads()
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(tells)
            raise
        self._inventory.forks.add(child)
        if asked["sleeps"]:
            _set_score(self._score + _ENDED_FIRST)
        os.write(tells, b"1")
        os.close(tells)
        return False

    def _be_the_fork(self, asked: dict[str, Any], fds: list[int], told: int, state: Any) -> None:
        try:
            if os.read(told, 1) != b"1":
                os._exit(1)
            _count_as_old()
            *sockets, channel, life = fds
            _end_with(life)
            _set_score(self._score)
            os.setsid()
            _reopen_files()  # before the kernel reads on: a fork that sleeps stays where it was
            self._tell_and_sleep(channel, sleeps=asked["sleeps"])
            self._leave(set(fds) | {told})
            self._renew(asked, sockets)
            self._files = PassedFiles(channel)
            self._inventory.renew(channel, {*fds, told})
            random.setstate(state)  # now: to find a port takes random numbers
        except BaseException:  # noqa: BLE001  never on with another kernel's connection
            os._exit(1)

    def _tell_and_sleep(self, channel: int, *, sleeps: bool) -> None:
        """Tell the host which process this is; where it is to sleep, do nothing until it is woken."""
        with socket.socket(fileno=os.dup(channel)) as told:
            told.send(b"forked")
            if sleeps and told.recv(_MOST_BYTES) != b"wake":
                os._exit(0)

    def _leave(self, kept: set[int]) -> None:
        """Leave behind what belongs to the parent's connection, and go on in an event loop that shares nothing."""
        app, kernel = self._app, self._app.kernel
        loop: Any = kernel.io_loop.asyncio_loop
        threads = (app.iopub_thread, app.control_thread)
        services = [thread.io_loop for thread in threads]
        sockets = (app.context, app.shell_socket, app.control_socket, app.stdin_socket, app.debug_shell_socket)
        self._left += [threads, services, sockets, kernel.shell_stream, kernel.control_stream, self._files]
        owned = self._inventory.connection()  # before the first of them is closed
        for one in (*(service.asyncio_loop for service in services), loop):
            one._selector.close()  # the descriptor alone: what is registered there is the parent's, too
            one._ssock.close()
            one._csock.close()
        self._files.channel.close()
        for fd in owned - kept:
            with contextlib.suppress(OSError):
                os.close(fd)
        io_loop = kernel.io_loop
        for handle in loop._ready:
            if getattr(handle._callback, "__self__", None) is io_loop:
                handle.cancel()  # of a stream that was left; tasks are the user's, and go on
        for known in (io_loop.handlers, io_loop.readers, io_loop.writers):
            known.clear()
        loop._selector = selectors.DefaultSelector()
        loop._internal_fds -= 1
        loop._make_self_pipe()
        asyncio._set_running_loop(loop)  # a child has forgotten it

    def _renew(self, asked: dict[str, Any], sockets: list[int]) -> None:
        app, kernel = self._app, self._app.kernel
        session = kernel.session
        session.key, session.session, session.pid = asked["key"].encode(), str(uuid.uuid4()), os.getpid()
        session.digest_history.clear()
        zmq_garbage._lock = threading.Lock()
        app.context = context = zmq.Context()
        context.setsockopt(zmq.SNDHWM, 0)
        context.setsockopt(zmq.RCVHWM, 0)
        kinds = (zmq.ROUTER, zmq.ROUTER, zmq.XPUB)
        shell, control, iopub = (
            _listening(context, kind, fd, path) for kind, fd, path in zip(kinds, sockets, asked["paths"], strict=True)
        )
        app.shell_socket, app.control_socket = shell, control
        # nobody asks these: a kernel of ours takes no input, and its process is watched
        app.stdin_socket = kernel.stdin_socket = context.socket(zmq.ROUTER)
        app.poller = app.debugpy_socket = app.debug_shell_socket = None
        app.control_thread = kernel.control_thread = ControlThread(daemon=True)
        streams = self._renew_output(iopub)
        kernel.shell_stream = ZMQStream(shell, kernel.io_loop)
        kernel.control_stream = ZMQStream(control, app.control_thread.io_loop)
        kernel.debugpy_stream = kernel.debug_shell_socket = None
        kernel.rlm_guest.renew()
        for thread in (app.iopub_thread, *streams, app.control_thread):
            contextvars.Context().run(thread.start)  # what they put out belongs to the cell that runs then
        self._context.run(Kernel.start, kernel)

    def _renew_output(self, iopub: Any) -> list[threading.Thread]:
        """Have outputs go there; return the threads that read what code in C puts out."""
        watching = []
        app, kernel = self._app, self._app.kernel
        background = app.iopub_socket  # what all that is displayed goes to
        app.iopub_thread = kernel.iopub_thread = thread = IOPubThread(iopub, pipe=True, session=kernel.session)
        background.io_thread, thread.background_socket = thread, background
        for stream in (kernel._stdout, kernel._stderr):
            stream.pub_thread, stream._io_loop = thread, thread.io_loop
            stream._buffer_lock, stream._master_pid = threading.RLock(), os.getpid()
            stream._flush_pending = stream._subprocess_flush_pending = False
            stream._buffers.clear()
            if stream._should_watch:
                stream.begin_reading()
                os.close(stream._fid)
                stream._fid, writes = os.pipe()
                os.dup2(writes, stream._original_stdstream_fd)
                os.close(writes)
                stream.watch_fd_thread = threading.Thread(target=stream._watch_pipe_fd, daemon=True)
                watching.append(stream.watch_fd_thread)
        return watching


def _listening(context: Any, kind: int, fd: int, path: str) -> Any:
    made = context.socket(kind)
    made.linger = 1000
    if kind == zmq.ROUTER:
        made.router_handover = 1
    made.setsockopt(zmq.USE_FD, fd)
    made.bind(f"ipc://{path}")
    return made


def _count_as_old() -> None:
    """Count all objects as old for the garbage collector.

    It looks at all young ones after every few hundred new ones, as many as we make here: a list of 8 million that a
    cell has just made costs a tenth of a second. What a template had frozen takes part in full collections from now on.
    """
    gc.freeze()
    gc.unfreeze()


def _end_with(life: int) -> None:
    """Get killed when the host closes the other end of this pipe: our parent may end, and we go on."""
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    looking = select.poll()
    looking.register(life, select.POLLIN)
    if looking.poll(0):  # it was closed before
        os._exit(1)


def _score() -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(_SCORE.read_text())
    return 0


def _set_score(score: int) -> None:
    """Say how soon the system ends this process where memory runs out: rather the kernel than the fork that sleeps."""
    with contextlib.suppress(OSError):
        _SCORE.write_text(str(min(score, _MOST_SCORE)))


def _reopen_files() -> None:
    """Have files that are open at a place of our own in them: a fork shares that with its parent."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            fd = int(descriptor.name)
            if not stat.S_ISREG(os.fstat(fd).st_mode) or descriptor.readlink().name.startswith("memfd:"):
                continue
            opened = os.open(descriptor, fcntl.fcntl(fd, fcntl.F_GETFL) & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
            os.lseek(opened, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(opened, fd, inheritable=os.get_inheritable(fd))
            os.close(opened)
