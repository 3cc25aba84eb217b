"""`ShellRequests`: requests of the Jupyter protocol that wait for a kernel's reply on its shell channel."""

from __future__ import annotations

import asyncio
from typing import Any

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.types.errors import KernelDiedError


class ShellRequests:
    """The requests of one kernel, which may be started again: none waits for a kernel that is gone."""

    def __init__(self) -> None:
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def send(
        self, connection: Connection, msg_type: str, content: dict[str, Any], *, seconds: float
    ) -> dict[str, Any] | None:
        """Send a request and return the content of its reply; `None` on a timeout, as while a cell runs.

        Parameters
        ----------
        connection
            To the kernel.
        msg_type, content
            As the protocol names them: `complete_request`, for one.
        seconds
            The timeout.

        Raises
        ------
        KernelDiedError
            There is no kernel any more.
        """
        msg_id = connection.next_id()
        reply = self._replies[msg_id] = asyncio.get_running_loop().create_future()
        try:
            connection.send_request(msg_id, msg_type, content)
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            return None
        finally:
            del self._replies[msg_id]

    async def execute_silently(self, connection: Connection, source: str, *, seconds: float, problem: str) -> None:
        """Execute a line that leaves no output and no number; a kernel that does not finish it in time is ended.

        Parameters
        ----------
        connection
            To the kernel.
        source
            What is executed.
        seconds
            The timeout.
        problem
            Why the kernel was ended then.

        Raises
        ------
        KernelDiedError
            It was ended, or is gone.
        """
        content = {"code": source, "silent": True, "store_history": False, "allow_stdin": False}
        if await self.send(connection, "execute_request", content, seconds=seconds) is None:
            await connection.kill(problem)

    def receive(self, message: WireMessage) -> bool:
        """Take a message of the shell channel; return whether it is the reply to one of these requests."""
        reply = self._replies.get(message.parent_id)
        if reply is None or reply.done():
            return False
        reply.set_result(message.content)
        return True

    def fail(self, reason: str) -> None:
        """Let all that wait fail: the kernel is gone."""
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(KernelDiedError(reason))
                reply.exception()  # whoever waited may be gone: that is no error of its own
