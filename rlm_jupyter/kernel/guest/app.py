"""The first way in: our own kernel application."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import zmq
from ipykernel import kernelapp
from ipykernel.kernelapp import IPKernelApp
from IPython.core import application, shellapp
from traitlets import Type

from rlm_jupyter.kernel.guest.guest_kernel import GuestKernel, nothing
from rlm_jupyter.kernel.guest.prepared import PreparedApp
from rlm_jupyter.kernel.guest.stand_ins import (
    ControlContext,
    OutputThread,
    replaced,
    stream,
    without_modules,
    without_subshells,
)
from rlm_jupyter.kernel.guest.stream_limits import BoundedStream
from rlm_jupyter.kernel.guest.supervisor_process import name_process

_INSTALLED = {"site-packages", "dist-packages"}
_STARTUP = [f"{place}/startup" for place in (*application.ENV_CONFIG_DIRS, *application.SYSTEM_CONFIG_DIRS)]
"""Where files lie that are run first, beside those of a profile."""
_MOST_BYTES = 10_000
"""Of what a fork is told of its connection."""
READY = "rlm-ready"
"""What the process of a kernel is called that nobody has asked for yet."""


class GuestKernelApp(IPKernelApp, PreparedApp):
    """`python -m rlm_jupyter.kernel.guest`."""

    name = "rlm-guest"
    kernel_class: Any = Type(GuestKernel, klass="ipykernel.kernelbase.Kernel")
    outstream_class: Any = f"{BoundedStream.__module__}.{BoundedStream.__name__}"

    def init_path(self) -> None:
        """Look for modules in the working folder, too, after the standard ones; IPython 9.7 would not, at our start."""
        at = [place for place, path in enumerate(sys.path) if Path(path).name in _INSTALLED]
        if "" not in sys.path:
            sys.path.insert(at[0] if at else len(sys.path), "")

    def _run_startup_files(self) -> None:
        """Run them; a fork looks for each kind in each place only where such a place is there."""
        profile: Any = self.profile_dir
        places = (profile.startup_dir, *_STARTUP) if self.is_prepared else ()
        if not places or "PYTHONSTARTUP" in os.environ or any(map(os.path.isdir, places)):
            super()._run_startup_files()

    def init_control(self, context: zmq.Context[Any]) -> None:
        """Create the control channel without a high-water mark: a ROUTER drops silently above it."""
        context.setsockopt(zmq.SNDHWM, 0)
        context.setsockopt(zmq.RCVHWM, 0)
        with without_subshells():
            super().init_control(ControlContext(context))

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """Create the channel of outputs, and start its thread."""
        with replaced(vars(kernelapp), "IOPubThread", OutputThread):
            super().init_iopub(context)

    def init_kernel(self) -> None:
        """Make the kernel, without a debugger's stream."""
        with replaced(vars(kernelapp), "ZMQStream", stream):
            super().init_kernel()

    def _bind_socket(self, s: Any, port: int) -> int:
        """Bind; not the socket of `input()`, which nobody connects to."""
        return port if s is self.stdin_socket else int(super()._bind_socket(s, port))

    def init_heartbeat(self) -> None:
        """Have none: nobody listens to it, as the process is watched; it takes three threads."""

    def await_host(self, seconds: int, name: str) -> None:
        """End after so long, unless a host asks something; only then take this name, so that `ps` says what it is."""
        kernel: Any = self.kernel
        name_process(READY)
        signal.alarm(seconds)

        def asked() -> None:
            signal.alarm(0)
            name_process(name)
            kernel.on_request = nothing

        kernel.on_request = asked

    def fork_into(self, run: int) -> None:
        """Be the application of a fork, whose sockets are to be in the folder of this descriptor."""
        self._run = run
        self.connection_file = f"/proc/self/fd/{run}/k.json"
        self.parent_handle = 1  # none that is to be looked for every second: its supervisor sees to it that it ends

    def take_forks(self, channel: int) -> None:
        """Set where forks of this kernel, once it lives, are asked for."""
        self._forks = channel

    def init_connection_file(self) -> None:
        """Load the connection; a fork is sent it, and the folder of its sockets may be nowhere in what it sees."""
        if self._run is None:
            super().init_connection_file()
            return
        assert self._forks is not None
        self.load_connection_info(json.loads(os.read(self._forks, _MOST_BYTES)))
        self.ip = f"/proc/self/fd/{self._run}/{self.ip.rpartition('/')[2]}"

    def write_connection_file(self, **kwargs: Any) -> None:
        """Write none for a fork."""
        if self._run is None:
            super().write_connection_file(**kwargs)

    def log_connection_info(self) -> None:
        """Say nothing of how else to connect: nobody else has the key."""
        self._ports: dict[str, int] = {}

    def init_code(self) -> None:
        """Run what the user has configured to be run first; which modules were there before, the template has noted."""
        if not self.is_prepared:
            super().init_code()
            return
        with without_modules(shellapp):
            super().init_code()
        shell: Any = self.shell
        shell._sys_modules_keys = self.modules

    def initialize(self, argv: Any = None) -> None:
        """Make everything; from then on, nothing leads to the folder of the connection."""
        super().initialize(argv)
        if self._run is not None:
            os.close(self._run)
        if self._forks is not None:
            from rlm_jupyter.kernel.guest.self_fork import SelfFork  # Linux

            SelfFork(self, self._forks)

    _run: int | None = None
    _forks: int | None = None
