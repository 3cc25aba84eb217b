"""The first way in: our own kernel application, an ipykernel with a guest in it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import zmq
from ipykernel import ipkernel, kernelapp
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core import shellapp
from jupyter_client.jsonutil import json_default
from traitlets import Type
from zmq.eventloop.zmqstream import ZMQStream

from rlm_jupyter.kernel.guest.display_limits import bound_displays
from rlm_jupyter.kernel.guest.guest import Guest
from rlm_jupyter.kernel.guest.prepared import PreparedApp
from rlm_jupyter.kernel.guest.sigint import Interrupts
from rlm_jupyter.kernel.guest.stream_limits import BoundedStream
from rlm_jupyter.kernel.guest.supervisor_process import name_process
from rlm_jupyter.kernel.guest.thread_context import keep_context
from rlm_jupyter.kernel.guest.wire import Wire

_MOST_BYTES = 10_000
"""Of what a fork is told of its connection."""
READY = "rlm-ready"
"""What the process of a kernel is called that nobody has asked for yet."""


class GuestKernel(IPythonKernel):
    """An IPython kernel whose control channel carries sub-calls, and whose every cell can be interrupted."""

    def __init__(self, **kwargs: Any) -> None:
        with _without_modules(ipkernel):  # it lists their files for its debugger, and nobody debugs ours
            super().__init__(**kwargs)
        self._execute_sleep = 0.0  # before each reply, so that outputs come first: the host waits for these
        self.log.setLevel(logging.WARNING)  # or each message makes records that no handler takes
        if isinstance(self.parent, PreparedApp):
            self.parent.adopt(self)
        self.move_in(Wire)

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
        keep_context()
        shell: Any = self.shell
        shell.compile.get_code_name = _file_name
        shell.enable_tip = False  # drawn whenever a client asks who we are, from the numbers of a cell's `random.seed`
        # IPython keeps all that cells print, for `%notebook`, and takes as long for it as printing itself does
        shell._tee = _untapped
        session: Any = self.session
        session.pack = _surviving(session.pack)
        self.rlm_guest = Guest(self, wire=wire)
        self._interrupts = Interrupts(shell.user_ns, self._fail_calls)
        self.rlm_guest.on_stop = self._interrupts.expect
        bound_displays(shell, self._interrupts)

    def dispatch_control(self, msg: Any) -> Any:
        """Take our own messages before ipykernel's queue, lock and status messages."""
        return None if self.rlm_guest.wire.accepts(msg) else super().dispatch_control(msg)

    def pre_handler_hook(self) -> None:
        """Serve SIGINT in our way while a shell message is handled."""
        if isinstance(self.parent, GuestKernelApp):
            self.parent.asked()
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


class _NoShellThread:
    """In place of the thread that hands messages to subshells: nobody opens one here, and each message went through it.

    ipykernel 7.1 to 7.4 looks whether there is such a thread, and which one has started it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        pass  # of the context, and up to 7.3 the shell's socket

    def __bool__(self) -> bool:
        return False

    @property
    def parent_thread(self) -> threading.Thread:
        """The thread that executes cells."""
        return threading.main_thread()


class _NoSocket:
    """In place of those of a debugger, which nobody has here: ipykernel makes two, and connects one to its shell."""

    closed = True
    linger = 0

    def connect(self, address: object) -> None:
        pass


class _ControlContext:
    """In place of a ZMQ context, for who makes the socket of the control channel and those of a debugger."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self._context = context

    def socket(self, kind: int) -> Any:
        return self._context.socket(kind) if kind == zmq.ROUTER else _NoSocket()


def _stream(of: Any, *args: Any) -> ZMQStream | None:
    return None if isinstance(of, _NoSocket) else ZMQStream(of, *args)


class _NoModules:
    """In place of `sys`, for who lists all modules: that writes to each of some hundred.

    They lie in pages that a fork shares with its template until then.
    """

    modules: ClassVar[dict[str, ModuleType]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(sys, name, value)


def _file_name(raw_code: str, code: str, number: int) -> str:
    """Return what tracebacks and warnings call a cell's file, as ipykernel does, but in less time.

    That takes a sum over all bytes of a cell in Python, and writes to the folder first, to see whether it may.
    """
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    return os.path.join(folder, f"ipykernel_{os.getpid()}", f"{zlib.crc32(raw_code.encode(errors='replace'))}.py")  # noqa: PTH118


def _without_modules(module: ModuleType) -> AbstractContextManager[None]:
    """Let code of this module see none."""
    return _replaced(vars(module), "sys", _NoModules())


def _without_subshells() -> AbstractContextManager[None]:
    """Have an application made without a thread for subshells; ipykernel 6 has none."""
    return _replaced(vars(kernelapp), "ShellChannelThread", _NoShellThread)


@contextmanager
def _replaced(module: dict[str, Any], name: str, ours: object) -> Iterator[None]:
    """Put something of ours in a name's place meanwhile, where the module has that name."""
    if (theirs := module.get(name)) is None:
        yield
        return
    module[name] = ours
    try:
        yield
    finally:
        module[name] = theirs


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


class GuestKernelApp(IPKernelApp, PreparedApp):
    """`python -m rlm_jupyter.kernel.guest`."""

    name = "rlm-guest"
    kernel_class: Any = Type(GuestKernel, klass="ipykernel.kernelbase.Kernel")
    outstream_class: Any = f"{BoundedStream.__module__}.{BoundedStream.__name__}"

    def init_control(self, context: zmq.Context[Any]) -> None:
        """Create the control channel without a high-water mark: a ROUTER drops silently above it."""
        context.setsockopt(zmq.SNDHWM, 0)
        context.setsockopt(zmq.RCVHWM, 0)
        with _without_subshells():
            super().init_control(_ControlContext(context))

    def init_kernel(self) -> None:
        """Make the kernel, without a debugger's stream."""
        with _replaced(vars(kernelapp), "ZMQStream", _stream):
            super().init_kernel()

    def _bind_socket(self, s: Any, port: int) -> int:
        """Bind; not the socket of `input()`, which nobody connects to."""
        return port if s is self.stdin_socket else int(super()._bind_socket(s, port))

    def init_heartbeat(self) -> None:
        """Have none: nobody listens to it, as the process is watched; it takes three threads."""

    def await_host(self, seconds: int, name: str) -> None:
        """End after so long, unless a host asks something; only then take this name, so that `ps` says what it is."""
        self._name = name
        name_process(READY)
        signal.alarm(seconds)

    def asked(self) -> None:
        """Take note that a host is there (main thread)."""
        if self._name is not None:
            signal.alarm(0)
            name_process(self._name)
            self._name = None

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
        self.ip = str(Path(self.connection_file).with_name(Path(self.ip).name))

    def write_connection_file(self, **kwargs: Any) -> None:
        """Write none for a fork."""
        if self._run is None:
            super().write_connection_file(**kwargs)

    def init_code(self) -> None:
        """Run what the user has configured to be run first; which modules were there before, the template has noted."""
        if not self.is_prepared:
            super().init_code()
            return
        with _without_modules(shellapp):
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

    _name: str | None = None
    """Of its process, while it waits for a host."""
    _run: int | None = None
    _forks: int | None = None
