"""`RunningCell`: a cell that is being executed: what it puts out, when it ends, and how it is made to."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.iopub import CellOutputs
from rlm_jupyter.kernel.subcalls import SubcallDispatcher
from rlm_jupyter.types.errors import KernelDiedError
from rlm_jupyter.types.values import CellRun, CellStatus, Output

REPLY_SECONDS = 0.2
"""How long `execute_reply` may come after `idle`; ipykernel loses it when an interrupt races with the end."""
_LEAST_SECONDS = 0.01
"""That a cell has, however little is left."""
INTERRUPT_SECONDS = 3.0
"""How long interrupted code may take to end before its kernel is killed."""
_DRAIN_SECONDS = 30.0
"""The same for a cell that puts out too much: the news of its end comes after all that it had put out."""
_SHOW_SECONDS = 0.05
"""How often people are shown a running cell's outputs, however many come."""
OnMessage = Callable[[str, dict[str, Any]], None]
"""Told type and content of each message that a running cell brings."""


class RunningCell:
    """A cell from the moment that it is sent.

    Parameters
    ----------
    connection
        To its kernel.
    subcalls
        Of its kernel: while one is open, the cell's own time stands still.
    on_outputs, on_message
        As for `Kernel.execute`.
    """

    def __init__(
        self,
        connection: Connection,
        subcalls: SubcallDispatcher,
        on_outputs: Callable[[tuple[Output, ...]], None] | None = None,
        on_message: OnMessage | None = None,
    ) -> None:
        self.id = connection.next_id()
        self.outputs = CellOutputs()
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the cell is over; raises where the kernel died during it."""
        self._connection = connection
        self._subcalls = subcalls
        self._on_outputs = on_outputs
        self._on_message = on_message
        self._replied = asyncio.Event()
        self._started = time.monotonic()
        self._is_interrupted = False
        self._changed = False
        self._stopping: asyncio.Task[None] | None = None
        self._drains = False
        """It is being stopped because it puts out too much; that may take longer than a deadline allows."""

    async def wait_until_over(self, cell_seconds: float | None, left: Callable[[], float | None]) -> None:
        """Wait until the cell is over; interrupt it when its time is up. Parameters as for `Kernel.execute`.

        Raises
        ------
        KernelDiedError
            The kernel died during the cell.
        """
        at_first = left()
        while not self.idle.done():
            elapsed = time.monotonic() - self._started
            own = math.inf if cell_seconds is None else cell_seconds - (elapsed - self._subcalls.waited)
            now = left()
            total = math.inf if now is None else max(now, _LEAST_SECONDS - elapsed)
            if min(own, total) <= 0:
                seconds = cell_seconds if own <= 0 else max(at_first or 0.0, _LEAST_SECONDS)
                await self.stop(f"the cell took longer than {seconds:.3g} s")
                break
            # while sub-calls are open its own time stands still: look again when they are answered
            waiting = not self._subcalls.is_idle
            patience = total if waiting else min(own, total)
            idle = [self.idle, *([self._subcalls.idle()] if waiting else [])]
            await asyncio.wait(idle, timeout=None if patience == math.inf else patience, return_when="FIRST_COMPLETED")
        await self.idle
        # not wait_for: until Python 3.12 it swallows a cancellation that comes together with what it waits for
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPLY_SECONDS):
                await self._replied.wait()

    @property
    def has_no_reply(self) -> bool:
        """It is over without one, and nobody has interrupted it: its kernel may be broken."""
        return not (self._replied.is_set() or self._is_interrupted)

    async def stop(self, reason: str) -> None:
        """Stop it; whoever wants that a second time, as a deadline and a person may, waits for the same."""
        if self.idle.done():
            return
        if self._stopping is None or self._drains:
            self.cancel_stop()
            self._drains = False
            self._stopping = asyncio.create_task(self._escalate(reason))
        stopping = self._stopping
        await asyncio.wait([stopping])
        if not stopping.cancelled():  # cancelled: the cell was over before
            stopping.result()

    def cancel_stop(self) -> None:
        """Cancel what was begun to stop it: it is over."""
        if self._stopping is not None:
            self._stopping.cancel()

    def result(self, status: CellStatus | None = None) -> CellRun:
        """Return what came of it.

        Parameters
        ----------
        status
            Where that is known; else what its outputs tell.
        """
        if status is None:
            status = "interrupted" if self._is_interrupted else "error" if self.outputs.failed else "ok"
        seconds = time.monotonic() - self._started
        return CellRun(status, self.outputs.snapshot(), self.outputs.execution_count, seconds)

    def take(self, message: WireMessage) -> None:
        """Take a message of its own on IOPub."""
        if self._on_message is not None:
            self._on_message(message.type, message.content)
        if message.type != "status":
            self.take_output(message)
        elif message.content["execution_state"] == "idle" and not self.idle.done():
            self.idle.set_result(None)

    def take_reply(self, message: WireMessage) -> None:
        """Take its `execute_reply`."""
        self._replied.set()
        if self._on_message is not None:
            self._on_message(message.type, message.content)

    def take_output(self, message: WireMessage) -> None:
        """Take an output; people are shown it soon, and a flood is ended."""
        if self.outputs.is_flood and self._stopping is None:
            self._drains = True
            self._stopping = asyncio.create_task(self._escalate("the cell put out too much", _DRAIN_SECONDS))
        if self.outputs.add(message.type, message.content) and self._on_outputs and not self._changed:
            self._changed = True
            asyncio.get_running_loop().call_later(_SHOW_SECONDS, self._show)

    def show(self) -> None:
        """Show people all its outputs."""
        if self._on_outputs is not None:
            self._on_outputs(self.outputs.snapshot())

    def end(self) -> None:
        """End it; no reply of its own will come."""
        if not self.idle.done():
            self._replied.set()
            self.idle.set_result(None)

    def fail(self, reason: str) -> None:
        """Fail it: its kernel is gone."""
        if not self.idle.done():
            self.idle.set_exception(KernelDiedError(reason))
            self.idle.exception()  # whoever waited may be gone: that is no error of its own

    async def _escalate(self, reason: str, seconds: float = INTERRUPT_SECONDS) -> None:
        """Escalate: fail its calls, interrupt twice, kill."""
        self._is_interrupted = True
        self._connection.tell("rlm_stop", {"cell": self.id, "reason": reason})
        for patience in (seconds / 3, seconds * 2 / 3):
            await self._connection.process.interrupt()
            done, _ = await asyncio.wait([self.idle], timeout=patience)
            if done:
                return
        await self._connection.process.kill()
        self._connection.died(None)

    def _show(self) -> None:
        self._changed = False
        if not self.idle.done():
            self.show()
