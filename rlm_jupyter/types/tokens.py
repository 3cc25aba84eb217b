"""How many tokens a text has, without a tokenizer: an estimate to plan with, and a bound to reserve with."""

from __future__ import annotations

from collections.abc import Iterable

from rlm_jupyter.types.values import Message

DEFAULT_WINDOW = 128_000
"""Tokens; taken for a model whose window nothing is known of."""
BYTES_PER_TOKEN = 4
"""Of English prose; code and tables have fewer."""
_MESSAGE_TOKENS = 16
"""At most, for the role and the separators that a provider puts around a message."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens `text` has: low rather than high, so that what may fit is not refused."""
    return -(-nbytes(text) // BYTES_PER_TOKEN)


def most_tokens(messages: Iterable[Message]) -> int:
    """Return how many tokens the messages can have at most: no tokenizer makes more than one of a byte."""
    return sum(nbytes(message.content) + message.image_tokens + _MESSAGE_TOKENS for message in messages)


def tokens_of(message: Message) -> int:
    """Return about how many tokens a message has; its images count as many as they can take."""
    return estimate_tokens(message.content) + message.image_tokens


def fitting_chars(window: int, output_tokens: int) -> int:
    """Return how many characters of a prompt fit a window with room for the reply: cautious (3 a token), round."""
    chars = max(window - output_tokens, window // 4) * 3
    digits = max(len(str(chars)) - 2, 0)
    return int(chars // 10**digits * 10**digits)


def nbytes(text: str) -> int:
    """Return the length of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
