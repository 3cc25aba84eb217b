"""The one way to a model: its window checked, the reply capped, a failure retried, an unusable reply resampled."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.models import Model
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.billed_request import MOST_RATE_LIMIT_SECONDS, Request, billed
from rlm_jupyter.run.budget.deadline import naming
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.request_size import affordable, check_window, estimate_tokens_of
from rlm_jupyter.types.errors import (
    LimitReached,
    ModelError,
    ModelUnavailableError,
    UnusableReplyError,
)
from rlm_jupyter.types.tokens import most_tokens
from rlm_jupyter.types.values import Message, Reply, Usage

_MORE_ROOM = 4
"""A reply that was cut off with nothing to be seen is resampled with so many times its cap."""
_MOST_UNUSABLE = 2
"""How often a reply without an end, or an empty one, is resampled: the next may be another."""
_REST_SECONDS = 0.5
"""Before a failed request is retried; twice as long each time (exponential backoff)."""
_LONGEST_REST = 8.0


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply, and what it took: empty attempts before it included."""

    reply: Reply
    usage: Usage
    cost: float | None
    seconds: float


async def complete(
    model: Model,
    messages: Sequence[Message],
    ledger: Ledger,
    *,
    max_output_tokens: int,
    input_tokens: int | None = None,
    most_input_tokens: int | None = None,
    on_text: Callable[[str], None] | None = None,
    logprobs: bool = False,
    until: Callable[[], Callable[[str], bool]] | None = None,
    temperature: float | None = None,
    schema: Mapping[str, Any] | None = None,
    may_be_empty: bool = False,
    bill: Bill | None = None,
    held_back: HeldBack | None = None,
    kept: Callable[[], str] | None = None,
) -> Completion:
    """Request one visible reply of `model`: a request that failed is retried, an unusable reply resampled.

    Parameters
    ----------
    messages
        The conversation; ends with a user message.
    max_output_tokens
        The reply's cap; less where the window or the limits leave less.
    input_tokens
        `estimate_tokens_of(messages)`, where the caller knows it: to count a long conversation anew for every
        iteration would make a run quadratic.
    most_input_tokens
        A bound of the input that is tighter than one token a byte, where the caller knows one.
    on_text
        Called with each piece of the reply as it arrives; with none any more where it broke off and is asked for
        again.
    logprobs
        Ask for `token_confidence` as well.
    until
        Makes, for each attempt, what is given each piece of the reply and says when the rest is not needed; a provider
        that can then closes the request.
    temperature
        Where it can be set (`takes_temperature`); by default what the model is set to, or the server's own.
    schema
        A JSON schema that the reply is to keep, for a provider that can see to it (`takes_schema`). A help, no promise.
    may_be_empty
        A reply without a word, that is no refusal and was not cut off, is one too.
    bill
        Takes what was billed, also where there is no reply in the end.
    held_back
        By the run whose own reply this is, which may use it.
    kept
        Returns what of a reply that breaks off counts, so that it is not asked for again; empty: nothing.

    Raises
    ------
    ContextWindowError
        The messages don't fit the model's window; refused before the call, with the numbers.
    LimitReached
        A limit leaves no room for the request, or the time is up.
    UnusableReplyError
        It replied, again and again, with nothing that can be seen, or with one piece without end.
    ModelError
        The provider failed for good.
    """
    started = time.monotonic()
    input_tokens = estimate_tokens_of(messages) if input_tokens is None else input_tokens
    cap = check_window(model, messages, input_tokens, max_output_tokens)
    most = most_tokens(messages) if most_input_tokens is None else most_input_tokens
    bill = Bill() if bill is None else bill
    heard = muted = False

    def hear(text: str) -> None:
        nonlocal heard
        heard = True
        if on_text is not None and not muted:
            on_text(text)

    failures = unusable = 0
    failure: ModelUnavailableError | None = None
    while True:
        capped = affordable(model, most, cap, ledger, held_back)
        room = Usage(input_tokens=most, output_tokens=capped)
        request = Request(model, messages, room, hear, logprobs, until, temperature, schema, kept)
        try:
            with naming(failure, failures):
                reply = await billed(request, ledger, bill, held_back)
        except LimitReached:
            if affordable(model, most, cap, ledger, held_back) >= capped:
                raise
            continue  # others have used more while this one waited: a shorter reply may still fit
        except ModelUnavailableError as error:
            if failures >= error.retries:
                raise
            muted = heard  # what was shown of it stays; the next attempt is seen when it is there
            failure, failures = error, failures + 1
            with naming(failure, failures):
                await _back_off(ledger, model, failures, error)
            continue
        except UnusableReplyError:
            if unusable >= _MOST_UNUSABLE:
                raise
            muted, unusable = heard, unusable + 1
            continue
        if reply.text.strip() or (may_be_empty and reply.finish == "stop"):
            return Completion(reply, bill.usage, bill.cost, time.monotonic() - started)
        cap, unusable = _after_nothing(model, messages, reply, cap, unusable)


async def _back_off(ledger: Ledger, model: Model, failures: int, error: ModelUnavailableError) -> None:
    """Wait before a request that failed so many times is retried; other requests go on."""
    rest = min(_REST_SECONDS * 2 ** (failures - 1), _LONGEST_REST) * random.uniform(0.75, 1.0)
    if error.retry_after is not None:
        rest = min(error.retry_after, MOST_RATE_LIMIT_SECONDS)
    request = object()
    tries = f"({failures + 1} of {error.retries + 1})"
    ledger.delays.put(request, f"{model.name}: {error.brief}, trying again in {math.ceil(rest)} s {tries}")
    try:
        async with ledger.deadline.in_time():
            await asyncio.sleep(rest)
    finally:
        ledger.delays.put(request, "")


def _after_nothing(model: Model, messages: Sequence[Message], reply: Reply, cap: int, unusable: int) -> tuple[int, int]:
    """Return the cap with which a reply with nothing to be seen is resampled, and how many were unusable so far."""
    if reply.finish == "refusal":
        raise ModelError(f"{model.name} refused to reply.")
    if reply.finish == "length":
        wider = min(cap * _MORE_ROOM, max(model.window - estimate_tokens_of(messages), cap))
        if wider > cap:
            return wider, unusable
    elif unusable < _MOST_UNUSABLE:
        return cap, unusable + 1
    raise UnusableReplyError(_nothing_visible(model, reply, cap))


def _nothing_visible(model: Model, reply: Reply, cap: int) -> str:
    thought = f", {reply.usage.reasoning_tokens:,} of them thinking" if reply.usage.reasoning_tokens else ""
    return (
        f"{model.name} replied with nothing that can be seen ({reply.usage.output_tokens:,} tokens written{thought}; "
        f"cap {cap:,}). Raise Limits(max_output_tokens=…), or choose another model."
    )
