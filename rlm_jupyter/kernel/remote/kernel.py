"""`RemoteKernel`: a kernel on a Jupyter server, started there for one run and ended with it.

Nothing is installed there but ipykernel: our guest is sent over as source. Keys, limits and the record stay here. What
keeps its code from the machine is that server's affair: neither our sandbox nor forks of a kernel are to be had there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

from rlm_jupyter.kernel.connection import START_SECONDS, Connection
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.kernel.remote.link import Link
from rlm_jupyter.kernel.remote.rest import Rest
from rlm_jupyter.kernel.remote.server import JupyterServer
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError, KernelStartError
from rlm_jupyter.types.values import AnswerSubcall, PacksContext

log = logging.getLogger(__name__)

_INTERRUPT_SECONDS = 5.0
"""How long an interrupt waits for a lost connection."""
_END_RESTS = (0.3, 1.0, 3.0)
"""Seconds between the tries to end a kernel."""
_PROGRESS_SECONDS = 1.0
OnProgress = Callable[[str], None]
"""Told in words how far a context has been sent."""


class RemoteProcess(KernelProcess):
    """A kernel's process on a server."""

    def __init__(self, server: JupyterServer, rest: Rest, kernel_id: str) -> None:
        self._rest, self._kernel_id = rest, kernel_id
        self._server = server
        self._on_death: Callable[[int | None], None] = lambda code: None
        self._is_ended = False
        self.link = Link(server, rest, kernel_id, self._gone)
        self.reason = ""
        """Why it can't be reached any more."""

    @classmethod
    async def start_on(cls, server: JupyterServer, kernel_name: str | None) -> Self:
        """Have a server start a kernel.

        Raises
        ------
        KernelStartError
            It does not; one line says why.
        """
        rest = Rest(server)
        starting = asyncio.create_task(rest.start(kernel_name))
        try:
            kernel_id = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # it may be started all the same, and nobody would end it
            await run_to_completion(lambda: _undo(rest, starting))
            raise
        except BaseException:
            await rest.close()
            raise
        return cls(server, rest, kernel_id)

    @property
    def key(self) -> bytes:
        """The server signs what it hands on."""
        return b""

    @property
    def is_forked(self) -> bool:
        """A server starts each anew."""
        return False

    def channel(self, name: str, on_message: Callable[[list[Any]], None]) -> Any:
        """Open one of its channels."""
        return self.link.channel(name, on_message)

    def on_death(self, tell: Callable[[int | None], None]) -> None:
        """Call `tell` when it is gone, or can't be reached any more."""
        self._on_death = tell

    async def interrupt(self) -> None:
        """Have its server interrupt it; where the connection is lost, as soon as there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self.link.opened()
        await self._rest.interrupt(self._kernel_id)

    async def _kill(self) -> None:
        """End it: where the server can't be reached, it ends itself once it has heard nothing for long."""
        if self._is_ended:
            return
        await self.link.close()
        for rest in (*_END_RESTS, None):
            if await self._rest.end(self._kernel_id):
                break
            if rest is None:
                log.warning("The kernel %s on %s could not be ended.", self._kernel_id, self._server.url)
            else:
                await asyncio.sleep(rest)
        self._is_ended = True
        await self._rest.close()

    def _gone(self, reason: str) -> None:
        self.reason = reason
        self._on_death(None)


async def _undo(rest: Rest, starting: asyncio.Task[str]) -> None:
    with contextlib.suppress(KernelStartError):
        await rest.end(await starting)
    await rest.close()


class RemoteConnection(Connection):
    """The connection to a kernel on a server."""

    process: RemoteProcess

    @classmethod
    async def launch(
        cls, server: JupyterServer, kernel_name: str | None, **receivers: Callable[[Any], None]
    ) -> RemoteConnection:
        """Start a kernel there, and wait until its guest answers.

        Raises
        ------
        KernelStartError
            It did not come up.
        """
        connection = cls(await RemoteProcess.start_on(server, kernel_name), **receivers)
        await connection.come_up()
        return connection

    async def come_up(self) -> None:
        """Wait until the guest answers on every channel; the kernel is ended where it does not."""
        self.process.link.open()
        try:
            async with asyncio.timeout(START_SECONDS):
                await self.request("rlm_attach", {})
                self.send_request(self.next_id(), "kernel_info_request", {})
                await self._iopub_open.wait()
                await self._shell_open.wait()
        except (TimeoutError, KernelDiedError) as error:
            why = str(error) or f"it did not answer within {START_SECONDS:.0f} s"
            await self.close("it did not come up")
            raise KernelStartError(f"The kernel did not come up: {why}.") from error
        except BaseException:
            await self.close("it did not come up")
            raise

    def died(self, code: int | None) -> None:
        """End everything: the kernel is gone, out of reach, or was killed over a cell."""
        if self._ended is None:
            reason = self.process.reason or "the kernel's process ended"
            self._fail(reason)
            self._tell_death(reason)

    def _within(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return self.process.link.within(seconds)


class RemoteKernel(Kernel):
    """A kernel on a Jupyter server; made by `await RemoteKernel.launch(...)`."""

    _connection: RemoteConnection

    def __init__(
        self,
        answer_subcall: AnswerSubcall,
        server: JupyterServer,
        kernel_name: str | None = None,
        on_progress: OnProgress = lambda text: None,
    ) -> None:
        super().__init__(answer_subcall, {})
        self._server, self._kernel_name, self._on_progress = server, kernel_name, on_progress

    @classmethod
    async def launch(
        cls,
        answer_subcall: AnswerSubcall,
        server: JupyterServer,
        kernel_name: str | None = None,
        on_progress: OnProgress = lambda text: None,
    ) -> Self:
        """Start a kernel on a server and wait until it answers.

        Parameters
        ----------
        answer_subcall
            Answers the sub-calls of its cells.
        server
            Where it is started.
        kernel_name
            A kernelspec of that server's. Default: its own default.
        on_progress
            Told how far a large context has been sent.

        Raises
        ------
        KernelStartError
            The server can't be reached, refuses, or has no such kernelspec, or the kernel did not come up.
        """
        kernel = cls(answer_subcall, server, kernel_name, on_progress)
        await kernel._connect()
        return kernel

    can_fork = False

    async def fork(self, answer_subcall: AnswerSubcall) -> Self:
        """Refuse.

        Raises
        ------
        ForkRefusedError
            Always.
        """
        raise ForkRefusedError("it is on a server")

    async def set_context(self, context: PacksContext) -> None:
        """Do as `Kernel.set_context`, and tell how far it is sent."""
        async with self._telling():
            await super().set_context(context)

    @contextlib.asynccontextmanager
    async def _telling(self) -> AsyncIterator[None]:
        link = self._connection.process.link

        async def tell() -> None:
            most = 0
            while True:
                await asyncio.sleep(_PROGRESS_SECONDS)
                most = max(most, link.waiting)
                if link.waiting > 1:
                    self._on_progress(f"The context is sent to the kernel: {most - link.waiting} of {most} MiB")

        telling = asyncio.create_task(tell())
        try:
            yield
        finally:
            telling.cancel()

    async def _connect(self) -> None:
        self._connection = await RemoteConnection.launch(self._server, self._kernel_name, **self._receivers())
