"""Threads that know which cell they belong to, however late they print.

What a thread puts out goes to the cell that a context variable names, and a new thread has none: ipykernel then takes
the cell that happens to run. So a thread, and a piece of work handed to a pool, takes along the context it comes from.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def keep_context() -> None:
    """Let threads have the context of their cell from now on in this process; to be called once."""
    if not getattr(sys.flags, "thread_inherit_context", False):  # Python 3.14 can do so by itself
        _keep_in_threads()
    _keep_in_pools()


def _keep_in_threads() -> None:
    start = threading.Thread.start

    def started(self: threading.Thread) -> None:
        context, run = contextvars.copy_context(), self.run

        def run_there() -> None:
            try:
                context.run(run)
            finally:
                self.__dict__.pop("run", None)

        self.__dict__["run"] = run_there
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _keep_in_pools() -> None:
    submit = ThreadPoolExecutor.submit

    def submitted(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        return submit(self, contextvars.copy_context().run, fn, *args, **named)

    ThreadPoolExecutor.submit = submitted  # type: ignore[assignment,method-assign]
