"""`ForkProvisioner`: what `jupyter_client` signals and ends a kernel's process with that has been forked."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.forked_kernel import ForkedKernel
from rlm_jupyter.kernel.supervised_process import SupervisedProcess


class ForkProvisioner(LocalProvisioner):
    """A `jupyter_client` provisioner of a kernel that has been forked; `take` is called before it is used."""

    process: Any
    supervised: SupervisedProcess
    _directory: KernelDirectory
    _stderr_tail: Callable[[], str]

    def take(self, kernel: ForkedKernel, stderr_tail: Callable[[], str]) -> None:
        """Set what it is about.

        Parameters
        ----------
        kernel
            The kernel.
        stderr_tail
            Returns the end of what its template, or the kernel that it was forked from, has said on standard error.
        """
        self.process = self.supervised = kernel.process
        self.pid = kernel.process.pid
        self._directory, self._stderr_tail = kernel.directory, stderr_tail

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Do nothing: it is launched."""
        return self.connection_info

    async def finish(self, km: Any) -> None:
        """Do nothing: nothing is left to do once it has been ended."""

    async def hold(self) -> None:
        """Do nothing: the number of its processes is bounded since it was forked."""

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
