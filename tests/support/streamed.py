"""A model that writes scripted replies piece by piece, as a server sends them, as fast as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rlm_jupyter.models.abilities import Abilities
from rlm_jupyter.types.tokens import DEFAULT_WINDOW
from rlm_jupyter.types.values import Message, Reply, Usage


@dataclass(frozen=True)
class Breaks:
    """A reply that breaks off: `text` comes, then this happens."""

    text: str
    error: Exception


class Streamed:
    """Writes its replies, in order; a lone user message is a sub-call, and gets the beginning of its prompt.

    Parameters
    ----------
    replies
        For conversations.
    chars
        Of a piece.
    seconds
        Before each piece.
    """

    name = "streamed/replies"
    window = DEFAULT_WINDOW
    abilities = Abilities(closes_early=True)

    def __init__(self, replies: Sequence[str | Breaks], *, chars: int = 4, seconds: float = 0.0) -> None:
        self.requests: list[tuple[Message, ...]] = []
        self._replies = iter(replies)
        self._chars, self._seconds = chars, seconds

    def cost(self, usage: Usage) -> float | None:
        """Return a price that is easily counted: a thousandth of a dollar for a token that is written."""
        return usage.output_tokens / 1_000

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
        until: Callable[[str], bool] | None = None,
    ) -> Reply:
        """Write the next reply."""
        if len(messages) == 1:
            text = messages[0].content[:20]
            return Reply(text, self.name, Usage(1, 1))
        self.requests.append(tuple(messages))
        scripted = next(self._replies)
        text, written = scripted.text if isinstance(scripted, Breaks) else scripted, ""
        for start in range(0, len(text), self._chars):
            await asyncio.sleep(self._seconds)
            piece = text[start : start + self._chars]
            written += piece
            if on_text is not None:
                on_text(piece)
            if until is not None and until(piece):
                return Reply(written, self.name, Usage(10, len(written)), estimated=True)
        if isinstance(scripted, Breaks):
            raise scripted.error
        return Reply(text, self.name, Usage(10, len(text)))
