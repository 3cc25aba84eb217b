"""`billed`: one request, reserved, sent until the provider takes it, settled."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.repetition import Repetition
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.deadline import naming
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.request_size import estimate_tokens_of, most_cost
from rlm_jupyter.types.errors import LimitReached, ModelUnavailableError, RLMError, UnusableReplyError
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import Message, Reply, Usage

_SHOWN_CHARS = 40
MOST_RATE_LIMIT_SECONDS = 600.0
"""Seconds for which a provider may refuse everything; then a refusal is a failure."""


@dataclass(slots=True, eq=False)
class Request:
    """One request, with the most that it can use."""

    model: Model
    messages: Sequence[Message]
    most: Usage
    on_text: Callable[[str], None]
    logprobs: bool
    until: Callable[[], Callable[[str], bool]] | None
    temperature: float | None
    schema: Mapping[str, Any] | None = None
    kept: Callable[[], str] | None = None
    """Returns what of the reply counts, although it has broken off; empty: nothing does."""


async def billed(request: Request, ledger: Ledger, bill: Bill, held_back: HeldBack | None) -> Reply:
    """Return one reply: reserved before, settled after, whatever becomes of it."""
    cost = most_cost(request.model, request.most)
    async with ledger.reserve(request.most, cost, model=request.model.name, held_back=held_back) as entry:
        try:
            return await _send_when_allowed(request, ledger, entry)
        finally:
            bill.add(entry.usage, entry.cost)


async def _send_when_allowed(request: Request, ledger: Ledger, entry: Bill) -> Reply:
    """Return one reply; wait and retry while the provider is overloaded or limits the rate."""
    model = request.model
    abilities = abilities_of(model)
    rate_limiter = ledger.rate_limiter(abilities.provider or model.name, abilities.slots)
    refusal, tries = None, 0
    try:
        while True:
            try:
                with naming(refusal, tries):
                    async with ledger.turn(rate_limiter, again=tries > 0):
                        ledger.delays.put(request, "")
                        return await _send_once(request, ledger, entry)
            except ModelUnavailableError as error:
                if not error.overloaded or entry.usage.total_tokens:
                    raise
                refusal, tries = error, tries + 1
                with naming(refusal, tries):
                    ledger.check_rest(rate_limiter)
                if max(rate_limiter.rest, rate_limiter.refused_for) > MOST_RATE_LIMIT_SECONDS:
                    text = f"{error} It refuses everything, and wants to be asked again in {rate_limiter.rest:.0f} s."
                    rate_limiter.fail(lambda: ModelUnavailableError(text))  # noqa: B023  it is called at once
                    raise ModelUnavailableError(text) from error
                rest = math.ceil(rate_limiter.rest)
                ledger.delays.put(request, f"{model.name}: {error.brief}, trying again in {rest} s")
    finally:
        ledger.delays.put(request, "")


def _extra(request: Request, idle: float | None) -> dict[str, Any]:
    """Return the optional keyword arguments of `complete` that this model supports."""
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
    if request.schema is not None and abilities.takes_schema:
        extra["schema"] = request.schema
    return extra


async def _send_once(request: Request, ledger: Ledger, entry: Bill) -> Reply:
    """Send it once, and put on the bill what was used."""
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
            entry.add(spent, model.cost(spent))
        if request.kept is not None and isinstance(error, RLMError | TimeoutError) and (kept := request.kept()):
            return Reply(kept, model.name, entry.usage, "broken_off", estimated=True)
        raise
    entry.add(reply.usage, model.cost(reply.usage))
    if remark := abilities_of(model).remark:
        ledger.remarks[model.name] = remark
    return reply
