"""`Contexts`: what a kernel was given as `context`, and the one that is started in its place is given again."""

from __future__ import annotations

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.types.errors import ContextError, KernelDiedError, KernelError
from rlm_jupyter.types.values import PacksContext, is_same

_NAME = "context_"


class Contexts:
    """The contexts of one kernel, in order."""

    def __init__(self) -> None:
        self._given: list[PacksContext] = []
        self._texts: dict[int, str | None] = {}

    def copy(self) -> Contexts:
        """Return the same for a fork of the kernel, which has them."""
        copied = Contexts()
        copied._given = self._given.copy()
        return copied

    def named(self, name: object) -> tuple[PacksContext, str] | None:
        """Return the context that the kernel calls so, and its text; `None`: there is none, or it is no text.

        The kernel is not trusted: `name` may be anything.
        """
        numbers = {f"{_NAME}{number}": number for number in range(len(self._given))}
        number = numbers.get(name) if isinstance(name, str) else None
        if number is None:
            return None
        if number not in self._texts:
            self._texts[number] = self._given[number].text()
        text = self._texts[number]
        return None if text is None else (self._given[number], text)

    async def give(self, connection: Connection, context: PacksContext) -> None:
        """Make it `context`; the first is `context_0` too, the next `context_1`, and so on.

        Raises
        ------
        ContextError
            The kernel can't load it; the text says why.
        """
        if context.kind == "none":
            return
        name = f"{_NAME}{len(self._given)}"
        held = connection.process.held
        try:
            if held is not None and is_same(held, context):
                await connection.request("rlm_context", {"name": name, "kind": "held"})
            else:
                await connection.request("rlm_context", {"name": name, "kind": context.kind}, context.buffers)
        except KernelDiedError:
            raise
        except KernelError as error:
            raise ContextError(
                f"The kernel can't load the context ({context.info.type_name}): {error}. "
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
        self._texts.clear()  # a context that can't be given again leaves its number to the next
        try:
            for context in before:
                await self.give(connection, context)
        except BaseException:
            self._given = before
            raise
