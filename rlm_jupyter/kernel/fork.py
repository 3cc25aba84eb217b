"""`ForkedProcess`: a kernel that was forked from a template; `ForkProvisioner` has one started so."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from rlm_jupyter.kernel.directory import Place

_NUMBER = re.compile(r"^Pid:\s*(-?\d+)$", re.MULTILINE)
_GONE_SECONDS = 0.5
"""How long after its end its parent, which is not us, may take to wait for it."""
_LOOK_SECONDS = 0.001
_MOST_BYTES = 64


class ForkedProcess:
    """A process that is no child of ours, with as much of `subprocess.Popen` as `jupyter_client` asks for.

    Parameters
    ----------
    channel
        Tells how the kernel has ended; where it is closed, the kernel ends.
    supervisor, kernel
        Pidfds of the process that watches over the kernel, and of the kernel.
    is_boxed
        Whether the supervisor is the first process of a namespace, which ends with it.
    """

    stdin = stdout = stderr = None

    def __init__(self, channel: socket.socket, supervisor: int, kernel: int, *, is_boxed: bool) -> None:
        self._channel = channel
        self._supervisor, self._kernel = supervisor, kernel
        self._is_boxed = is_boxed
        self.pid, self.kernel_pid = _number(supervisor), _number(kernel)
        self.returncode: int | None = None
        self._told: int | None = None
        self._ended_at: float | None = None

    def exit_code(self) -> int | None:
        """Return its exit code, negative for a signal; `None` while it runs."""
        if self._told is None and self._has_ended():
            self._ended_at = time.monotonic()
            self._told = -signal.SIGKILL
            with contextlib.suppress(OSError, ValueError):  # it had no time to say it
                self._told = os.waitstatus_to_exitcode(int(self._channel.recv(_MOST_BYTES)))
        return self._told

    def poll(self) -> int | None:
        """Return the same, once its parent has waited for it."""
        if self.returncode is None and (code := self.exit_code()) is not None and self._is_gone():
            self.returncode = code
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
        """Signal the supervisor."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._supervisor, signum)

    def terminate(self) -> None:
        """End the kernel and all that it has started."""
        # a supervisor kills what is below it; with the first process of a namespace, the system does
        self.send_signal(signal.SIGKILL if self._is_boxed else signal.SIGTERM)

    def kill(self) -> None:
        """End the supervisor at once, and the kernel with it."""
        self.send_signal(signal.SIGKILL)

    def interrupt(self, signum: int) -> None:
        """Signal the kernel and what it started."""
        if self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.kernel_pid, signum)

    def close(self) -> None:
        """Close what is open here: the process is gone, or goes now."""
        if self.returncode is None:
            self.returncode = -signal.SIGKILL if self._told is None else self._told
        if self._supervisor >= 0:
            self._channel.close()
            os.close(self._supervisor)
            os.close(self._kernel)
            self._supervisor = self._kernel = -1

    def _has_ended(self) -> bool:
        looking = select.poll()  # which takes descriptors above 1023, too
        looking.register(self._supervisor, select.POLLIN)
        return bool(looking.poll(0))

    def _is_gone(self) -> bool:
        if self._ended_at is not None and time.monotonic() - self._ended_at > _GONE_SECONDS:
            return True
        try:
            signal.pidfd_send_signal(self._supervisor, 0)
        except ProcessLookupError:
            return True
        return False


class ForkProvisioner(LocalProvisioner):
    """A `jupyter_client` provisioner of a kernel that has been forked; `take` is called before it is used."""

    process: Any
    _forked: ForkedProcess
    _place: Place
    _processes: int | None
    _last_words: Callable[[], str]

    def take(self, process: ForkedProcess, place: Place, processes: int | None, last_words: Callable[[], str]) -> None:
        """Set what it is about.

        Parameters
        ----------
        process
            The kernel's.
        place
            Its private directory.
        processes
            How many it may have inside its sandbox; `None`: there is none.
        last_words
            As `GuestProvisioner.last_words`.
        """
        self.process = self._forked = process
        self.pid = process.pid
        self._place, self._processes, self._last_words = place, processes, last_words

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Do nothing: it is launched."""
        return self.connection_info

    async def finish(self, km: Any) -> None:
        """Nothing is left to do once it has been ended."""

    def hold(self) -> None:
        """Bound the number of processes inside, before anything of the model's runs there."""
        if self._processes is not None and os.geteuid() == 0:
            self._place.hold(self.process.pid, self._processes)

    def last_words(self) -> str:
        """Return what it said on standard error when it did not come up."""
        return self._last_words()

    def exit_code(self) -> int | None:
        """As of `Popen`: negative for a signal."""
        code: int | None = None if self.process is None else self.process.exit_code()
        return code

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

    def release(self) -> None:
        """Close what is open here; the process is gone."""
        self._forked.close()


def _number(pidfd: int) -> int:
    """Return the process id that a pidfd stands for, as it is here; -1 where the process is gone."""
    found = _NUMBER.search(Path(f"/proc/self/fdinfo/{pidfd}").read_text())
    return int(found[1]) if found else -1
