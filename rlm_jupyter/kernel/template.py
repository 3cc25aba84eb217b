"""`Template`: a process that kernels of one environment are forked from, as the host sees it.

What it does is in `guest/template_process.py`. It is asked over a socket that it and the host alone have. With a
request goes one end of a channel of that kernel's own, the folder of its connection, and a pidfd of the host. What
comes back on the channel are pidfds of the fork: numbers of processes mean nothing from inside a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rlm_jupyter.kernel.command import guest_command, own_directories, process_limit
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.forked_kernel import ForkedKernel, KernelEnvironment, TemplateError
from rlm_jupyter.kernel.guest.confine import SAFE_PATH, VARIABLE
from rlm_jupyter.kernel.guest.ipc import CONNECTION
from rlm_jupyter.kernel.launcher import Launcher, by_a_thread_of_its_own, fill_closed_streams
from rlm_jupyter.kernel.ready_kernel import IDLE_SECONDS, ReadyKernel
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels
from rlm_jupyter.kernel.supervised_process import SupervisedProcess

READY_SECONDS = 60.0
"""How long a fork may take, with the imports of a template that has just been started."""
_FULL_SECONDS = 0.002
_END_SECONDS = 10.0


class Template:
    """A template; starts in the background, and can be asked at once.

    Raises
    ------
    KernelStartError, ConfigurationError
        There can be none, nor any other kernel.
    """

    def __init__(self, environment: KernelEnvironment) -> None:
        fill_closed_streams()
        self._directory = KernelDirectory()
        try:
            argv, arguments, variables = guest_command(
                environment.kernel_name, self._directory.path, environment.sandbox, template=True
            )
            self.environment, self._variables = environment, variables | dict(environment.variables)
            # where its connection is differs from fork to fork
            arguments = [word for word in arguments if word != "-f" and "{connection_file}" not in word]
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            self._directory.remove()
            raise
        self._channel.setblocking(False)
        self._launcher = launcher = Launcher()
        launcher.shut_off(environment.sandbox, self._directory, template=True)
        self._closing = threading.Lock()
        self._is_closed = False

        def start() -> Any:
            with theirs:
                return launcher.start(
                    [*argv, "--template", str(theirs.fileno()), *environment.preload, "--", *arguments],
                    env=_starting(self._variables, environment),
                    cwd=str(environment.cwd),
                    pass_fds=[theirs.fileno()],
                )

        self._started = by_a_thread_of_its_own(start, launcher.keep)
        self._ready: ReadyKernel[ForkedKernel] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and can't be asked any more."""
        if not self._started.done():
            return False
        return self._is_closed or self._started.exception() is not None or self._launcher.exit_code() is not None

    def _failure(self, message: bytes) -> TemplateError:
        """Say why it gives no kernel, or has ended."""
        if message:
            said = json.loads(message)
            passes = said.get("passes", False)
            return TemplateError(said["failed"], unfit=not passes, imported=said["imported"], passes=passes)
        if self._started.done() and (error := self._started.exception()) is not None:
            return TemplateError(str(error))
        tail = self._launcher.stderr_tail().splitlines()
        return TemplateError("no kernel came of it" + (f" ({tail[-1]})" if tail else ""))

    def stderr_tail(self) -> str:
        """Return what its kernels, or itself, have said on standard error; empty where that went to ours."""
        return self._launcher.stderr_tail()

    def make_ready(self) -> None:
        """Fork a kernel for whoever asks next, where none waits."""
        with self._closing:
            if self._is_closed or (self._ready is not None and not self._ready.is_spent):
                return
            if self._ready is not None:
                self._ready.discard()
            self._ready = ReadyKernel(self.environment, lambda: self.fork(IDLE_SECONDS))

    def drop_ready(self) -> None:
        """End the kernel that waits; returns at once."""
        if (ready := self._take_ready()) is not None:
            ready.discard()

    async def kernel(self) -> ForkedKernel:
        """Give the kernel that waits, or fork one; raises as `fork`."""
        if (ready := self._take_ready()) is not None:
            if self.environment.sandbox.kind == "bwrap":
                self._say(claimed=True)  # elsewhere it sees its kernels, and when they are gone
            if (waiting := await ready.take()) is not None:
                return waiting
        return await self.fork()

    async def fork(self, idle_seconds: int = 0) -> ForkedKernel:
        """Fork a kernel.

        Parameters
        ----------
        idle_seconds
            After so long without a host that attaches to it, it ends by itself; 0: it never does.

        Raises
        ------
        KernelStartError
            Its directory can't be made, or written to.
        TemplateError
            There is none.
        """
        directory = KernelDirectory()
        try:
            variables = self._variables | own_directories(directory.path, self.environment.sandbox)
            connection = _connection(directory)
            # cancelled here, it has no process: that one ends as nobody holds its channel
            process = await self._fork(directory, connection, variables, idle_seconds)
            kernel = ForkedKernel(directory, connection, process)
            try:
                await kernel.hold(process_limit(self.environment.sandbox))
            except BaseException:
                kernel.end()
                raise
            return kernel
        except BaseException:
            directory.remove()
            raise

    async def _fork(
        self, directory: KernelDirectory, connection: dict[str, Any], variables: dict[str, str], idle_seconds: int
    ) -> SupervisedProcess:
        environment = self.environment
        sandbox = environment.sandbox
        for name in (VARIABLE, SAFE_PATH):
            variables.pop(name, None)
        boxed = sandbox.kind == "bwrap"
        request = {
            "environment": variables,
            "cwd": _folder(environment),
            "memory": sandbox.memory,
            "processes": process_limit(sandbox),
            "disk": sandbox.disk if boxed else None,
            "idle": idle_seconds,
        }
        channels = StartChannels()
        try:
            async with asyncio.timeout(READY_SECONDS):
                run = os.open(directory.path / "run", os.O_RDONLY | os.O_DIRECTORY)
                try:
                    channels.tell(connection)
                    their, forks = channels.theirs
                    await self._ask(json.dumps(request).encode(), lambda host: [their, run, host, forks])
                finally:
                    os.close(run)
                channels.pass_on()
                return await channels.process(is_boxed=boxed)
        except NotStartedError as error:
            channels.close()
            raise self._failure(error.message) from None
        except (OSError, TimeoutError) as error:
            channels.close()
            raise TemplateError(f"it does not answer ({type(error).__name__}: {error})") from error
        except BaseException:
            channels.close()
            raise

    async def _ask(self, message: bytes, fds: Callable[[int], list[int]]) -> None:
        """Send a request.

        Parameters
        ----------
        fds
            Returns the descriptors that go with it, when it is given a pidfd of the host.
        """
        host = os.pidfd_open(os.getpid())
        try:
            while True:
                try:
                    socket.send_fds(self._channel, [message], fds(host))
                    return
                except BlockingIOError:  # many at once, before it is ready
                    await asyncio.sleep(_FULL_SECONDS)
        finally:
            os.close(host)

    def _take_ready(self) -> ReadyKernel[ForkedKernel] | None:
        with self._closing:
            ready, self._ready = self._ready, None
        return ready

    def rest(self) -> None:
        """Have it end when it is asked for nothing for long: in a sandbox it may not see whether it has kernels."""
        self._say(claimed=False)

    def _say(self, *, claimed: bool) -> None:
        with contextlib.suppress(OSError):  # it is gone, as whoever asks it will see
            self._channel.send(json.dumps({"claimed": claimed}).encode())

    def close(self) -> None:
        """End it; inside a sandbox, so do its kernels. Wait until it is gone, for a few milliseconds."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            ready, self._ready = self._ready, None
        if ready is not None and ready.is_there:
            ready.close()  # first, as long as its parent is there to take leave of it
        self._channel.close()
        with contextlib.suppress(BaseException):
            self._started.result(_END_SECONDS)
        launcher = self._launcher
        if launcher.process is not None:
            until = time.monotonic() + _END_SECONDS
            while launcher.process.poll() is None and time.monotonic() < until:
                launcher.end()
                time.sleep(0.001)
        if ready is not None:
            ready.close()
        for directory in launcher.release():
            directory.remove()


def _connection(directory: KernelDirectory) -> dict[str, Any]:
    """Return what stands in the connection file of other kernels."""
    own = {"ip": str(directory.path / "run" / "k-ipc"), "key": secrets.token_hex(32), "kernel_name": "rlm"}
    return CONNECTION | own


def _folder(environment: KernelEnvironment) -> str:
    """Return where its kernels work."""
    return str(environment.cwd) if environment.sandbox.shows(environment.cwd) else bwrap.WORK


def _starting(env: Mapping[str, str], environment: KernelEnvironment) -> dict[str, str]:
    """Return the environment in which a template starts.

    Until it has given up its rights over the sandbox (`guest/namespaces.py`), it must find no module that a run could
    have written: those of the user's, beyond what is installed, it looks for later.
    """
    env = dict(env)
    if environment.sandbox.kind == "bwrap":
        env["PYTHONPATH"], _, others = env["PYTHONPATH"].partition(os.pathsep)
        asked = json.loads(env[VARIABLE])
        # it runs nothing of a model's, which may have put modules where code may write
        writable = any(environment.cwd.is_relative_to(path) for path in environment.sandbox.write)
        cwd = bwrap.WORK if writable else _folder(environment)
        later = {"path": [path for path in others.split(os.pathsep) if path], "cwd": cwd}
        env[VARIABLE] = json.dumps(asked | later)
    return env
