"""`Forking`: a process that kernels of one environment are forked from, as the host asks it.

It is asked over a socket that it and the host alone have; with each request goes one end of a channel of that kernel's
own, the folder of its connection, and a pidfd of the host. What comes back on the channel are pidfds of the fork:
numbers of processes mean nothing from inside a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.command import own_directories, passed_on, process_limit
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.shield import in_a_thread, run_to_completion
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels
from rlm_jupyter.kernel.supervised_process import SupervisedProcess

_CHANNELS = ("shell", "iopub", "stdin", "hb", "control")
READY_SECONDS = 60.0
"""How long a fork may take, with the imports of a template that has just been started."""
_FULL_SECONDS = 0.002
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KernelEnvironment:
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
    shown: tuple[tuple[int, int], ...] = ()
    """Device and number of each file or folder that the sandbox shows: what has taken its place since is another."""

    @classmethod
    def of(
        cls,
        kernel_name: str | None,
        cwd: Path,
        variables: Mapping[str, str] | None,
        sandbox: Sandbox,
        preload: Sequence[str],
    ) -> KernelEnvironment:
        """Make one of what a kernel is started with, and of this process's environment."""
        return cls(
            kernel_name,
            cwd.absolute(),
            tuple(sorted((variables or {}).items())),
            tuple(sorted(passed_on().items())),
            sandbox,
            tuple(preload),
            tuple(identity(path) for path, _ in sandbox.folders()) if sandbox.kind == "bwrap" else (),
        )


def _connection(directory: KernelDirectory) -> dict[str, Any]:
    """Return what stands in the connection file of other kernels."""
    ports = {f"{channel}_port": port for port, channel in enumerate(_CHANNELS, 1)}
    about = {"transport": "ipc", "ip": str(directory.path / "run" / "k-ipc"), **ports, "key": secrets.token_hex(32)}
    return about | {"signature_scheme": "hmac-sha256", "kernel_name": "rlm"}


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file or folder from one that takes its place under the same name."""
    try:
        found = path.stat()
    except OSError:  # that is told when it is to be shown
        return 0, 0
    return found.st_dev, found.st_ino


class TemplateError(Exception):
    """A template gives no kernel; the text says why, where that is known."""

    def __init__(self, why: str, *, unfit: bool = False, imported: bool = True, passes: bool = False) -> None:
        super().__init__(why)
        self.passes = passes
        """It has no room for one just now, and those that it has given go on."""
        self.imported = imported
        """The modules that were named could be imported."""
        self.unfit = unfit
        """Another one of the same environment would give none either."""


@dataclass(frozen=True, slots=True)
class ForkedKernel:
    """A kernel that has just been forked: nobody is connected to it."""

    directory: KernelDirectory
    connection: dict[str, Any]
    """What stands in its connection file."""
    process: SupervisedProcess

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self.process.poll() is not None

    async def hold(self, processes: int | None) -> None:
        """Bound the number of processes inside its sandbox; `None`: there is none.

        It takes the system some milliseconds, in which the kernel comes up: nothing of a model's runs there yet.
        """
        if processes is not None and os.geteuid() == 0:
            await run_to_completion(lambda: in_a_thread(lambda: self.directory.hold(self.process.pid, processes)))

    def end(self) -> None:
        """End it, and remove its directory. Wait until it is gone, for a few milliseconds."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        for directory in self.process.close(self.directory):
            directory.remove()


class Forking(ABC):
    """What kernels are forked from.

    Parameters
    ----------
    environment
        What they have in common.
    variables
        Of the process's environment; what is a kernel's own in them is set anew for each.
    """

    def __init__(self, environment: KernelEnvironment, variables: Mapping[str, str]) -> None:
        self.environment = environment
        self.variables = dict(variables)
        self._channel: socket.socket

    async def kernel(self, idle_seconds: int = 0) -> ForkedKernel:
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
            variables = self.variables | own_directories(directory.path, self.environment.sandbox)
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
        variables.pop(VARIABLE)
        boxed = sandbox.kind == "bwrap"
        request = {
            "environment": variables,
            "cwd": str(environment.cwd) if sandbox.shows(environment.cwd) else bwrap.WORK,
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
                    await self.ask(json.dumps(request).encode(), lambda host: [their, run, host, forks])
                finally:
                    os.close(run)
                channels.pass_on()
                return await channels.process(is_boxed=boxed)
        except NotStartedError as error:
            channels.close()
            raise self.failure(error.message) from None
        except (OSError, TimeoutError) as error:
            channels.close()
            raise TemplateError(f"it does not answer ({type(error).__name__}: {error})") from error
        except BaseException:
            channels.close()
            raise

    async def ask(self, message: bytes, fds: Callable[[int], list[int]]) -> None:
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

    def failure(self, message: bytes) -> TemplateError:
        """Say why it gives no kernel, or has ended."""
        if message:
            said = json.loads(message)
            passes = said.get("passes", False)
            return TemplateError(said["failed"], unfit=not passes, imported=said["imported"], passes=passes)
        return TemplateError("no kernel came of it")

    @abstractmethod
    def stderr_tail(self) -> str:
        """Return what its kernels, or itself, have said on standard error; empty where that went to ours."""
