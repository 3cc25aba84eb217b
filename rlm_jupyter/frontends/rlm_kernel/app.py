"""`RLMKernelApp`: the process that the kernelspec starts."""

from __future__ import annotations

import logging
import signal
from types import FrameType
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from tornado.ioloop import IOLoop
from traitlets import Type

from rlm_jupyter.frontends.rlm_kernel.kernel import RLMKernel
from rlm_jupyter.policies.import_string import import_from_working_folder

_JOIN_SECONDS = 2.0


class RLMKernelApp(IPKernelApp):
    """`python -m rlm_jupyter.frontends.rlm_kernel`."""

    name = "rlm-kernel"
    kernel_class: Any = Type(RLMKernel, klass="ipykernel.kernelbase.Kernel")

    def init_path(self) -> None:
        """Look for modules in the notebook's folder last: nobody's code runs here."""
        import_from_working_folder()

    def init_kernel(self) -> None:
        """Create the kernel, and from now on take its signals: a run ends on its own loop, never by an exception."""
        super().init_kernel()
        # what a run warns of stands in its record; the server's terminal is nobody's to read it
        logging.getLogger("rlm_jupyter").addHandler(logging.NullHandler())
        kernel = self.kernel

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            kernel.on_signal()

        signal.signal(signal.SIGINT, interrupt)
        loop = IOLoop.current()

        def end(_number: int, _frame: FrameType | None) -> None:
            # the interpreter then exits in good order, and the kernel behind goes with it
            loop.add_callback_from_signal(loop.stop)

        if hasattr(signal, "SIGTERM"):
            signal.signal(signal.SIGTERM, end)

    def start(self) -> None:
        """Serve until the end is asked for; then let the control thread finish what it is at.

        It flushes its streams, and for the thread that does so and is gone, as the interpreter exits, it would
        wait for ever.
        """
        super().start()
        if self.control_thread is not None and self.control_thread.is_alive():
            self.control_thread.stop()
            self.control_thread.join(_JOIN_SECONDS)
