"""How large a request may be: what fits the model's window, and what the limits leave."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace

from rlm_jupyter.models import Model
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.types.errors import ContextWindowError
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.tokens import fitting_chars, tokens_of
from rlm_jupyter.types.values import Message, Usage

_LEAST_REPLY = 512
"""Tokens: a reply is capped at no less, however little is left of the limits; then the request is refused."""


def most_cost(model: Model, usage: Usage) -> float | None:
    """Return the most that this can cost: input may have to be written to the provider's cache, at another price."""
    plain = model.cost(usage)
    cached = model.cost(replace(usage, cache_write_tokens=usage.input_tokens))
    return None if plain is None or cached is None else max(plain, cached)


def estimate_tokens_of(messages: Sequence[Message]) -> int:
    """Return about how many tokens a conversation has."""
    return sum(map(tokens_of, messages))


def check_window(model: Model, messages: Sequence[Message], tokens: int, max_output_tokens: int) -> int:
    """Return the cap that fits beside the input, which has about `tokens`."""
    cap = min(max_output_tokens, max(model.window // 4, 1))
    if tokens + cap > model.window:
        chars = sum(len(message.content) for message in messages)
        images = sum(isinstance(part, Image) for message in messages for part in message.parts)
        shown = f" and {images:,} image{'' if images == 1 else 's'}" if images else ""
        fitting = fitting_chars(model.window, cap)
        raise ContextWindowError(
            f"the prompt has {chars:,} characters{shown} (about {tokens:,} tokens), and {model.name} reads "
            f"{model.window:,} tokens with its reply: send pieces of at most {fitting:,} characters",
            tokens=tokens,
            window=model.window,
        )
    return cap


def affordable(model: Model, most: int, cap: int, ledger: Ledger, held_back: HeldBack | None) -> int:
    """Return the cap that the limits leave beside an input of at most `most` tokens, not below `_LEAST_REPLY`."""
    least = min(cap, _LEAST_REPLY)
    excess = ledger.overbilling.factor(model.name)
    if (tokens := ledger.tokens_left(held_back)) is not None:
        cap = max(min(cap, int(tokens / excess) - most), least)
    if (money := ledger.money_left(held_back)) is None:
        return cap

    def fits(output: int) -> bool:
        return (most_cost(model, Usage(input_tokens=most, output_tokens=output)) or 0.0) * excess <= money

    if fits(cap):
        return cap
    return bisect.bisect_left(range(least, cap), True, key=lambda output: not fits(output + 1)) + least
