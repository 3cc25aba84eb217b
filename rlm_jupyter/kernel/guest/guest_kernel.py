"""`GuestKernel`: an ipykernel with a guest in it."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sys
import tempfile
import uuid
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ipykernel import ipkernel
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.jsonutil import json_default

from rlm_jupyter.kernel.guest.display_limits import bound_displays
from rlm_jupyter.kernel.guest.guest import Guest
from rlm_jupyter.kernel.guest.sigint import Interrupts
from rlm_jupyter.kernel.guest.stand_ins import without_modules
from rlm_jupyter.kernel.guest.thread_context import keep_context
from rlm_jupyter.kernel.guest.wire import Wire


def nothing() -> None:
    """Do nothing."""


class GuestKernel(IPythonKernel):
    """An IPython kernel whose control channel carries sub-calls, and whose every cell can be interrupted."""

    def __init__(self, **kwargs: Any) -> None:
        with without_modules(ipkernel):  # it lists their files for its debugger, and nobody debugs ours
            super().__init__(**kwargs)
        self._execute_sleep = 0.0  # before each reply, so that outputs come first: the host waits for these
        self.log.setLevel(logging.WARNING)  # or each message makes records that no handler takes
        if self.control_stream is not None:  # else a template's, whose guest comes after the modules that are preloaded
            self.move_in(Wire)

    @classmethod
    def instance(cls, *args: Any, **made: Any) -> Any:
        """Make the kernel; one that a template has made takes what was made for it since."""
        is_made = cls.initialized()
        kernel = super().instance(*args, **made)
        if is_made and made:
            kernel.connect(made)
        return kernel

    def connect(self, made: Mapping[str, Any]) -> None:
        """Take a connection, in the fork of a template: sockets, streams and threads, by their names here."""
        for name, value in made.items():
            setattr(self, name, value)
        self._stdout, self._stderr = sys.stdout, sys.stderr
        self.ident = str(uuid.uuid4())
        shell: Any = self.shell
        shell.displayhook.pub_socket = shell.display_pub.pub_socket = self.iopub_socket
        shell.displayhook.topic = self._topic("execute_result")
        self.rlm_guest.renew(streams=True)
        keep_context()

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    def start(self) -> None:
        """Serve; ipykernel would serve its debugger, too, and warn that there is none."""
        shell: Any = self.shell
        shell.exit_now = False
        super(IPythonKernel, self).start()

    def move_in(self, wire: type[Wire]) -> None:
        """Put a guest into this kernel, which talks to its host over such a wire."""
        self.on_request: Callable[[], None] = nothing
        """Called before a message of the shell's is handled."""
        if self.control_stream is not None:  # else it has no threads yet, and these are of no cell
            keep_context()
        shell: Any = self.shell
        shell.compile.get_code_name = _file_name
        shell.enable_tip = False  # drawn whenever a client asks who we are, from the numbers of a cell's `random.seed`
        # IPython keeps all that cells print, for `%notebook`, and takes as long for it as printing itself does
        shell._tee = _untapped
        run = type(shell).run_cell_async
        run.__signature__ = inspect.signature(run)  # ipykernel asks for it before each cell
        session: Any = self.session
        session.pack = _surviving(session.pack)
        self.rlm_guest = Guest(self, wire=wire)
        self._interrupts = Interrupts(shell.user_ns, self._fail_calls)
        self.rlm_guest.on_stop = self._interrupts.expect
        bound_displays(shell, self._interrupts)

    def dispatch_control(self, msg: Any) -> Any:
        """Take our own messages before ipykernel's queue, lock and status messages."""
        return None if self.rlm_guest.wire.accepts(msg) else super().dispatch_control(msg)

    async def dispatch_shell(self, msg: Any, *args: Any, **options: Any) -> None:
        """Answer who looks whether this channel is there; for that, ipykernel would say that it is busy, and idle."""
        if self.rlm_guest.wire.greets(msg, self.shell_stream):
            self.on_request()
        else:
            await super().dispatch_shell(msg, *args, **options)

    def pre_handler_hook(self) -> None:
        """Serve SIGINT in our way while a shell message is handled."""
        self.on_request()
        self.saved_sigint_handler = self._interrupts.serve(self.rlm_guest.running_cell())

    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Any:
        return self._interrupts.awaiting(future)

    def _fail_calls(self, cell: str) -> None:
        self.rlm_guest.calls.stop(cell, "the cell was interrupted")

    def raw_input(self, prompt: object = "") -> str:
        """Refuse `input()`: a model runs this kernel, nobody sits at it."""
        raise EOFError("input() is not available: no person sits at this kernel. Work with `context` instead.")

    def getpass(self, prompt: object = "", stream: object = None, **options: object) -> str:
        """Refuse a password, like `input()`."""
        return self.raw_input(prompt)


def _file_name(raw_code: str, code: str, number: int) -> str:
    """Return what tracebacks and warnings call a cell's file, as ipykernel does, but in less time.

    That takes a sum over all bytes of a cell in Python, and writes to the folder first, to see whether it may.
    """
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    return os.path.join(folder, f"ipykernel_{os.getpid()}", f"{zlib.crc32(raw_code.encode(errors='replace'))}.py")  # noqa: PTH118


def _untapped(channel: str) -> AbstractContextManager[None]:
    """Leave a stream as it is."""
    return nullcontext()


def _surviving(pack: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a packer that takes lone surrogates: ipykernel would lose the output, and the error, that holds one."""

    def packed(content: Any) -> bytes:
        try:
            return pack(content)
        except UnicodeEncodeError:
            return json.dumps(content, default=json_default, allow_nan=False).encode()

    return packed
