"""The one place where a model is called."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.request import complete
from rlm_jupyter.types.errors import ContextWindowError, LimitReached, ModelError, ModelUnavailableError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Message, Reply, Usage

USER = [Message("user", "hello")]


def empty(reasoning: int = 0) -> Reply:
    return Reply("", "m", Usage(5, 100, reasoning_tokens=reasoning), "length")


def sub(*replies: Reply | str) -> ScriptedModel:
    return ScriptedModel([], sub=list(replies))


async def test_an_empty_reply_is_asked_for_again_with_more_room_and_billed() -> None:
    ledger = Ledger(Limits())
    answered = await complete(sub(empty(), Reply("here", "m", Usage(5, 7))), USER, ledger, max_output_tokens=100)
    assert answered.reply.text == "here"
    assert answered.usage == ledger.usage == Usage(10, 107)


async def test_a_reply_that_stays_empty_is_named() -> None:
    model = sub(*[empty(90)] * 12)
    with pytest.raises(ModelError, match=r"nothing that can be seen .* 90 of them thinking"):
        await complete(model, USER, Ledger(Limits()), max_output_tokens=100)
    assert len(model.requests) < 12


async def test_a_prompt_over_the_window_is_refused_with_the_numbers_before_the_call() -> None:
    model = ScriptedModel([], window=1000)
    with pytest.raises(
        ContextWindowError, match=r"40,000 characters .* reads 1,000 tokens .* at most 2,\d00 characters"
    ):
        await complete(model, [Message("user", "x" * 40_000)], Ledger(Limits()), max_output_tokens=100)
    assert not model.requests


async def test_the_deadline_stops_a_reply() -> None:
    model = ScriptedModel([], latency=30)
    with pytest.raises(LimitReached, match="time is up"):
        await complete(model, USER, Ledger(Limits(max_seconds=0.2)), max_output_tokens=100)


async def test_what_broke_off_is_billed_by_estimate() -> None:
    class Breaks(ScriptedModel):
        async def complete(
            self, messages: Sequence[Message], *, max_output_tokens: int, on_text: object = None
        ) -> Reply:
            assert callable(on_text)
            on_text("twelve chars")
            raise ModelError("broke off")

    ledger = Ledger(Limits())
    with pytest.raises(ModelError):
        await complete(Breaks([]), USER, ledger, max_output_tokens=100)
    assert ledger.usage == Usage(2, 3)


async def test_cancelling_bills_the_input() -> None:
    ledger = Ledger(Limits())
    asking = asyncio.create_task(complete(ScriptedModel([], latency=30), USER, ledger, max_output_tokens=100))
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ledger.usage.input_tokens == 2


async def test_writing_to_a_providers_cache_is_reserved_too() -> None:
    class Caches(ScriptedModel):
        def cost(self, usage: Usage) -> float:
            return (usage.input_tokens + usage.output_tokens + 0.25 * usage.cache_write_tokens) / 1000

    async def hello(max_cost: float) -> str:
        ledger = Ledger(Limits(max_cost=max_cost))
        return (await complete(Caches([]), USER, ledger, max_output_tokens=100)).reply.text

    # 21 tokens are read at most, and 100 written
    assert await hello(0.127)
    with pytest.raises(LimitReached, match=r"may cost \$0\.1263, and \$0\.1250"):
        await hello(0.125)


async def test_a_request_that_failed_is_sent_again_as_often_as_it_may_help() -> None:
    failing: list[Reply | Exception] = [ModelUnavailableError("down", retry_after=0.01, retries=2)] * 2
    again = ScriptedModel([], sub=[*failing, Reply("up", "m")])
    assert (await complete(again, USER, Ledger(Limits()), max_output_tokens=100)).reply.text == "up"
    with pytest.raises(ModelUnavailableError, match="down"):
        await complete(ScriptedModel([], sub=failing * 2), USER, Ledger(Limits()), max_output_tokens=100)
