"""`ScriptedModel`: plays replies that were written beforehand, for tests, guides and demonstrations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rlm_jupyter.models.abilities import Abilities
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.tokens import DEFAULT_WINDOW, estimate_tokens, tokens_of
from rlm_jupyter.types.values import Message, Reply, Usage

Answered = str | Reply
Scripted = Answered | Exception | Callable[[Sequence[Message]], Answered]
"""A reply; an exception is raised; a function is given the messages."""
Sub = Callable[[str], str] | Sequence[Scripted]
"""Answers sub-calls: a function of the prompt, or replies in order."""

_PIECES = 4
_LEAST_CHARS = 40
"""Of a piece."""
_ECHO_CHARS = 60


class ScriptedModel:
    """A model that says what it was told to.

    Parameters
    ----------
    replies
        For conversations (those with a system message), in order.
    sub
        For sub-calls (a lone user message): a function of the prompt, or replies in order; by default the
        beginning of the prompt comes back.
    name
        `provider/model`.
    latency
        Seconds before each reply.
    window
        Tokens, input and output.
    sees
        It is sent images, as a model that sees is; it says what it was told to all the same.

    Attributes
    ----------
    requests
        The messages of every request so far, in order of arrival.
    """

    def __init__(
        self,
        replies: Sequence[Scripted],
        *,
        sub: Sub | None = None,
        name: str = "scripted/replies",
        latency: float = 0.0,
        window: int = DEFAULT_WINDOW,
        sees: bool = False,
    ) -> None:
        self.name = name
        self.window = window
        self.latency = latency
        if sees:
            self.abilities = Abilities(sees=True)
        self.requests: list[tuple[Message, ...]] = []
        self._count = len(replies)
        self._replies = iter(replies)
        self._sub = sub if callable(sub) or sub is None else iter(sub)

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name}, {self._count} replies>"

    def cost(self, usage: Usage) -> float | None:
        """Return nothing: it costs nothing."""
        return 0.0

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Hold nothing: there is nothing to hold."""
        yield

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Say the next reply; `on_text` gets it in a few pieces.

        Raises
        ------
        ModelError
            No reply is left; or whatever exception stands in the script.
        """
        self.requests.append(tuple(messages))
        # Taken before the wait, so that concurrent requests get their replies in order of arrival.
        scripted = self._next(messages)
        await asyncio.sleep(self.latency)
        if isinstance(scripted, Exception):
            raise scripted
        said = scripted(messages) if callable(scripted) else scripted
        reply = said if isinstance(said, Reply) else Reply(said, self.name, _estimate(messages, said))
        if on_text is not None:
            for number, piece in enumerate(_pieces(reply.text)):
                if number:
                    await asyncio.sleep(0)
                on_text(piece)
        return reply

    def _next(self, messages: Sequence[Message]) -> Scripted:
        is_subcall = len(messages) == 1 and messages[0].role == "user"
        if not is_subcall:
            return self._take(self._replies, "replies")
        if self._sub is None:
            return f"(scripted) {messages[0].content[:_ECHO_CHARS]}"
        if callable(self._sub):
            return self._sub(messages[0].content)
        return self._take(self._sub, "sub-call replies")

    def _take(self, replies: Iterator[Scripted], what: str) -> Scripted:
        try:
            return next(replies)
        except StopIteration:
            raise ModelError(
                f"{self.name}: no {what} are left in the script at request {len(self.requests)}."
            ) from None


def load_script(path: str) -> ScriptedModel:
    """Read a script: a JSON list of replies, or `{"replies": [...], "subcalls": [...], "sees": true}`.

    Raises
    ------
    ConfigurationError
        The file can't be read, or holds something else.
    """
    name = f"scripted/{path}"
    try:
        script = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        where = Path(path).expanduser().absolute()
        meant = f" Did you mean {name}.json?" if where.with_name(f"{where.name}.json").is_file() else ""
        raise ConfigurationError(
            f"{name}: the script can't be read, {where}: {error.strerror or error}.{meant}"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"{name}: the script is no JSON: {error}.") from None
    parts = script if isinstance(script, dict) else {"replies": script}
    if unknown := sorted(set(parts) - {"replies", "subcalls", "sees"}):
        raise ConfigurationError(f"{name}: a script has replies, subcalls and sees, and no {', '.join(unknown)}.")
    replies, subcalls, sees = parts.get("replies"), parts.get("subcalls"), parts.get("sees", False)
    is_texts = all(part is None or _is_texts(part) for part in (replies, subcalls))
    if replies is None or not is_texts or not isinstance(sees, bool):
        raise ConfigurationError(
            f'{name}: a script is a list of texts, or {{"replies": [texts], "subcalls": [texts], "sees": true}}.'
        )
    return ScriptedModel(replies, sub=subcalls, name=name, sees=sees)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _pieces(text: str) -> Iterator[str]:
    size = max(-(-len(text) // _PIECES), _LEAST_CHARS)
    return (text[start : start + size] for start in range(0, len(text), size))


def _estimate(messages: Sequence[Message], text: str) -> Usage:
    return Usage(sum(map(tokens_of, messages)), estimate_tokens(text))
