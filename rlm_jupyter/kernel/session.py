"""`Kernel`: a running IPython kernel that a model's code is executed in.

A started kernel is a value of this type; there is no half-started one. It executes a cell, hands values
in and out, can be interrupted at any moment, notices its own death and starts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.errors import ContextError, KernelDiedError, KernelError
from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.guest.codec import Frame, WireMessage, to_bytes, to_text
from rlm_jupyter.kernel.iopub import CellOutputs
from rlm_jupyter.kernel.subcalls import Subcalls
from rlm_jupyter.kernel.through import see_through
from rlm_jupyter.types import (
    AnswerSubcall,
    CellRun,
    CellStatus,
    Inspection,
    Output,
    PacksContext,
    Value,
    Variable,
)

REPLY_SECONDS = 0.2
"""How long `execute_reply` may come after `idle`; ipykernel loses it when an interrupt races with the end."""
INTERRUPT_SECONDS = 3.0
"""How long interrupted code may take to end before its kernel is killed."""
LOOK_SECONDS = 10.0
"""How long the kernel may take to describe itself, or to turn a variable into text."""
_SHOW_SECONDS = 0.05
"""How often people are shown a running cell's outputs, however many come."""
OnMessage = Callable[[str, dict[str, Any]], None]
"""Told type and content of each message that a running cell brings."""


@dataclass(slots=True)
class _Cell:
    """The cell that is running."""

    id: str
    idle: asyncio.Future[None]
    replied: asyncio.Event = field(default_factory=asyncio.Event)
    outputs: CellOutputs = field(default_factory=CellOutputs)
    on_outputs: Callable[[tuple[Output, ...]], None] | None = None
    on_message: OnMessage | None = None
    changed: bool = False
    interrupted: bool = False


class Kernel:
    """A running kernel; made by `await Kernel.start(...)`, closed by `await kernel.close()`."""

    def __init__(self, answer_subcall: AnswerSubcall, launch: Mapping[str, Any]) -> None:
        self._launch_options = launch
        self._subcalls = Subcalls(answer_subcall, self._tell, self.get)
        self._recorded: Value | None = None
        self._recorded_confidence: float | None = None
        self._resets = 0
        self._cell: _Cell | None = None
        self._contexts: list[PacksContext] = []
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._connection: Connection

    @classmethod
    async def start(
        cls,
        answer_subcall: AnswerSubcall,
        *,
        kernel_name: str | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Start a kernel and wait until it answers.

        Parameters
        ----------
        answer_subcall
            Answers the sub-calls of its cells.
        kernel_name, cwd, environment
            As for `KernelProcess.launch`.

        Raises
        ------
        ConfigurationError
            No such kernelspec or directory.
        KernelStartError
            It did not come up.
        """
        kernel = cls(answer_subcall, {"kernel_name": kernel_name, "cwd": cwd, "environment": environment})
        await kernel._connect()
        return kernel

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._connection.ended is None

    async def set_context(self, context: PacksContext) -> None:
        """Make it `context`; the first is `context_0` too, the next `context_1`, and so on.

        Raises
        ------
        ContextError
            The kernel can't load it; the text says why.
        """
        packed = context.packed()
        if packed.kind == "none":
            return
        name = f"context_{len(self._contexts)}"
        try:
            await self._connection.request("rlm_context", {"name": name, "kind": packed.kind}, packed.buffers)
        except KernelDiedError:
            raise
        except KernelError as error:
            raise ContextError(
                f"The kernel can't load the context ({packed.info.type_name}): {error}. "
                "Pass a str, list, dict or data frame, or make its module importable there."
            ) from error
        self._contexts.append(context)

    @property
    def recorded(self) -> Value | None:
        """The answer that FINAL recorded, fetched while it was called: it outlives its kernel."""
        return self._recorded

    @property
    def recorded_confidence(self) -> float | None:
        """What was stated with it, from 0 to 1."""
        return self._recorded_confidence

    async def begin(self) -> None:
        """A new prompt begins: forget a recorded answer, set up an empty `answer`."""
        self._forget()
        await self._connection.request("rlm_begin", {}, seconds=LOOK_SECONDS)

    async def reopen(self) -> None:
        """Forget a recorded answer, and nothing else: the next FINAL counts again."""
        self._forget()
        await self._connection.request("rlm_reopen", {}, seconds=LOOK_SECONDS)

    def _forget(self) -> None:
        self._recorded, self._recorded_confidence = None, None
        self._resets += 1

    async def put(self, name: str, value: str | list[Any]) -> None:
        """Set a variable that the model may change."""
        kind, data = ("str", to_bytes(value)) if isinstance(value, str) else ("pickle", pickle.dumps(value, protocol=5))
        await self._connection.request("rlm_put", {"name": name, "kind": kind}, [data], LOOK_SECONDS)

    async def get(self, name: str | None = None) -> Value:
        """Bring a variable here whole, or the recorded answer when no name is given.

        Runs no `__repr__` of a `str`, works while a cell runs, cuts nothing.

        Raises
        ------
        KernelError
            There is no such variable, or it can't become text.
        """
        if name is None and self._recorded is not None:
            return self._recorded
        resets = self._resets
        done = await self._connection.request("rlm_get", {"name": name}, seconds=None if name is None else LOOK_SECONDS)
        value = _value(done)
        if name is None and resets == self._resets:  # else it was asked for before a reset, and is over
            self._recorded, self._recorded_confidence = value, done.content["confidence"]
        return value

    async def inspect(self) -> Inspection:
        """What the kernel says of itself, and forgets the notices it hands over."""
        content = (await self._connection.request("rlm_inspect", {}, seconds=LOOK_SECONDS)).content
        return Inspection(
            answer=content["answer"],
            problem=content["problem"],
            draft_ready=content["draft_ready"],
            draft=content["draft"],
            restored=tuple(dict.fromkeys(content["restored"])),
            notices=tuple(content["notices"]),
            confidence=content["confidence"],
            variables=tuple(Variable(*variable) for variable in content["variables"]),
        )

    async def execute(
        self,
        source: str,
        *,
        cell_seconds: float | None = None,
        total_seconds: float | None = None,
        on_outputs: Callable[[tuple[Output, ...]], None] | None = None,
        on_message: OnMessage | None = None,
    ) -> CellRun:
        """Execute one cell.

        Parameters
        ----------
        source
            IPython source: magics, `!shell`, top-level `await` work.
        cell_seconds
            After so much time, waiting for sub-calls not counted, the cell is interrupted.
        total_seconds
            After so much time, everything counted, the cell is interrupted.
        on_outputs
            Called with all its outputs whenever they change, and once more when this call is cancelled.
        on_message
            Called with each message as it comes: the cell's own on IOPub, and its `execute_reply`.

        Returns
        -------
        CellRun
            Also when the cell failed, was interrupted, or took the kernel with it (`died`).
            Cancelling this call interrupts the cell first.
        """
        started = time.monotonic()
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cell = _Cell(self._connection.next_id(), idle, on_outputs=on_outputs, on_message=on_message)
        self._connection.execute(cell.id, source)
        self._cell = cell
        self._subcalls.begin_cell()
        try:
            await self._see_end(cell, started, cell_seconds, total_seconds)
        except asyncio.CancelledError:
            await self._stop_cell(cell, "the run was stopped")
            if on_outputs is not None:
                on_outputs(cell.outputs.snapshot())
            raise
        except KernelDiedError:
            return self._run(cell, "died", started)
        finally:
            await self._subcalls.cancel()
            self._cell = None
        status: CellStatus = "interrupted" if cell.interrupted else "error" if cell.outputs.failed else "ok"
        return self._run(cell, status, started)

    async def drop_calls(self) -> None:
        """Give up the sub-calls that are open; whoever waits for them is told."""
        await self._subcalls.cancel()

    async def interrupt(self) -> None:
        """Interrupt the running cell, if there is one; `execute` then returns."""
        if self._cell is not None:
            await self._stop_cell(self._cell, "the cell was interrupted")

    async def signal(self) -> None:
        """Send one interrupt, and kill nothing: a person's cell may take its time, and may go on."""
        if self._cell is not None:
            self._tell("rlm_stop", {"cell": self._cell.id, "reason": "the cell was interrupted"})
            await self._connection.process.interrupt()

    async def ask(self, msg_type: str, content: dict[str, Any], *, seconds: float) -> dict[str, Any] | None:
        """Put a request of the Jupyter protocol to the kernel's shell, and give the content of its reply.

        Returns
        -------
        dict or None
            `None`: it did not answer within `seconds`, as while a cell runs.

        Raises
        ------
        KernelDiedError
            There is no kernel any more.
        """
        msg_id = self._connection.next_id()
        reply = self._asked[msg_id] = asyncio.get_running_loop().create_future()
        try:
            self._connection.ask(msg_id, msg_type, content)
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            return None
        finally:
            del self._asked[msg_id]

    async def restart(self) -> None:
        """End the process and start a new one with the same contexts; every other variable is gone."""
        await self.close()
        await self._connect()
        contexts, self._contexts = self._contexts, []
        try:
            for context in contexts:
                await self.set_context(context)
        except BaseException:
            # never one that is alive and lacks its context; the next restart brings it
            self._contexts = contexts
            await self.close()
            raise

    async def close(self) -> None:
        """Give up what is open and end the kernel at once. A second time does nothing."""
        await see_through(self._close())

    async def _close(self) -> None:
        await self._subcalls.cancel()
        self._fail_cell("the kernel was closed")
        await self._connection.close("the kernel was closed")

    async def _connect(self) -> None:
        self._connection = await Connection.open(
            self._launch_options,
            on_shell=self._on_shell,
            on_iopub=self._on_iopub,
            on_call=self._subcalls.receive,
            on_death=self._fail_cell,
        )

    async def _see_end(
        self, cell: _Cell, started: float, cell_seconds: float | None, total_seconds: float | None
    ) -> None:
        """Until the cell is idle; interrupts it when its time is up."""
        while not cell.idle.done():
            elapsed = time.monotonic() - started
            own = math.inf if cell_seconds is None else cell_seconds - (elapsed - self._subcalls.waited)
            total = math.inf if total_seconds is None else total_seconds - elapsed
            if min(own, total) <= 0:
                seconds = cell_seconds if own <= 0 else total_seconds
                await self._stop_cell(cell, f"the cell took longer than {seconds:.3g} s")
                break
            # while sub-calls are open its own time stands still: look again when they are answered
            waiting = not self._subcalls.is_idle
            patience = total if waiting else min(own, total)
            idle = [cell.idle, *([self._subcalls.idle()] if waiting else [])]
            await asyncio.wait(idle, timeout=None if patience == math.inf else patience, return_when="FIRST_COMPLETED")
        await cell.idle
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cell.replied.wait(), REPLY_SECONDS)

    async def _stop_cell(self, cell: _Cell, reason: str) -> None:
        """The ladder: fail its calls, interrupt twice, kill."""
        if cell.idle.done():
            return
        cell.interrupted = True
        self._tell("rlm_stop", {"cell": cell.id, "reason": reason})
        for patience in (INTERRUPT_SECONDS / 3, INTERRUPT_SECONDS * 2 / 3):
            await self._connection.process.interrupt()
            done, _ = await asyncio.wait([cell.idle], timeout=patience)
            if done:
                return
        await self._connection.process.kill()
        self._connection.died(None)

    def _run(self, cell: _Cell, status: CellStatus, started: float) -> CellRun:
        outputs = cell.outputs
        return CellRun(status, outputs.snapshot(), outputs.execution_count, time.monotonic() - started)

    def _tell(self, msg_type: str, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        self._connection.tell(msg_type, content, buffers)

    def _on_shell(self, message: WireMessage) -> None:
        asked = self._asked.get(message.parent_id)
        if asked is not None and not asked.done():
            asked.set_result(message.content)
        elif self._cell is not None and message.parent_id == self._cell.id:
            self._cell.replied.set()
            if self._cell.on_message is not None:
                self._cell.on_message(message.type, message.content)

    def _on_iopub(self, message: WireMessage) -> None:
        cell = self._cell
        if cell is None or message.parent_id != cell.id:
            return
        if cell.on_message is not None:
            cell.on_message(message.type, message.content)
        if message.type == "status":
            if message.content["execution_state"] == "idle" and not cell.idle.done():
                cell.idle.set_result(None)
        else:
            self._show_output(cell, message)

    def _show_output(self, cell: _Cell, message: WireMessage) -> None:
        if cell.outputs.add(message.type, message.content) and cell.on_outputs and not cell.changed:
            cell.changed = True
            asyncio.get_running_loop().call_later(_SHOW_SECONDS, self._show, cell)

    @staticmethod
    def _show(cell: _Cell) -> None:
        cell.changed = False
        if cell.on_outputs is not None and not cell.idle.done():
            cell.on_outputs(cell.outputs.snapshot())

    def _fail_cell(self, reason: str) -> None:
        if self._cell is not None and not self._cell.idle.done():
            self._cell.idle.set_exception(KernelDiedError(reason))
            self._cell.idle.exception()  # whoever waited may be gone: that is no error of its own
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(KernelDiedError(reason))
                asked.exception()


def _value(done: WireMessage) -> Value:
    text = to_text(done.buffers[0])
    if done.content["type_name"] == "str":
        return Value(text, text, is_json=True)
    try:
        data, is_json = (json.loads(bytes(done.buffers[1])), True) if len(done.buffers) > 1 else (None, False)
    except ValueError:
        data, is_json = None, False
    return Value(text, data, is_json=is_json, type_name=done.content["type_name"])
