"""The one place where a model is called: checked against its window, reserved, capped, settled."""

from __future__ import annotations

import asyncio
import bisect
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.repetition import Repetition
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.last_reply import LastWord
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.types.errors import (
    ContextWindowError,
    LimitReached,
    ModelError,
    ModelUnavailableError,
    UnusableReplyError,
)
from rlm_jupyter.types.tokens import estimate_tokens, fitting_chars, most_tokens
from rlm_jupyter.types.values import Message, Reply, Usage

_MORE_ROOM = 4
"""A reply that came back empty is asked for again with so many times its cap."""
_MOST_UNUSABLE = 2
"""How often a reply without an end, or an empty one, is drawn again: the next may be another."""
_LEAST_REPLY = 512
"""Tokens: a reply is capped at no less, however little is left of the limits; then the request is refused."""
_SHOWN_CHARS = 40
_REST_SECONDS = 0.5
"""Before a request that failed is sent again; twice as long each time."""
_LONGEST_REST = 8.0
_PATIENCE = 600.0
"""Seconds for which a provider may refuse everything; then a refusal is a failure."""


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
    until: Callable[[], Callable[[str], bool]] | None = None,
    temperature: float | None = None,
    may_be_empty: bool = False,
    bill: Bill | None = None,
    own: LastWord | None = None,
) -> Answered:
    """One visible reply of `model`. What a provider could not serve is asked for again, as long as that may help.

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
    may_be_empty
        A reply without a word, that is no refusal and was not cut off, is one too.
    bill
        Takes what was billed, also where there is no reply in the end.
    own
        The last word of the run whose own reply this is, which may use what is held back for it.

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
    if input_tokens is None:
        input_tokens = estimate_tokens_of(messages)
    cap = _check_window(model, messages, input_tokens, max_output_tokens)
    most = most_tokens(messages) if most_input_tokens is None else most_input_tokens
    bill = Bill() if bill is None else bill
    heard = muted = False

    def hear(text: str) -> None:
        nonlocal heard
        heard = True
        if on_text is not None and not muted:
            on_text(text)

    failures = unusable = 0
    while True:
        capped = _affordable(model, most, cap, ledger, own)
        request = _Request(
            model, messages, Usage(input_tokens=most, output_tokens=capped), hear, logprobs, until, temperature
        )
        try:
            reply = await _billed(request, ledger, bill, own)
        except LimitReached:
            if _affordable(model, most, cap, ledger, own) >= capped:
                raise
            continue  # others have used more while this one waited: a shorter reply may still fit
        except ModelUnavailableError as error:
            if failures >= error.retries:
                raise
            muted = heard  # what was shown of it stays; the next attempt is seen when it is there
            await _rest(ledger, model, failures, error)
            failures += 1
            continue
        except UnusableReplyError:
            if unusable >= _MOST_UNUSABLE:
                raise
            muted, unusable = heard, unusable + 1
            continue
        if reply.text.strip() or (may_be_empty and reply.finish == "stop"):
            return Answered(reply, bill.usage, bill.cost, time.monotonic() - started)
        cap, unusable = _after_nothing(model, messages, reply, cap, unusable)


def takes_temperature(model: Model) -> bool:
    """Whether a request to it may say how much chance there is to be in the reply."""
    return abilities_of(model).takes_temperature


def most_cost(model: Model, usage: Usage) -> float | None:
    """Return the most that this can cost: input may have to be written to the provider's cache, at another price."""
    plain = model.cost(usage)
    cached = model.cost(replace(usage, cache_write_tokens=usage.input_tokens))
    return None if plain is None or cached is None else max(plain, cached)


def estimate_tokens_of(messages: Sequence[Message]) -> int:
    """About how many tokens a conversation has."""
    return sum(estimate_tokens(message.content) for message in messages)


def _check_window(model: Model, messages: Sequence[Message], tokens: int, max_output_tokens: int) -> int:
    """Return the cap that fits beside the input, which has about `tokens`."""
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


@dataclass(slots=True, eq=False)
class _Request:
    """One request, with the most that it can use."""

    model: Model
    messages: Sequence[Message]
    most: Usage
    on_text: Callable[[str], None]
    logprobs: bool
    until: Callable[[], Callable[[str], bool]] | None
    temperature: float | None


def _affordable(model: Model, most: int, cap: int, ledger: Ledger, own: LastWord | None) -> int:
    """Return the cap that the limits leave beside an input of at most `most` tokens, not below `_LEAST_REPLY`."""
    least = min(cap, _LEAST_REPLY)
    excess = ledger.overbilling.factor(model.name)
    if (tokens := ledger.tokens_left(own)) is not None:
        cap = max(min(cap, int(tokens / excess) - most), least)
    if (money := ledger.money_left(own)) is None:
        return cap

    def fits(output: int) -> bool:
        return (most_cost(model, Usage(input_tokens=most, output_tokens=output)) or 0.0) * excess <= money

    if fits(cap):
        return cap
    return bisect.bisect_left(range(least, cap), True, key=lambda output: not fits(output + 1)) + least


async def _billed(request: _Request, ledger: Ledger, bill: Bill, own: LastWord | None) -> Reply:
    """One reply, reserved and settled, whatever becomes of it."""
    cost = most_cost(request.model, request.most)
    async with ledger.request(request.most, cost, model=request.model.name, own=own) as entry:
        try:
            return await _served(request, ledger, entry)
        finally:
            bill.settle(entry.usage, entry.cost)


async def _served(request: _Request, ledger: Ledger, entry: Bill) -> Reply:
    """One reply; while the provider refuses everybody, it is waited for."""
    model = request.model
    abilities = abilities_of(model)
    pace = ledger.pace(abilities.provider or model.name, abilities.slots)
    again = False
    try:
        while True:
            try:
                async with ledger.turn(pace, again=again):
                    ledger.delays.put(request, "")
                    return await _complete(request, ledger, entry)
            except ModelUnavailableError as error:
                if not error.overloaded or entry.usage.total_tokens:
                    raise
                ledger.check_rest(pace)
                if max(pace.rest, pace.refused_for) > _PATIENCE:
                    text = f"{error} It refuses everything, and wants to be asked again in {pace.rest:.0f} s."
                    pace.fail(lambda: ModelUnavailableError(text))  # noqa: B023  it is called at once
                    raise ModelUnavailableError(text) from error
                ledger.delays.put(request, f"{model.name}: {error.brief}, trying again in {math.ceil(pace.rest)} s")
            again = True
    finally:
        ledger.delays.put(request, "")


def _extra(request: _Request, idle: float | None) -> dict[str, Any]:
    """Return what the model is told of a request beyond `Model.complete`, as far as it can take it."""
    abilities = abilities_of(request.model)
    extra: dict[str, Any] = {}
    if request.logprobs and abilities.gives_logprobs:
        extra["logprobs"] = True
    if request.until is not None and abilities.closes_early:
        extra["until"] = request.until()
    if abilities.takes_idle_seconds:
        extra["idle_seconds"] = math.inf if idle is None else idle
    if request.temperature is not None and abilities.takes_temperature:
        extra["temperature"] = request.temperature
    return extra


async def _complete(request: _Request, ledger: Ledger, entry: Bill) -> Reply:
    """Send it once."""
    model, messages, most = request.model, request.messages, request.most
    written = 0
    repetition = Repetition()

    def count(text: str) -> None:
        nonlocal written
        written += estimate_tokens(text)
        request.on_text(text)
        if piece := repetition.hear(text):
            shown = piece if len(piece) <= _SHOWN_CHARS else f"{piece[:_SHOWN_CHARS]}…"
            raise UnusableReplyError(f"{model.name} wrote {shown!r} over and over; its reply was cut off.")

    try:
        async with ledger.deadline.in_time():
            extra = _extra(request, ledger.limits.request_idle_seconds)
            reply = await model.complete(messages, max_output_tokens=most.output_tokens, on_text=count, **extra)
    except BaseException as error:
        # what broke off, or was stopped, is billed all the same, and nobody says how much
        if written or isinstance(error, asyncio.CancelledError | LimitReached | TimeoutError):
            read = min(estimate_tokens_of(messages), most.input_tokens)
            spent = Usage(input_tokens=read, output_tokens=min(written, most.output_tokens))
            entry.settle(spent, model.cost(spent))
        raise
    entry.settle(reply.usage, model.cost(reply.usage))
    if remark := abilities_of(model).remark:
        ledger.remarks[model.name] = remark
    return reply


async def _rest(ledger: Ledger, model: Model, failures: int, error: ModelUnavailableError) -> None:
    """Wait before a request that failed is sent again, all others going on."""
    rest = min(_REST_SECONDS * 2**failures, _LONGEST_REST) * random.uniform(0.75, 1.0)
    if error.retry_after is not None:
        rest = min(error.retry_after, _PATIENCE)
    request = object()
    tries = f"({failures + 2} of {error.retries + 1})"
    ledger.delays.put(request, f"{model.name}: {error.brief}, trying again in {math.ceil(rest)} s {tries}")
    try:
        async with ledger.deadline.in_time():
            await asyncio.sleep(rest)
    finally:
        ledger.delays.put(request, "")


def _after_nothing(model: Model, messages: Sequence[Message], reply: Reply, cap: int, unusable: int) -> tuple[int, int]:
    """With what cap a reply with nothing to be seen is asked for again, and how many there were by then."""
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
