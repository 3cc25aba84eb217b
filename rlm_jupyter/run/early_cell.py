"""`EarlyCell`: the first cell of a reply, executed while the model still writes the rest.

Only the kernel is early: what is recorded and told of the cell comes in its turn, behind the reply, and so do the
answers to its calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from rlm_jupyter.types.values import CellRun, Output

_OnOutputs = Callable[[tuple[Output, ...]], None]


class EarlyCell:
    """A cell that is executed already, and whose turn has not come.

    Parameters
    ----------
    reply
        The reply up to the end of its block.
    source, executed
        As for `cells.execute`.
    execute
        Executes it; given what is told its outputs.
    """

    def __init__(
        self,
        reply: str,
        source: str,
        executed: str | None,
        execute: Callable[[_OnOutputs], Coroutine[Any, Any, CellRun]],
    ) -> None:
        self.reply, self.source, self.executed = reply, source, executed
        self.is_due = asyncio.Event()
        """Set when its turn has come: until then no call of it is answered."""
        self.begun = time.monotonic()
        self._outputs: tuple[Output, ...] = ()
        self._on_outputs: _OnOutputs | None = None
        self._execution = asyncio.create_task(execute(self._hear))

    async def take_over(self, on_outputs: _OnOutputs) -> CellRun:
        """Return what comes of it, now that its turn has come; all that it shows is told."""
        self._on_outputs = on_outputs
        if self._outputs:
            on_outputs(self._outputs)
        self.is_due.set()
        return await self._execution

    async def stop(self) -> CellRun:
        """Interrupt it, unless it is over; return what came of it."""
        self._execution.cancel()
        await asyncio.wait([self._execution])
        is_over = not self._execution.cancelled() and self._execution.exception() is None
        if is_over:
            return self._execution.result()
        return CellRun("interrupted", self._outputs, seconds=time.monotonic() - self.begun)

    def _hear(self, outputs: tuple[Output, ...]) -> None:
        self._outputs = outputs
        if self._on_outputs is not None:
            self._on_outputs(outputs)
