"""What ipykernel and IPython find in place of something of theirs that a kernel of ours is better off without."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, ClassVar

import zmq
from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread
from zmq.eventloop.zmqstream import ZMQStream


class NoShellThread:
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


class ControlContext:
    """In place of a ZMQ context, for who makes the socket of the control channel and those of a debugger."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self._context = context

    def socket(self, kind: int) -> Any:
        """Make a socket, or what stands for that of a debugger."""
        return self._context.socket(kind) if kind == zmq.ROUTER else _NoSocket()


class OutputThread(IOPubThread):
    """In place of the thread that sends outputs: it serves at once, in one run of its loop in place of two."""

    def _thread_main(self) -> None:
        loop: Any = self.io_loop

        def begin(first: Callable[[], object]) -> None:
            del loop.run_sync  # ours
            loop.add_callback(first)

        loop.run_sync = begin
        super()._thread_main()


def stream(of: Any, *args: Any) -> ZMQStream | None:
    """Make the stream of a socket; none of what stands for one."""
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


def without_modules(module: ModuleType) -> AbstractContextManager[None]:
    """Let code of this module see none."""
    return replaced(vars(module), "sys", _NoModules())


def without_subshells() -> AbstractContextManager[None]:
    """Have an application made without a thread for subshells; ipykernel 6 has none."""
    return replaced(vars(kernelapp), "ShellChannelThread", NoShellThread)


@contextmanager
def replaced(module: dict[str, Any], name: str, ours: object) -> Iterator[None]:
    """Put something of ours in a name's place meanwhile, where the module has that name."""
    if (theirs := module.get(name)) is None:
        yield
        return
    module[name] = ours
    try:
        yield
    finally:
        module[name] = theirs
