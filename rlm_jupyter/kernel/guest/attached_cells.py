"""`AttachedCells`: executes a host's cells on the main thread of a kernel, inside a cell of the user's.

They are ordinary cells: numbered, kept in `In` and `Out`. For the host, which reads their outputs from IOPub, each is
framed by two messages of our own, `rlm_cell`. Where the page shows the cells themselves, their outputs name the cell
as their parent, so that the page shows them there alone; else they are shown under the user's cell. An error is never
shown there: it would say that the user's cell has failed.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class AttachedCells:
    """Executes one cell at a time, and serves SIGINT meanwhile.

    Parameters
    ----------
    kernel
        The `IPythonKernel`.
    fail_calls
        Fails the sub-calls that wait, with a reason, so that whoever waits for them can be interrupted.
    is_shown
        Whether the page shows the cells themselves, below the user's.

    Attributes
    ----------
    id, source
        Of the cell that runs; empty between two.
    error
        Of the cell that ran last, in a line; empty where it succeeded.
    """

    def __init__(
        self, kernel: Any, fail_calls: Callable[[str], None], is_shown: Callable[[], bool] = lambda: False
    ) -> None:
        self._kernel = kernel
        self._shell = kernel.shell
        self._fail_calls = fail_calls
        self._is_shown = is_shown
        self._on_stop: Callable[[], None] = lambda: None
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = ""
        self._signalling = threading.Lock()
        self._is_stopped = False
        """The user has interrupted their cell."""
        self.id = ""
        self.source = ""
        self.error = ""

    @contextmanager
    def serving(self, on_stop: Callable[[], None]) -> Iterator[None]:
        """Let an interrupt call `on_stop`, on the main thread, while the user's cell serves the host.

        The cells get numbers of their own, after that of the user's cell.
        """
        self._on_stop, self._is_stopped = on_stop, False
        before = signal.signal(signal.SIGINT, self._on_sigint)
        # IPython 9 counts a cell when it begins, 8 when it has ended
        early = len(self._shell.history_manager.input_hist_parsed) - self._shell.execution_count
        self._shell.execution_count += early
        try:
            yield
        finally:
            self._shell.execution_count -= early
            with self._signalling:  # who holds it may have seen a cell of ours: the signal is still served here
                signal.signal(signal.SIGINT, before)

    async def run(self, cell: str, source: str) -> bool:
        """Execute one cell, as IPython does; the result is whether it succeeded."""
        self._flush()
        is_shown = self._is_shown()
        self.mark(cell, "busy", within=cell if is_shown else None)
        self.id, self.source = cell, source
        try:
            with self._parent_of_outputs(cell, is_shown):
                return await self._run(source)
        finally:
            self.id = self.source = ""
            self.mark(cell, "idle")

    def interrupt(self, cell: str) -> None:
        """Interrupt this cell, if it still runs; from any thread but the main one."""
        with self._signalling:
            if cell != self.id:
                return  # ipykernel, which serves signals after us, would end the kernel
            self._interrupted = cell
            if hasattr(signal, "pthread_kill"):
                # it also wakes a main thread that sleeps in a system call
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()
        if task := self._task:
            # a signal that comes just before its loop goes to sleep would be looked at when something else wakes it
            task.get_loop().call_soon_threadsafe(lambda: None)

    def mark(self, cell: str, state: str, *, within: str | None = None) -> None:
        """Tell the host on IOPub where in its messages a cell begins and ends, and whether the user has stopped it.

        Told elsewhere alone, that might come after the end of the cell, and the host would have gone on by then.

        Parameters
        ----------
        within
            The parent of the cell's outputs. Default: the user's cell.
        """
        kernel = self._kernel
        outer = kernel.get_parent("shell").get("header", {}).get("msg_id", "")
        where = {"within": within or outer, "execution_count": self._shell.execution_count}
        kernel.session.send(
            kernel.iopub_socket,
            "rlm_cell",
            {"state": state, "stopped": self._is_stopped, **where},
            parent={"header": {"msg_id": cell, "msg_type": "rlm_execute"}},
            ident=b"rlm_cell",
        )

    async def _run(self, source: str) -> bool:
        shell, failed = self._shell, None
        try:
            transformed = shell.transform_cell(source)
        except Exception:  # noqa: BLE001  IPython shows it
            transformed, failed = source, sys.exc_info()
        if shell.should_run_async(source, transformed_cell=transformed, preprocessing_exc_tuple=failed):
            result = await self._run_async(source, transformed)
        else:
            result = shell.run_cell(source, store_history=True)
        error = None if result is None else result.error_before_exec or result.error_in_exec
        self.error = "" if error is None else f"{type(error).__name__}: {error}"
        return bool(result is not None and result.success)

    @contextmanager
    def _parent_of_outputs(self, cell: str, is_shown: bool) -> Iterator[None]:
        """Make `cell` the parent of its errors, and where the page shows it, of all its outputs."""
        shell, hook = self._shell, self._shell.displayhook
        user = shell.get_parent()
        own = {**user, "header": {**user.get("header", {}), "msg_id": cell}}
        show_traceback, is_set = shell._showtraceback, "_showtraceback" in vars(shell)

        def show_error(*error: Any) -> None:
            hook.set_parent(own)
            try:
                show_traceback(*error)
            finally:
                hook.set_parent(own if is_shown else user)

        shell._showtraceback = show_error
        if is_shown:
            shell.set_parent(own)
        try:
            yield
        finally:
            self._flush()
            if is_set:
                shell._showtraceback = show_traceback
            else:
                del shell._showtraceback
            shell.set_parent(user)

    async def _run_async(self, source: str, transformed: str) -> Any:
        shell = self._shell
        running = shell.run_cell_async(source, store_history=True, transformed_cell=transformed)
        self._task = task = asyncio.ensure_future(running)
        result = None
        try:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                result = task.result()
        finally:
            task.cancel()  # the user's cell itself was cancelled
            self._task = None
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", result)
        return result

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        asked, self._interrupted = self._interrupted, ""
        if not asked:
            self._is_stopped = True
            self._on_stop()
        elif asked != self.id:
            return  # that cell has ended meanwhile
        self._fail_calls("the cell was interrupted")
        if not self.id:
            return
        task = self._task
        if task is None:
            if self._in_cell(frame):
                raise KeyboardInterrupt
            return
        loop = task.get_loop()
        if self._in_cell(frame):
            if asyncio.current_task(loop) is task:
                raise KeyboardInterrupt
            # KeyboardInterrupt in any other task would end the kernel's own loop
            loop.call_soon_threadsafe(task.cancel)
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(task.cancel)

    def _in_cell(self, frame: FrameType | None) -> bool:
        """Return whether the model's code runs: what is below ours on the stack is the user's own cell."""
        while frame is not None and frame.f_code is not AttachedCells.run.__code__:
            if frame.f_globals is self._shell.user_ns:
                return True
            frame = frame.f_back
        return False

    @staticmethod
    def _flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
