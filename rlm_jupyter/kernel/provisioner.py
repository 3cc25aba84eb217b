"""`GuestProvisioner`: what `jupyter_client` starts, signals and ends a kernel's process with."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import os
import signal
from typing import Any

from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.launcher import Launcher, by_a_thread_of_its_own, fill_closed_streams
from rlm_jupyter.kernel.shield import in_a_thread, run_to_completion
from rlm_jupyter.kernel.start_channels import NotStartedError, StartChannels
from rlm_jupyter.kernel.supervised_process import SupervisedProcess
from rlm_jupyter.kernel.supervisor import can_fork_live

_SUPERVISED_SECONDS = 60.0
"""How long it may take until its Python runs."""


class GuestProvisioner(Launcher, LocalProvisioner):
    """A `jupyter_client` provisioner of one kernel; `shut_off` is called before it is launched."""

    supervised: SupervisedProcess | None = None
    """The kernel's own process, as its supervisor tells it, where there is one that does."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process; where this is cancelled, `self.process` is there all the same."""
        options = LocalProvisioner._scrub_kwargs(kwargs)
        if not can_fork_live():
            await self._launch(cmd, options)
            return self.connection_info
        fill_closed_streams()
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

    def _popen(self, cmd: list[str], **options: Any) -> Any:
        return launch_kernel(cmd, **options)

    async def hold(self) -> None:
        """Bound the number of processes inside, before anything of the model's runs there."""
        inside, sandbox = self._inside, self._sandbox
        if inside is not None and sandbox is not None and os.geteuid() == 0:
            await run_to_completion(lambda: in_a_thread(lambda: self._directory.hold(inside, sandbox.processes)))

    def exit_code(self) -> int | None:
        """Return the exit code, as of `Popen`: negative for a signal."""
        return super().exit_code() if self.supervised is None else self.supervised.exit_code()

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
        if self.supervised is None:
            super().end()
        else:
            self.supervised.terminate()

    async def finish(self, km: Any) -> None:
        """Let `jupyter_client` put away what it has of a kernel that has been ended; it ends it where it has not."""
        if self.supervised is None:
            await km.shutdown_kernel(now=True)
        else:
            await km.cleanup_resources()

    def release(self) -> list[KernelDirectory]:
        """Close what is open here; the process is gone. Return the directories to be removed."""
        directories = super().release()
        return directories if self.supervised is None else self.supervised.close(self._directory)


async def _done(started: concurrent.futures.Future[None]) -> None:
    await asyncio.wrap_future(started)
