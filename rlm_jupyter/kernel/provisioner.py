"""`GuestProvisioner`: starts, signals and ends a kernel's process, shut off by bubblewrap or not."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.sandbox import bwrap, seccomp
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels
from rlm_jupyter.kernel.supervised_process import SupervisedProcess
from rlm_jupyter.kernel.supervisor import can_fork_live
from rlm_jupyter.types.errors import KernelStartError

_SIGNALLED = 128
"""What bubblewrap adds to the number of the signal that ended its child, for an exit code."""
_PIPE_BYTES = 65_536
_SUPERVISED_SECONDS = 60.0
"""How long it may take until its Python runs."""


class GuestProvisioner(LocalProvisioner):
    """A `jupyter_client` provisioner of one kernel; `shut_off` is called before it is launched."""

    _sandbox: Sandbox | None = None
    _directory: KernelDirectory
    _is_template = False
    _inside: int | None = None
    """The first process inside the sandbox, as we see it: with it, all of them end."""
    _inside_fd: int | None = None
    _said: int | None = None
    supervised: SupervisedProcess | None = None
    """The kernel's own process, as its supervisor tells it, where there is one that does."""

    def shut_off(self, sandbox: Sandbox, directory: KernelDirectory, *, template: bool = False) -> None:
        """Set what it is started in, and whether it is no kernel, but what kernels are forked from."""
        self._sandbox, self._directory, self._is_template = sandbox, directory, template

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process; where this is cancelled, `self.process` is there all the same."""
        options = LocalProvisioner._scrub_kwargs(kwargs)
        if not can_fork_live():
            await self._launch(cmd, options)
            return self.connection_info
        channels = StartChannels()
        try:
            theirs = channels.theirs
            confined = json.loads(options["env"][VARIABLE]) | {"channel": theirs[0], "forks": theirs[1]}
            options["env"] = options["env"] | {VARIABLE: json.dumps(confined)}
            await self._launch(cmd, options | {"pass_fds": theirs})
            channels.pass_on()
            async with asyncio.timeout(_SUPERVISED_SECONDS):
                boxed = self._inside is not None
                self.supervised = await channels.process(is_boxed=boxed, child=self.process, first=self._inside_fd)
        except (TimeoutError, NotStartedError):  # it will not come up either, and that is told
            pass
        finally:
            if self.supervised is None:
                channels.close()
        return self.connection_info

    async def _launch(self, cmd: list[str], options: dict[str, Any]) -> None:
        started = by_a_thread_of_its_own(lambda: self.start(cmd, **options), self.keep)
        await run_to_completion(lambda: _done(started))

    def start(self, cmd: list[str], **options: Any) -> Any:
        """Start the process, and return it; it ends with the thread that this is called in."""
        boxed = self._sandbox is not None and self._sandbox.kind == "bwrap"
        return (self._start_boxed if boxed else launch_kernel)(cmd, **options)

    def keep(self, process: Any) -> None:
        """Take a process as the one that this is about."""
        self.process, self.pid = process, process.pid
        self.pgid = os.getpgid(process.pid) if hasattr(os, "getpgid") else None

    def hold(self) -> None:
        """Bound the number of processes inside, before anything of the model's runs there."""
        if self._inside is not None and self._sandbox is not None and os.geteuid() == 0:
            self._directory.hold(self._inside, self._sandbox.processes)

    def stderr_tail(self) -> str:
        """Return what it said on standard error when it did not come up; empty where that went to ours."""
        if self._said is None:
            return ""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._said, _PIPE_BYTES).decode(errors="replace").strip()
        return ""

    def exit_code(self) -> int | None:
        """Return the exit code, as of `Popen`: negative for a signal."""
        if self.supervised is not None:
            return self.supervised.exit_code()
        code: int | None = None if self.process is None else self.process.poll()
        if self._inside is not None and code is not None and code > _SIGNALLED:
            return _SIGNALLED - code
        return code

    async def send_signal(self, signum: int) -> None:
        """Signal the kernel and what it started."""
        if self.supervised is not None and signum == signal.SIGKILL:
            self.supervised.kill()
        elif self.supervised is not None:
            self.supervised.interrupt(signum)
        elif self._inside is not None and signum == signal.SIGKILL:
            self.end()
        elif self.exit_code() is not None:
            pass  # the number may be another's by now
        elif self._inside is None:
            await super().send_signal(signum)
        else:
            # its group; the process that reaps there is the first of its namespace, and hears no such signal
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._inside, signum)

    def end(self) -> None:
        """Kill the process and all that belongs to it."""
        if self.supervised is not None:
            self.supervised.terminate()
        elif self._inside_fd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._inside_fd, signal.SIGKILL)
        elif self.process is not None and self.exit_code() is None:
            # the guest's supervisor, which ends all that is below it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, signal.SIGTERM)

    async def finish(self, km: Any) -> None:
        """Let `jupyter_client` put away what it has of a kernel that has been ended; it ends it where it has not."""
        if self.supervised is None:
            await km.shutdown_kernel(now=True)
        else:
            await km.cleanup_resources()

    def release(self) -> list[KernelDirectory]:
        """Close what is open here; the process is gone. Return the directories to be removed."""
        directories = [self._directory] if self.supervised is None else self.supervised.close(self._directory)
        for fd in (self._inside_fd, self._said):
            if fd is not None:
                os.close(fd)
        self._inside_fd = self._said = None
        return directories

    def _start_boxed(
        self, cmd: list[str], *, cwd: str | None = None, pass_fds: Sequence[int] = (), **options: Any
    ) -> Any:
        assert self._sandbox is not None
        with ExitStack() as stack:
            told, tells = _pipe(stack)
            said, says = _pipe(stack)
            for end in (said, says):  # who writes more than anybody reads loses it, and does not wait
                os.set_blocking(end.fileno(), False)
            cwd_path = None if cwd is None else Path(cwd)
            # through a pipe: the names of folders need not stand in the list of processes
            words = bwrap.options(self._sandbox, cmd[0], self._directory.path, cwd_path, template=self._is_template)
            filled = [_filled(stack, b"".join(word.encode() + b"\0" for word in words))]
            command = [bwrap.program(), "--args", str(filled[0]), "--info-fd", str(tells.fileno())]
            if (rules := seccomp.program()) is not None:
                filled.append(_filled(stack, rules))
                command += ["--seccomp", str(filled[1])]
            passed = [tells.fileno(), *filled, *pass_fds]
            null = subprocess.DEVNULL  # not ours: what stands there could be opened anew, and read
            process: Any = launch_kernel(
                [*command, "--", *cmd],
                cwd="/",
                stdin=null,  # a pipe would be one for all kernels of a template, and could be written to
                stdout=null,
                stderr=says.fileno(),
                pass_fds=passed,
                **options,
            )
            tells.close()
            about = told.read()
            try:
                self._inside = int(json.loads(about)["child-pid"])
                self._inside_fd = os.pidfd_open(self._inside)
            except (ValueError, KeyError, OSError):
                self._inside = None
                process.kill()
                process.wait()
                why = (said.read() or b"no reason given").decode(errors="replace").strip()
                raise KernelStartError(
                    f"The sandbox could not be set up: {why}. sandbox='none' does without."
                ) from None
            self._said = os.dup(said.fileno())
        return process


def _pipe(stack: ExitStack) -> tuple[io.FileIO, io.FileIO]:
    reads, writes = os.pipe()
    return stack.enter_context(io.FileIO(reads, "r")), stack.enter_context(io.FileIO(writes, "w"))


def _filled(stack: ExitStack, data: bytes) -> int:
    """Return the end of a file in memory from which this is read."""
    file = stack.enter_context(io.FileIO(os.memfd_create("rlm"), "w+"))
    file.write(data)
    file.seek(0)
    return file.fileno()


def by_a_thread_of_its_own(start: Callable[[], Any], keep: Callable[[Any], None]) -> concurrent.futures.Future[None]:
    """Start a process in a thread that lives as long as it does.

    A kernel that asks to be told when its parent dies (`guest/supervisor_process.py`) means, to Linux, the thread that
    started it; that of an event loop may end long before its process does.

    Parameters
    ----------
    start
        Starts it.
    keep
        Told the process, before the future is done: else nobody would end it.

    Returns
    -------
    Future
        Done when the process is there, or could not be started; it can't be cancelled.
    """
    started: concurrent.futures.Future[None] = concurrent.futures.Future()
    started.set_running_or_notify_cancel()
    if sys.platform != "linux":
        keep(start())
        started.set_result(None)
        return started

    def live() -> None:
        try:
            process = start()
            keep(process)
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            started.set_exception(error)
            return
        started.set_result(None)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=live, name="rlm_jupyter kernel", daemon=True).start()
    return started


async def _done(started: concurrent.futures.Future[None]) -> None:
    await asyncio.wrap_future(started)
