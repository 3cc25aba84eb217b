"""`SupervisedProcess`: a kernel's process that is no child of ours; `ForkProvisioner` has one that was forked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.supervisor_process import process_number
from rlm_jupyter.kernel.supervisor import Supervisor

_LOOK_SECONDS = 0.001


class SupervisedProcess:
    """A kernel's process, with as much of `subprocess.Popen` as `jupyter_client` asks for.

    Parameters
    ----------
    supervisor
        Watches over it.
    number
        Its process id, as its supervisor knows it.
    pidfd
        Of it.
    fork_channel
        Where forks of it, once it lives, are asked for.
    life
        A pipe that it ends with, where it is such a fork itself.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, supervisor: Supervisor, number: int, pidfd: int, fork_channel: socket.socket, life: int | None = None
    ) -> None:
        self.supervisor, self.number = supervisor, number
        self.fork_channel = fork_channel
        self._pidfd, self._life = pidfd, life
        self.pid, self.kernel_pid = supervisor.pid, process_number(pidfd)
        self.returncode: int | None = None

    def exit_code(self) -> int | None:
        """Return its exit code, negative for a signal; `None` while it runs, or where it is not known."""
        return self.supervisor.code(self.number) if self.supervisor.has_ended(self.number) else None

    def poll(self) -> int | None:
        """Return the same, once nothing of it is left; where it is not known, that of a killed process."""
        if self.returncode is None and self.supervisor.has_ended(self.number):
            if not self.supervisor.kernels - {self.number} and not self.supervisor.is_gone():
                return None
            code = self.exit_code()
            self.returncode = -signal.SIGKILL if code is None else code
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises
        ------
        subprocess.TimeoutExpired
            It takes longer.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("kernel", timeout or 0)
            time.sleep(_LOOK_SECONDS)
        return code

    def send_signal(self, signum: int) -> None:
        """Signal the kernel."""
        if self.returncode is None and self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._pidfd, signum)

    def wake(self) -> None:
        """Let a fork of a living kernel go on, that sleeps."""
        with contextlib.suppress(OSError):  # it is gone
            self.fork_channel.send(b"wake")

    def terminate(self) -> None:
        """End the kernel and all that it has started."""
        self.supervisor.end(self.number)

    def kill(self) -> None:
        """End the kernel at once."""
        self.send_signal(signal.SIGKILL)

    def interrupt(self, signum: int) -> None:
        """Signal the kernel and what it started."""
        if not self.supervisor.has_ended(self.number):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.kernel_pid, signum)

    def close(self, directory: KernelDirectory) -> list[KernelDirectory]:
        """Close what is open here: the process is gone, or goes now. Return the directories to be removed."""
        if self.returncode is None:
            code = self.exit_code()
            self.returncode = -signal.SIGKILL if code is None else code
        if self._pidfd >= 0:
            self.fork_channel.close()
            os.close(self._pidfd)
            self._pidfd = -1
            if self._life is not None:
                os.close(self._life)
            return self.supervisor.put_away(self.number, directory, shared=self._life is None)
        return []


class ForkProvisioner(LocalProvisioner):
    """A `jupyter_client` provisioner of a kernel that has been forked; `take` is called before it is used."""

    process: Any
    supervised: SupervisedProcess
    _directory: KernelDirectory
    _processes: int | None
    _stderr_tail: Callable[[], str]

    def take(
        self,
        process: SupervisedProcess,
        directory: KernelDirectory,
        processes: int | None,
        stderr_tail: Callable[[], str],
    ) -> None:
        """Set what it is about.

        Parameters
        ----------
        process
            The kernel's.
        directory
            Its private directory.
        processes
            How many it may have inside its sandbox; `None`: there is none.
        stderr_tail
            Returns the end of what its template, or the kernel that it was forked from, has said on standard error.
        """
        self.process = self.supervised = process
        self.pid = process.pid
        self._directory, self._processes, self._stderr_tail = directory, processes, stderr_tail

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Do nothing: it is launched."""
        return self.connection_info

    async def finish(self, km: Any) -> None:
        """Do nothing: nothing is left to do once it has been ended."""

    def hold(self) -> None:
        """Bound the number of processes inside, before anything of the model's runs there."""
        if self._processes is not None and os.geteuid() == 0:
            self._directory.hold(self.process.pid, self._processes)

    def stderr_tail(self) -> str:
        """Return what it said on standard error when it did not come up."""
        return self._stderr_tail()

    def exit_code(self) -> int | None:
        """Return the exit code, as of `Popen`: negative for a signal."""
        return self.supervised.exit_code()

    async def send_signal(self, signum: int) -> None:
        """Signal the kernel and what it started."""
        if self.process is None:
            return
        if signum == signal.SIGKILL:
            self.process.kill()
        else:
            self.process.interrupt(signum)

    def end(self) -> None:
        """Kill the process and all that belongs to it."""
        if self.process is not None:
            self.process.terminate()

    def release(self) -> list[KernelDirectory]:
        """Close what is open here; the process is gone. Return the directories to be removed."""
        return self.supervised.close(self._directory)
