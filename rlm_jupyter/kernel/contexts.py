"""`Contexts`: what a kernel was given as `context`, and the one that is started in its place is given again."""

from __future__ import annotations

import logging

from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.shared_texts import SharedText, SharedTexts
from rlm_jupyter.types.errors import ContextError, KernelDiedError, KernelError
from rlm_jupyter.types.values import PacksContext

log = logging.getLogger(__name__)
_NAME = "context_"


class Contexts:
    """The contexts of one kernel, in order.

    Parameters
    ----------
    texts
        Has the large ones in memory once for several kernels; `None`: each is sent. To be left by `release`.
    """

    def __init__(self, texts: SharedTexts | None = None) -> None:
        self._given: list[PacksContext] = []
        self._texts: dict[int, str | None] = {}
        self._shared = texts
        self._taken: list[SharedText] = []

    def copy(self) -> Contexts:
        """Return the same for a fork of the kernel, which has them."""
        copied = Contexts(self._shared)
        copied._given = self._given.copy()
        for text in self._taken:
            copied.expect(text.context)
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

    def expect(self, context: PacksContext) -> SharedText | None:
        """Have a large text ready for when it is given; return what shares it, where that is possible."""
        if self._shared is None:
            return None
        found = next((text for text in self._taken if text.is_of(context)), None)
        if found is None and (found := self._shared.take(context)) is not None:
            self._taken.append(found)
        return found

    def release(self) -> None:
        """Need no shared text any more, and take none. A second time does nothing."""
        shared, taken = self._shared, self._taken
        self._shared, self._taken = None, []
        if shared is not None:
            for text in taken:
                shared.leave(text)

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
        try:
            if not await self._share(connection, context, name):
                await connection.request("rlm_context", {"name": name, "kind": context.kind}, context.buffers)
        except KernelDiedError:
            raise
        except KernelError as error:
            raise ContextError(
                f"The kernel can't load the context ({context.info.type_name}): {error}. "
                "Pass a str, list, dict or data frame, or make its module importable there."
            ) from error
        self._given.append(context)

    async def _share(self, connection: Connection, context: PacksContext, name: str) -> bool:
        """Let the kernel have a text that others have, too; return whether that was possible.

        Where it was not, though the kernel lives, it is no other time: no text is kept for it then.
        """
        if (shared := self.expect(context)) is None:
            return False
        if (form := await shared.pass_to(connection.process.pass_text)) is not None:
            try:
                await connection.request("rlm_context", {"name": name, "kind": "shared", "form": form})
            except KernelDiedError:
                raise
            except KernelError as error:
                log.info("Texts are sent to the kernel: %s", error)
            else:
                return True
        if not connection.process.has_ended:  # the next one may well share it
            self.release()
        return False

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
