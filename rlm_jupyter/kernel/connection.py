"""`Connection`: a kernel process and its channels, from the moment it answers until it is closed or dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Self

from rlm_jupyter.kernel.guest.codec import Codec, Frame, WireMessage
from rlm_jupyter.kernel.launch import launched, place_of
from rlm_jupyter.kernel.process import KernelProcess
from rlm_jupyter.types.errors import KernelDiedError, KernelError, KernelStartError

log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long a kernel may take to come up."""
_RESTS = (0.25, 1.0)
"""Seconds before a kernel that was killed as it started is launched again."""
_NUDGE_SECONDS = 0.02
_GREETED_SECONDS = 1.0
_UNHEARD_SECONDS = (0.3, 1.0, 3.0)
"""After how long the kernel is told to look for a request that it has said nothing of."""

Receive = Callable[[WireMessage], None]


class Connection:
    """Made by `await Connection.open(...)`.

    Parameters
    ----------
    process
        The kernel's.
    on_shell, on_iopub
        Told each message of these channels.
    on_call
        Told each message of the guest's own accord: sub-calls.
    on_death
        Told why, once, when the process ends by itself.
    """

    def __init__(
        self,
        process: KernelProcess,
        *,
        on_shell: Receive,
        on_iopub: Receive,
        on_call: Receive,
        on_death: Callable[[str], None],
    ) -> None:
        self.process, self._codec = process, (codec := Codec(process.key, "rlm"))
        self._on_call = on_call
        self._tell_death = on_death
        self._requests: dict[str, asyncio.Future[WireMessage]] = {}
        self._ended: str | None = None
        self._killed = False
        self._unheard: str | None = None
        """The last request on shell, until the kernel says anything of it."""
        self._nudge: asyncio.TimerHandle | None = None
        self._iopub_open = asyncio.Event()
        self._shell_open = asyncio.Event()

        def passing(receive: Receive, heard: asyncio.Event | None = None) -> Callable[[list[Any]], None]:
            def pass_on(frames: list[Any]) -> None:
                try:
                    if (message := codec.decode(frames)) is not None:
                        if heard is not None:
                            heard.set()
                            if message.parent_id == self._unheard:
                                self._unheard = None
                        receive(message)
                except Exception:  # the kernel is not trusted: what it makes up must not stop the reading
                    log.exception("a message of the kernel's can't be read")

            return pass_on

        self._shell = process.channel("shell", passing(on_shell, self._shell_open))
        self._control = process.channel("control", passing(self._on_control))
        self._iopub = process.channel("iopub", passing(on_iopub, self._iopub_open))
        process.on_death(self.died)

    @classmethod
    async def open(cls, launch: Mapping[str, Any], **receivers: Callable[[Any], None]) -> Self:
        """Launch a kernel and wait until it answers on every channel.

        One that is killed as it starts, as where memory runs short, is launched again after a rest.

        Raises
        ------
        KernelStartError
            It did not come up.
        """
        for rest in _RESTS:
            try:
                return await cls._open(launch, receivers)
            except KernelStartError as error:
                if not error.killed:
                    raise
            await asyncio.sleep(rest)
        return await cls._open(launch, receivers)

    @classmethod
    async def _open(cls, launch: Mapping[str, Any], receivers: Mapping[str, Callable[[Any], None]]) -> Self:
        async with place_of(launch):
            connection = cls(await launched(launch), **receivers)
            await connection.come_up()
        return connection

    async def come_up(self) -> None:
        """Wait until the kernel answers on every channel; it is ended where it does not.

        Raises
        ------
        KernelStartError
            It did not come up.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                self.send_request(self.next_id(), "rlm_greet", {})
                await self.request("rlm_attach", {})
                while not self._iopub_open.is_set():
                    # ipykernel 6 says no welcome: ask for status messages until one comes through
                    self._control.send(self._codec.encode("kernel_info_request", {}))
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_NUDGE_SECONDS):
                            await self._iopub_open.wait()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GREETED_SECONDS):
                        await self._shell_open.wait()
                if not self._shell_open.is_set():  # an older guest knows no greeting
                    self.send_request(self.next_id(), "kernel_info_request", {})
                    await self._shell_open.wait()
            await self.process.seal()
        except (TimeoutError, KernelDiedError) as error:
            said = self.process.stderr_tail
            await self.close("it did not come up")
            why = str(error) or f"it did not answer within {START_SECONDS:.0f} s"
            why += f" ({said.splitlines()[-1]})" if said else ""
            raise KernelStartError(
                f"The kernel did not come up: {why}. Check that its Python has ipykernel (pip install ipykernel).",
                killed=self._killed,
            ) from error
        except BaseException:
            await self.close("it did not come up")
            raise

    @property
    def ended(self) -> str | None:
        """Why the kernel can't be used any more; `None` while it can."""
        return self._ended

    def next_id(self) -> str:
        """Return an id for an execute request."""
        return self._codec.next_id()

    def send_cell(self, msg_id: str, source: str) -> None:
        """Send an execute request; return at once."""
        content = {
            "code": source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        self.send_request(msg_id, "execute_request", content)

    def send_request(self, msg_id: str, msg_type: str, content: dict[str, Any]) -> None:
        """Send a request of the Jupyter protocol on the shell channel.

        ipykernel 7.0 to 7.3 may miss a request that arrives while a reply is sent: a raw send consumes the
        edge-triggered notification, and no later request triggers another. So one without any sign of life is nudged on
        control.
        """
        self.check()
        self._shell.send(self._codec.encode(msg_type, content, msg_id=msg_id))
        self._unheard = msg_id
        self._nudge_later(msg_id, _UNHEARD_SECONDS)

    async def request(
        self,
        msg_type: str,
        content: dict[str, Any],
        buffers: Sequence[Frame] = (),
        seconds: float | None = None,
    ) -> WireMessage:
        """Ask the guest something on control, also while a cell runs.

        Parameters
        ----------
        seconds
            How long it may take; then the kernel is ended. For what may run code of the model's, such as the
            `__str__` of a draft.

        Raises
        ------
        KernelError
            The guest says that it failed, and why.
        KernelDiedError
            There is no kernel any more.
        """
        self.check()
        msg_id = self._codec.next_id()
        future = self._requests[msg_id] = asyncio.get_running_loop().create_future()
        try:
            self._control.send(self._codec.encode(msg_type, content, msg_id=msg_id, buffers=buffers))
            try:
                async with self._within(seconds):
                    done: WireMessage = await future
            except TimeoutError:
                self.check()
                await self.kill(f"the kernel did not answer within {seconds:.0f} s and was ended")
        finally:
            del self._requests[msg_id]
        if not isinstance(done.content, dict):  # the kernel is not trusted, and knows the key
            raise KernelError("the kernel can't be read any more: a cell has changed how it answers")
        if "error" in done.content:
            raise KernelError(done.content["error"])
        return done

    def _within(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Return what raises `TimeoutError` after so long."""
        return asyncio.timeout(seconds)

    def tell(self, msg_type: str, content: dict[str, Any], buffers: Sequence[Frame] = ()) -> None:
        """Send the guest a message that it does not answer; nothing happens when it is gone."""
        if self._ended is None:
            self._control.send(self._codec.encode(msg_type, content, buffers=buffers))

    def check(self) -> None:
        """Raise `KernelDiedError` if there is no kernel any more."""
        if self._ended is not None:
            raise KernelDiedError(self._ended)

    def died(self, code: int | None) -> None:
        """End everything: the process ended by itself, or was killed over a cell."""
        how = "" if code is None else f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        if self._ended is None:
            reason = f"the kernel's process ended{how}"
            self._killed = code is not None and code < 0
            self._fail(reason)
            self._tell_death(reason)

    async def kill(self, problem: str) -> NoReturn:
        """End the process, which is of no use any more.

        Raises
        ------
        KernelDiedError
            Always; `problem` is its text.
        """
        await self.process.kill()
        self.died(None)
        raise KernelDiedError(problem) from None

    async def close(self, reason: str) -> None:
        """Fail what waits, close the channels, end the process at once. A second time does nothing."""
        self._fail(reason)
        for channel in (self._shell, self._control, self._iopub):
            channel.close()
        await self.process.kill()

    def _nudge_later(self, msg_id: str, rests: Sequence[float]) -> None:
        def nudge() -> None:
            if self._unheard == msg_id and self._ended is None:
                self.tell("rlm_look", {})
                self._nudge_later(msg_id, rests[1:])

        self._forget_nudge()
        if rests:
            self._nudge = asyncio.get_running_loop().call_later(rests[0], nudge)

    def _forget_nudge(self) -> None:
        if self._nudge is not None:
            self._nudge.cancel()
            self._nudge = None

    def _fail(self, reason: str) -> None:
        self._forget_nudge()
        self._ended = self._ended or reason
        for future in self._requests.values():
            if not future.done():
                future.set_exception(KernelDiedError(reason))
                future.exception()  # whoever waited may be gone: that is no error of its own

    def _on_control(self, message: WireMessage) -> None:
        if message.type == "rlm_done":
            future = self._requests.get(message.parent_id)
            if future is not None and not future.done():
                future.set_result(message)
        elif message.type.startswith("rlm_"):
            self._on_call(message)
