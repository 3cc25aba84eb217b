"""`AttachedKernel`: a kernel that somebody else started and is in the middle of a cell, which we attach to for one run.

Its guest executes our cells inside that cell (`guest/attached_cells.py`). It is neither restarted nor ended from here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import zmq

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.guest.lent_channels import lent_channels
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.types.errors import ConfigurationError, KernelDiedError, KernelStartError
from rlm_jupyter.types.values import AnswerSubcall, PacksContext

_JOIN_SECONDS = 20.0
"""How long an attached kernel may take to answer."""
_HELLO_SECONDS = 0.05
_LOST_SECONDS = 5.0
"""After the news that a cell has ended, how long its last outputs may take to come."""
_DEAF = (
    "the cell could not be interrupted, so the run ended without it; its code still runs in this notebook's kernel: "
    "interrupt that once more, or restart it"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a kernel's channels are, and what signs their messages."""

    shell: str
    control: str
    iopub: str
    key: bytes
    token: str
    """What the kernel's guest takes us by."""

    @classmethod
    def of(cls, kernel: Any, token: str) -> Self:
        """Return how to reach the kernel that this code runs in, and the guest in it; see `lent_channels`.

        Raises
        ------
        ConfigurationError
            It has none that can be joined.
        """
        from ipykernel.kernelapp import IPKernelApp

        app = IPKernelApp.instance() if IPKernelApp.initialized() else None
        if app is None or app.kernel is not kernel:
            raise ConfigurationError("This kernel can't be joined from another process. Leave --here out.")
        if getattr(app, "curve_secretkey", None) is not None:
            raise ConfigurationError(
                "The channels of this kernel are encrypted, so it can't be joined. Leave --here out."
            )
        ip = "127.0.0.1" if app.transport == "tcp" and app.ip in {"", "*", "0.0.0.0"} else app.ip
        if app.transport == "ipc":
            ip = str(Path(ip).absolute())
        between = "-" if app.transport == "ipc" else ":"
        shell = f"{app.transport}://{ip}{between}{app.shell_port}"
        try:
            return cls(shell, **lent_channels(kernel, app.transport, ip), key=bytes(kernel.session.key), token=token)
        except (OSError, zmq.ZMQError) as error:
            raise ConfigurationError(f"This kernel can't be joined: {error}. Leave --here out.") from error


class AttachedProcess(KernelProcess):
    """The process of an attached kernel: it is interrupted by its guest, and never ended."""

    def __init__(self, address: Address, interrupt: Callable[[], None]) -> None:
        self._address = address
        self._interrupt = interrupt
        self._on_death: Callable[[int | None], None] = lambda code: None

    @property
    def key(self) -> bytes:
        """The connection's signing key."""
        return self._address.key

    @property
    def is_forked(self) -> bool:
        """It is not ours to fork."""
        return False

    @property
    def token(self) -> str:
        """What the kernel's guest takes us by."""
        return self._address.token

    def url(self, channel: str) -> str:
        """Return where a channel can be reached."""
        url: str = getattr(self._address, channel)
        return url

    def on_death(self, tell: Callable[[int | None], None]) -> None:
        """Call `tell` when whoever lent the kernel says that it is gone."""
        self._on_death = tell

    def gone(self) -> None:
        """Take note that its lender says that it is gone."""
        self._on_death(0)

    async def interrupt(self) -> None:
        """Interrupt the cell that runs for us."""
        self._interrupt()

    async def kill(self) -> None:
        """Do nothing: it is not ours to end."""


class AttachedConnection(Connection):
    """A connection to an attached kernel."""

    process: AttachedProcess

    @classmethod
    async def join(cls, process: AttachedProcess, **receivers: Callable[[Any], None]) -> Self:
        """Connect to a kernel whose guest waits for us.

        Raises
        ------
        KernelStartError
            It does not answer.
        """
        connection = cls(process, **receivers)
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                await connection.request("rlm_attach", {"token": process.token})
                while not connection._iopub_open.is_set():
                    # its answer comes on IOPub too, once our subscription is there
                    await connection.request("rlm_hello", {})
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_HELLO_SECONDS):
                            await connection._iopub_open.wait()
                await connection.request("rlm_hello", {})
        except (TimeoutError, KernelDiedError) as error:
            await connection.close("it did not answer")
            raise KernelStartError("This notebook's kernel does not answer on its control channel.") from error
        except BaseException:
            await connection.close("it did not answer")
            raise
        return connection

    def send_cell(self, msg_id: str, source: str) -> None:
        """Hand the guest a cell."""
        self.check()
        self._control.send(self._codec.encode("rlm_execute", {"source": source}, msg_id=msg_id))

    def died(self, code: int | None) -> None:
        """End everything: the kernel is gone, or a cell in it can't be interrupted (`code` is `None`)."""
        if self._ended is None:
            reason = _DEAF if code is None else "this notebook's kernel is gone"
            self._fail(reason)
            self._tell_death(reason)


class AttachedKernel(Kernel):
    """An attached kernel; made by `await AttachedKernel.join(...)`."""

    can_restart = can_fork = False

    def __init__(self, answer_subcall: AnswerSubcall, address: Address, on_stop: Callable[[], None]) -> None:
        super().__init__(answer_subcall, {})
        self._on_stop = on_stop
        self._process = AttachedProcess(address, self._interrupt_cell)
        self._within: str | None = None
        """The parent of the outputs of the cell that runs: the user's cell, or itself."""

    @classmethod
    async def join(cls, answer_subcall: AnswerSubcall, address: Address, on_stop: Callable[[], None]) -> Self:
        """Join a kernel whose guest waits for us.

        Parameters
        ----------
        on_stop
            Called where a cell ends because the user has interrupted theirs.

        Raises
        ------
        KernelStartError
            It does not answer.
        """
        kernel = cls(answer_subcall, address, on_stop)
        await kernel._connect()
        return kernel

    def gone(self) -> None:
        """Fail what waits for the kernel: whoever lent it says that it is gone."""
        self._process.gone()

    async def set_context(self, context: PacksContext) -> None:
        """Do nothing: the guest has it, as the object that it is."""

    async def restart(self) -> None:
        """Refuse: what is in it is not ours.

        Raises
        ------
        KernelDiedError
            Always.
        """
        raise KernelDiedError(self._connection.ended or "this notebook's kernel is not ours to restart")

    async def _connect(self) -> None:
        self._connection = await AttachedConnection.join(
            self._process,
            on_shell=self._on_shell,
            on_iopub=self._on_iopub,
            on_call=self._on_call,
            on_death=self._fail_cell,
        )

    def _interrupt_cell(self) -> None:
        if self._cell is not None:
            self._tell("rlm_interrupt", {"cell": self._cell.id})

    def _on_call(self, message: WireMessage) -> None:
        if message.type == "rlm_executed":
            # its outputs come on another channel, and may be lost there
            asyncio.get_running_loop().call_later(_LOST_SECONDS, self._give_up, message.content["cell"])
        else:
            self._subcalls.receive(message)

    def _on_iopub(self, message: WireMessage) -> None:
        cell = self._cell
        if cell is None:
            return
        if message.type == "rlm_cell" and message.parent_id == cell.id:
            if message.content["state"] == "busy":
                self._within = message.content["within"]
                cell.outputs.execution_count = message.content["execution_count"]
            else:
                if message.content["stopped"]:
                    self._on_stop()
                self._end_cell(cell.id)
        elif message.type != "status" and self._within is not None and message.parent_id in (self._within, cell.id):
            cell.take_output(message)

    def _give_up(self, cell_id: str) -> None:
        """End a cell whose outputs have not all come."""
        cell = self._cell
        if cell is not None and cell.id == cell_id:
            cell.outputs.is_incomplete = True
            self._end_cell(cell_id)

    def _end_cell(self, cell_id: str) -> None:
        cell = self._cell
        if cell is not None and cell.id == cell_id and not cell.idle.done():
            self._within = None
            cell.end()
