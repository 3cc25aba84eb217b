"""`SupervisedProcess`: a kernel's process that is no child of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence

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
        Where files are passed to it: the sockets of a fork, and texts.
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
        self._passed = 0
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

    def pass_files(self, files: Sequence[int]) -> int:
        """Send the kernel these descriptors; return the number that the request for which they are is to name.

        Raises
        ------
        OSError
            It is gone, or does not read what it is sent.
        """
        self._passed += 1
        socket.send_fds(self.fork_channel, [str(self._passed).encode()], files)
        return self._passed

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
