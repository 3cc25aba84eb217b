"""`Contexts`: what a kernel was given as `context`, and the one that is started in its place is given again."""

from __future__ import annotations

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.types.errors import ContextError, KernelDiedError, KernelError
from rlm_jupyter.types.values import PacksContext


class Contexts:
    """The contexts of one kernel, in order."""

    def __init__(self) -> None:
        self._given: list[PacksContext] = []

    def copy(self) -> Contexts:
        """Return the same for a fork of the kernel, which has them."""
        copied = Contexts()
        copied._given = self._given.copy()
        return copied

    async def give(self, connection: Connection, context: PacksContext) -> None:
        """Make it `context`; the first is `context_0` too, the next `context_1`, and so on.

        Raises
        ------
        ContextError
            The kernel can't load it; the text says why.
        """
        packed = context.packed()
        if packed.kind == "none":
            return
        name = f"context_{len(self._given)}"
        try:
            await connection.request("rlm_context", {"name": name, "kind": packed.kind}, packed.buffers)
        except KernelDiedError:
            raise
        except KernelError as error:
            raise ContextError(
                f"The kernel can't load the context ({packed.info.type_name}): {error}. "
                "Pass a str, list, dict or data frame, or make its module importable there."
            ) from error
        self._given.append(context)

    async def give_again(self, connection: Connection) -> None:
        """Give a new kernel what the one before it had; where one fails, the next kernel is given all again.

        Raises
        ------
        ContextError
            The kernel can't load one.
        """
        before, self._given = self._given, []
        try:
            for context in before:
                await self.give(connection, context)
        except BaseException:
            self._given = before
            raise
