"""The one place where a model is called: checked against its window, reserved, capped, settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.errors import ContextWindowError, LimitReached, ModelError
from rlm_jupyter.ledger import Entry, Ledger
from rlm_jupyter.models import Model
from rlm_jupyter.tokens import estimate_tokens, fitting_chars, most_tokens
from rlm_jupyter.types import Message, Reply, Usage

_MORE_ROOM = 4
"""A reply that came back empty is asked for again with so many times its cap."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, and what it took: empty attempts before it included."""

    reply: Reply
    usage: Usage
    cost: float | None
    seconds: float


async def ask(
    model: Model,
    messages: Sequence[Message],
    ledger: Ledger,
    *,
    max_output_tokens: int,
    input_tokens: int | None = None,
    most_input_tokens: int | None = None,
    on_text: Callable[[str], None] | None = None,
    logprobs: bool = False,
) -> Answered:
    """One visible reply of `model`.

    Parameters
    ----------
    messages
        The conversation; ends with a user message.
    max_output_tokens
        The reply's cap; less where the window leaves less.
    input_tokens
        `estimate_tokens_of(messages)`, where the caller knows it: to count a long conversation anew for every
        iteration would make a run quadratic.
    most_input_tokens
        A bound of the input that is tighter than one token a byte, where the caller knows one.
    on_text
        Called with each piece of the reply as it arrives.
    logprobs
        Ask for `token_confidence` as well.

    Raises
    ------
    ContextWindowError
        The messages don't fit the model's window; refused before the call, with the numbers.
    LimitReached
        A limit leaves no room for the request, or the time is up.
    ModelError
        The provider failed for good, or replied with nothing that can be seen.
    """
    started = time.monotonic()
    if input_tokens is None:
        input_tokens = estimate_tokens_of(messages)
    cap = _check_window(model, messages, input_tokens, max_output_tokens)
    most = most_tokens(messages) if most_input_tokens is None else most_input_tokens
    usage, cost = Usage(), 0.0
    known = True
    while True:
        reserved = Usage(input_tokens=most, output_tokens=cap)
        async with ledger.request(tokens=reserved.total_tokens, cost=model.cost(reserved)) as entry:
            reply = await _complete(model, messages, ledger, entry, cap, on_text, logprobs)
        usage += entry.usage
        known = known and entry.cost is not None
        cost += entry.cost or 0.0
        if reply.text.strip():
            return Answered(reply, usage, cost if known else None, time.monotonic() - started)
        wider = min(cap * _MORE_ROOM, max(model.window - estimate_tokens_of(messages), cap))
        if reply.finish != "length" or wider == cap:
            raise ModelError(_nothing_visible(model, reply, cap))
        cap = wider


def estimate_tokens_of(messages: Sequence[Message]) -> int:
    """About how many tokens a conversation has."""
    return sum(estimate_tokens(message.content) for message in messages)


def _check_window(model: Model, messages: Sequence[Message], tokens: int, max_output_tokens: int) -> int:
    """The cap that fits beside the input, which has about `tokens`."""
    cap = min(max_output_tokens, max(model.window // 4, 1))
    if tokens + cap > model.window:
        chars = sum(len(message.content) for message in messages)
        raise ContextWindowError(
            f"the prompt has {chars:,} characters (about {tokens:,} tokens), and {model.name} reads {model.window:,} "
            f"tokens with its reply: send pieces of at most {fitting_chars(model.window, cap):,} characters",
            tokens=tokens,
            window=model.window,
        )
    return cap


async def _complete(
    model: Model,
    messages: Sequence[Message],
    ledger: Ledger,
    entry: Entry,
    cap: int,
    on_text: Callable[[str], None] | None,
    logprobs: bool,
) -> Reply:
    """One request, settled whatever becomes of it."""
    written = 0

    def count(text: str) -> None:
        nonlocal written
        written += estimate_tokens(text)
        if on_text is not None:
            on_text(text)

    deadline = asyncio.timeout(ledger.seconds_left)
    try:
        async with deadline:
            extra: dict[str, Any] = {"logprobs": True} if logprobs and getattr(model, "tells_logprobs", False) else {}
            reply = await model.complete(messages, max_output_tokens=cap, on_text=count, **extra)
    except BaseException as error:
        # what broke off, or was stopped, is billed all the same, and nobody says how much
        if written or isinstance(error, asyncio.CancelledError | TimeoutError):
            spent = Usage(input_tokens=estimate_tokens_of(messages), output_tokens=written)
            entry.settle(spent, model.cost(spent))
        if isinstance(error, TimeoutError) and deadline.expired():
            raise LimitReached("the time is up", stop_reason="seconds") from None
        raise
    entry.settle(reply.usage, model.cost(reply.usage))
    return reply


def _nothing_visible(model: Model, reply: Reply, cap: int) -> str:
    thought = f", {reply.usage.reasoning_tokens:,} of them thinking" if reply.usage.reasoning_tokens else ""
    if reply.finish == "refusal":
        return f"{model.name} refused to reply."
    return (
        f"{model.name} replied with nothing that can be seen ({reply.usage.output_tokens:,} tokens written{thought}; "
        f"cap {cap:,}). Raise Limits(max_output_tokens=…), or choose another model."
    )
