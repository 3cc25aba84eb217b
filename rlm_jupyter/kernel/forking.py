"""`Forking`: a process that kernels of one environment are forked from, as the host asks it.

It is asked over a socket that it and the host alone have; with each request goes one end of a channel of that kernel's
own, the folder of its connection, and a pidfd of the host. What comes back on the channel are pidfds of the fork:
numbers of processes mean nothing from inside a sandbox.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.kernel.command import own_directories, passed_on, process_limit
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels
from rlm_jupyter.kernel.supervised_process import SupervisedProcess

READY_SECONDS = 60.0
"""How long a fork may take, with the imports of a template that has just been started."""
_FULL_SECONDS = 0.002


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
            tuple(_identity(path) for path, _ in sandbox.folders()) if sandbox.kind == "bwrap" else (),
        )


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:  # that is told when it is to be shown
        return 0, 0
    return found.st_dev, found.st_ino


class TemplateError(Exception):
    """A template gives no kernel; the text says why, where that is known."""

    def __init__(self, why: str, *, unfit: bool = False, imported: bool = True) -> None:
        super().__init__(why)
        self.imported = imported
        """The modules that were named could be imported."""
        self.unfit = unfit
        """Another one of the same environment would give none either."""


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

    async def fork(self, directory: KernelDirectory) -> SupervisedProcess:
        """Fork a kernel whose sockets are in this directory.

        Raises
        ------
        TemplateError
            It gives none.
        """
        environment = self.environment
        sandbox = environment.sandbox
        variables = self.variables | own_directories(directory.path, sandbox)
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
            async with asyncio.timeout(READY_SECONDS):
                run = os.open(directory.path / "run", os.O_RDONLY | os.O_DIRECTORY)
                try:
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
            return TemplateError(said["failed"], unfit=True, imported=said["imported"])
        return TemplateError("no kernel came of it")

    @abstractmethod
    def stderr_tail(self) -> str:
        """Return what its kernels, or itself, have said on standard error; empty where that went to ours."""
