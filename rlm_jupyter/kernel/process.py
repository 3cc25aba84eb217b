"""`KernelProcess`: a kernel's process through `jupyter_client`, in a private directory of its own.

Long because a process's whole life stands here, from how it is started or forked to what is removed after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from traitlets import Instance

from rlm_jupyter.kernel.channel import Channel
from rlm_jupyter.kernel.command import guest_command
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.fork_provisioner import ForkProvisioner
from rlm_jupyter.kernel.forked_kernel import ForkedKernel, KernelEnvironment, TemplateError
from rlm_jupyter.kernel.live_fork import Ask, fork_live
from rlm_jupyter.kernel.provisioner import GuestProvisioner
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.kernel.sandbox.undumpable import hide
from rlm_jupyter.kernel.shield import in_a_thread, run_to_completion
from rlm_jupyter.kernel.supervised_process import SupervisedProcess
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.types.detached import in_thread
from rlm_jupyter.types.errors import ConfigurationError, ForkRefusedError, KernelStartError
from rlm_jupyter.types.here import here

_KILL_POLLS = 1_000
"""How often it is looked, a millisecond apart, whether a killed process is gone."""


class _OneSpec(KernelSpecManager):
    """Knows one kernelspec: the guest's."""

    spec = Instance(KernelSpec)

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return self.spec


class KernelProcess:
    """A started kernel process, its connection, and the news of its death; use `await KernelProcess.launch(...)`."""

    def __init__(self, km: AsyncKernelManager, directory: KernelDirectory) -> None:
        self._km = km
        self._directory = directory
        self._fd: int | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._up: Callable[[], None] = lambda: None
        """Called when it has come up."""

    @classmethod
    async def launch(
        cls,
        *,
        kernel_name: str | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        templates: Templates | None = None,
    ) -> KernelProcess:
        """Start the guest application. From now on, this process's own memory is closed to its user (`hide`).

        Parameters
        ----------
        kernel_name
            A kernelspec whose Python is used; default: the interpreter that runs this.
        cwd
            The kernel's working directory; default: the caller's.
        environment
            Variables beyond `PASSED_ON`.
        sandbox
            What shuts it off from the machine; default: nothing.
        templates
            What it may be forked from; default: it is started anew.

        Raises
        ------
        ConfigurationError
            No such kernelspec, or no such directory.
        KernelStartError
            The process could not be started.
        """
        hide()
        sandbox = (sandbox or NO_SANDBOX).chosen()
        where = working_directory(cwd)
        if templates is not None:
            wanted = templates.environment(kernel_name, where, environment, sandbox)
            # passing errors: it has no room just now, and what it has given goes on
            with contextlib.suppress(TemplateError):
                for template in templates.usable(wanted):
                    with templates.noting(template):
                        return await cls._forked(template)
            ready: KernelProcess | None = await templates.waiting(wanted)
            process = ready or await cls.anew(wanted)
            process._up = lambda: templates.expect_next(wanted, lambda: cls.anew(wanted))
            return process
        return await cls._started(kernel_name, where, environment, sandbox)

    @classmethod
    async def anew(cls, environment: KernelEnvironment) -> KernelProcess:
        """Start the guest application for a kernel of this environment; raises as `launch`."""
        hide()
        named, passed = dict(environment.variables), dict(environment.passed)
        return await cls._started(environment.kernel_name, environment.cwd, named, environment.sandbox, passed)

    @classmethod
    async def _started(
        cls,
        kernel_name: str | None,
        where: Path,
        environment: Mapping[str, str] | None,
        sandbox: Sandbox,
        passed: Mapping[str, str] | None = None,
    ) -> KernelProcess:
        with _private_directory() as directory:
            argv, arguments, env = guest_command(kernel_name, directory.path, sandbox, passed=passed)
            spec = KernelSpec(argv=[*argv, *arguments], language="python", display_name="rlm")
            km = _manager(spec, directory)
            provisioner = GuestProvisioner(parent=km, kernel_id="rlm", kernel_spec=spec)
            provisioner.shut_off(sandbox, directory)
            km.provisioner = provisioner
            return await cls._start(km, directory, env={**env, **(environment or {})}, cwd=str(where))

    @classmethod
    async def _forked(cls, template: Template) -> KernelProcess:
        forked = await template.kernel()
        try:
            spec = KernelSpec(argv=[], language="python", display_name="rlm")
            km = _manager(spec, forked.directory)
            km.load_connection_info(cast(Any, forked.connection))
            provisioner = ForkProvisioner(parent=km, kernel_id="rlm", kernel_spec=spec)
            provisioner.take(forked, template.stderr_tail)
        except BaseException:
            forked.end()  # nobody else knows of it yet
            raise
        km.provisioner = provisioner
        return cls(km, forked.directory)

    async def fork(self, ask: Ask, *, sleeps: bool = False) -> KernelProcess:
        """Fork this kernel, which is between two cells, with all that it has.

        Parameters
        ----------
        ask
            Puts the request for it to the kernel.
        sleeps
            The fork does nothing before it is woken.

        Raises
        ------
        ForkRefusedError
            There can be none, or it would lack something; the text says what.
        """
        parent = self.supervised
        if parent is None:
            raise ForkRefusedError("that needs Linux")
        with _private_directory() as directory:
            spec = KernelSpec(argv=[], language="python", display_name="rlm")
            km = _manager(spec, directory)
            km.write_connection_file()
            connected = KernelProcess(km, directory)
            paths = [connected.url(channel).removeprefix("ipc://") for channel in ("shell", "control", "iopub")]
            request = {"key": km.session.key.decode(), "paths": paths, "sleeps": sleeps}
            process = await fork_live(parent, lambda passed: ask(request | {"passed": passed}), paths)
            provisioner = ForkProvisioner(parent=km, kernel_id="rlm", kernel_spec=spec)
            # what bounds the number of its processes holds for those of its parent as well
            forked = ForkedKernel(directory, dict(km.get_connection_info()), process)
            provisioner.take(forked, self._provisioner.stderr_tail)
            km.provisioner = provisioner
            return connected

    @classmethod
    async def _start(cls, km: AsyncKernelManager, directory: KernelDirectory, **options: Any) -> KernelProcess:
        try:
            await km.start_kernel(**options)
        except BaseException as error:
            if km.has_kernel:
                # start_kernel sleeps after it has started the process: whoever is cancelled there has one
                await cls(km, directory).kill()
            if isinstance(error, OSError):
                raise KernelStartError(f"The kernel could not be started: {error}.") from error
            raise
        return cls(km, directory)

    @property
    def key(self) -> bytes:
        """The connection's signing key."""
        return bytes(self._km.session.key)

    @property
    def _provisioner(self) -> Any:
        return self._km.provisioner

    @property
    def is_forked(self) -> bool:
        """Whether it is a fork, of a template or of another kernel; else it was launched."""
        return isinstance(self._km.provisioner, ForkProvisioner)

    @property
    def supervised(self) -> SupervisedProcess | None:
        """Its process, as its supervisor tells it; `None` where it has none that does."""
        found: SupervisedProcess | None = self._provisioner.supervised
        return found

    def pass_text(self, file: int) -> int | None:
        """Send the kernel a descriptor, that of a text; return its number, `None` where that is not possible."""
        with contextlib.suppress(OSError):
            return None if self.supervised is None else self.supervised.pass_files([file])
        return None

    @property
    def pid(self) -> int:
        """Of the kernel's process, or of its supervisor, which ends as that does."""
        return int(self._provisioner.pid)

    def url(self, channel: str) -> str:
        """Return where `shell`, `control` or `iopub` can be reached."""
        km: Any = self._km
        port = getattr(km, f"{channel}_port")
        return f"ipc://{km.ip}-{port}" if km.transport == "ipc" else f"tcp://{km.ip}:{port}"

    def channel(self, name: str, on_message: Callable[[list[Any]], None]) -> Channel:
        """Open `shell`, `control` or `iopub`; `on_message` is told the frames of each message."""
        return Channel(zmq.SUB if name == "iopub" else zmq.DEALER, self.url(name), on_message)

    def on_death(self, tell: Callable[[int | None], None]) -> None:
        """Call `tell` with the exit code as soon as the process ends."""
        loop = asyncio.get_running_loop()
        provisioner = self._provisioner
        process = provisioner.process

        def ended() -> None:
            self._unwatch()
            tell(provisioner.exit_code())

        if (supervised := provisioner.supervised) is not None:
            supervised.supervisor.watch(supervised.number, ended)
            return
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._fd = os.pidfd_open(self.pid)
                loop.add_reader(self._fd, ended)
                return

        async def watch() -> None:
            while process.poll() is None:  # noqa: ASYNC110  nothing tells of it on this platform
                await asyncio.sleep(0.2)
            tell(process.returncode)

        self._watcher = asyncio.create_task(watch())

    async def seal(self) -> None:
        """Take away what only the kernel's start needed, before any cell runs."""
        await self._provisioner.hold()
        self._directory.seal()
        self._up()

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._provisioner.process is None or self._provisioner.exit_code() is not None

    def end(self) -> None:
        """End the process of a kernel that nobody is connected to. Wait until it is gone, for a few milliseconds."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self.kill())
        else:
            in_thread(lambda: asyncio.run(self.kill()), "rlm_jupyter kernel").result()

    @property
    def stderr_tail(self) -> str:
        """What a kernel that did not come up has said of it, where we know."""
        return str(self._provisioner.stderr_tail())

    async def interrupt(self) -> None:
        """Send SIGINT to the kernel and what it started."""
        with contextlib.suppress(ProcessLookupError, RuntimeError):
            await self._km.interrupt_kernel()

    async def kill(self) -> None:
        """End the process and all it started at once, and remove its private directory. Twice does no harm."""
        await run_to_completion(self._kill)

    async def _kill(self) -> None:
        self._unwatch()
        provisioner = self._provisioner
        try:
            if provisioner.process is not None:
                if sys.platform != "win32":
                    provisioner.end()
                    # jupyter_client looks every 0.1 s whether it is gone; it is in a few ms
                    process = provisioner.supervised or provisioner.process
                    for _ in range(_KILL_POLLS):
                        if process.poll() is not None:
                            break
                        await asyncio.sleep(0.001)
                await provisioner.finish(self._km)
        finally:
            await _removed(provisioner.release())

    def _unwatch(self) -> None:
        if (supervised := self._provisioner.supervised) is not None:
            supervised.supervisor.forget(supervised.number)
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if self._watcher is not None and self._watcher is not asyncio.current_task():
            self._watcher.cancel()
            self._watcher = None


async def _removed(directories: list[KernelDirectory]) -> None:
    """Remove directories; a disk may be slow, and other kernels' messages don't wait for it."""

    def remove() -> None:
        for directory in directories:
            directory.remove()

    await in_a_thread(remove)


def working_directory(cwd: str | Path | None) -> Path:
    """Return where a kernel works; by default where the caller does.

    Raises
    ------
    ConfigurationError
        There is no such directory.
    """
    where = Path(cwd or here())
    if not where.is_dir():
        raise ConfigurationError(f"The kernel's working directory {where} does not exist.")
    return where


@contextlib.contextmanager
def _private_directory() -> Iterator[KernelDirectory]:
    """Yield a new private directory, which is removed where what follows fails."""
    directory = KernelDirectory()
    try:
        yield directory
    except BaseException:
        directory.remove()
        raise


def _manager(spec: KernelSpec, directory: KernelDirectory) -> AsyncKernelManager:
    return AsyncKernelManager(
        kernel_name="rlm",
        kernel_spec_manager=_OneSpec(spec=spec),
        connection_file=str(directory.path / "run" / "k.json"),
        transport="ipc" if sys.platform != "win32" else "tcp",
    )
