"""`Template`: a process that kernels of one environment are forked from, as the host sees it.

What it does is in `guest/template_process.py`. It is asked over a socket that it and the host alone have; with each
request goes one end of a channel of that kernel's own, the folder of its connection, and a pidfd of the host. What
comes back on the channel are pidfds of the fork: numbers of processes mean nothing from inside a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.command import guest_command, own_directories, passed_on, process_limit
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.fork import SupervisedProcess
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.provisioner import GuestProvisioner, by_a_thread_of_its_own
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels

_READY_SECONDS = 60.0
"""How long a fork may take, with the imports of a template that has just been started."""
_FULL_SECONDS = 0.002
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Environment:
    """What kernels of one template have in common."""

    kernel_name: str | None
    cwd: Path
    variables: tuple[tuple[str, str], ...]
    """Those that were named, beyond what every kernel gets."""
    passed: tuple[tuple[str, str], ...]
    """What every kernel gets of the host's, as it was then."""
    sandbox: Sandbox
    preload: tuple[str, ...] = ()
    """Modules that the template imports first."""

    @classmethod
    def of(
        cls,
        kernel_name: str | None,
        cwd: Path,
        variables: Mapping[str, str] | None,
        sandbox: Sandbox,
        preload: Sequence[str],
    ) -> Environment:
        """Make one of what a kernel is started with, and of this process's environment."""
        return cls(
            kernel_name,
            cwd.absolute(),
            tuple(sorted((variables or {}).items())),
            tuple(sorted(passed_on().items())),
            sandbox,
            tuple(preload),
        )


class TemplateError(Exception):
    """A template gives no kernel; the text says why, where that is known."""

    def __init__(self, why: str, *, unfit: bool = False, imported: bool = True) -> None:
        super().__init__(why)
        self.imported = imported
        """The modules that were named could be imported."""
        self.unfit = unfit
        """Another one of the same environment would give none either."""


class Template:
    """A template; starts in the background, and can be asked at once.

    Raises
    ------
    KernelStartError, ConfigurationError
        There can be none, nor any other kernel.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._directory = KernelDirectory()
        try:
            argv, arguments, self._env = guest_command(
                environment.kernel_name, self._directory.path, environment.sandbox, template=True
            )
            self._env |= dict(environment.variables)
            # where its connection is differs from fork to fork
            arguments = [word for word in arguments if word != "-f" and "{connection_file}" not in word]
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            self._directory.remove()
            raise
        self._channel.setblocking(False)
        self._provisioner = provisioner = GuestProvisioner(kernel_id="rlm")
        provisioner.shut_off(environment.sandbox, self._directory, template=True)
        self._closing = threading.Lock()
        self._is_closed = False

        def start() -> Any:
            with theirs:
                return provisioner.start(
                    [*argv, "--template", str(theirs.fileno()), *environment.preload, "--", *arguments],
                    env=_starting(self._env, environment.sandbox),
                    cwd=str(environment.cwd),
                    pass_fds=[theirs.fileno()],
                )

        self._started = by_a_thread_of_its_own(start, provisioner.keep)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, and can't be asked any more."""
        if not self._started.done():
            return False
        return self._is_closed or self._started.exception() is not None or self._provisioner.exit_code() is not None

    async def fork(self, directory: KernelDirectory) -> SupervisedProcess:
        """Fork a kernel whose sockets are in this directory.

        Raises
        ------
        TemplateError
            It gives none.
        """
        environment = self.environment
        sandbox = environment.sandbox
        variables = self._env | own_directories(directory.path, sandbox)
        variables.pop(VARIABLE)
        boxed = sandbox.kind == "bwrap"
        request = {
            "environment": variables,
            "cwd": str(environment.cwd) if sandbox.shows(environment.cwd) else bwrap.WORK,
            "memory": sandbox.memory,
            "processes": process_limit(sandbox),
            "disk": sandbox.disk if boxed else None,
        }
        channels = StartChannels()
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self._request(json.dumps(request).encode(), channels, directory)
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

    async def _request(self, message: bytes, channels: StartChannels, directory: KernelDirectory) -> None:
        run = os.open(directory.path / "run", os.O_RDONLY | os.O_DIRECTORY)
        host = os.pidfd_open(os.getpid())
        try:
            while True:
                try:
                    their, forks = channels.theirs
                    socket.send_fds(self._channel, [message], [their, run, host, forks])
                    return
                except BlockingIOError:  # many at once, before it is ready
                    await asyncio.sleep(_FULL_SECONDS)
        finally:
            os.close(run)
            os.close(host)

    def _failure(self, message: bytes) -> TemplateError:
        """Say why it gives no kernel, or has ended."""
        if message:
            said = json.loads(message)
            return TemplateError(said["failed"], unfit=True, imported=said["imported"])
        if self._started.done() and (error := self._started.exception()) is not None:
            return TemplateError(str(error))
        tail = self._provisioner.stderr_tail().splitlines()
        return TemplateError("no kernel came of it" + (f" ({tail[-1]})" if tail else ""))

    def stderr_tail(self) -> str:
        """Return what its kernels, or itself, have said on standard error; empty where that went to ours."""
        return self._provisioner.stderr_tail()

    def close(self) -> None:
        """End it; inside a sandbox, so do its kernels. Wait until it is gone, for a few milliseconds."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        self._channel.close()
        with contextlib.suppress(BaseException):
            self._started.result(_END_SECONDS)
        provisioner = self._provisioner
        if provisioner.process is not None:
            until = time.monotonic() + _END_SECONDS
            while provisioner.process.poll() is None and time.monotonic() < until:
                provisioner.end()
                time.sleep(0.001)
            if provisioner.process.stdin is not None:
                provisioner.process.stdin.close()
        for directory in provisioner.release():
            directory.remove()


def _starting(env: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """Return the environment in which a template starts.

    Until it has given up its rights over the sandbox (`guest/namespaces.py`), it must find no module that a run could
    have written: those of the user's, beyond what is installed, it looks for later.
    """
    env = dict(env)
    if sandbox.kind == "bwrap":
        env["PYTHONPATH"], _, others = env["PYTHONPATH"].partition(os.pathsep)
        asked = json.loads(env[VARIABLE])
        env[VARIABLE] = json.dumps(asked | {"path": [path for path in others.split(os.pathsep) if path]})
    return env
