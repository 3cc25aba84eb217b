"""The account of one run of a batch: reserved and settled in that of the batch as well, which is never overshot."""

from __future__ import annotations

import asyncio
import random

import pytest

from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.part_ledger import PartLedger
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage


@pytest.mark.parametrize("seed", range(5))
async def test_what_all_use_together_never_exceeds_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    whole = Ledger(Limits(max_tokens=1_000, max_cost=1.0))
    refused: list[str] = []

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None

        def on_refused(refusal: LimitReached) -> None:
            refused.append(refusal.stop_reason)
            task.cancel()

        part = PartLedger(Limits(), whole, on_refused)
        for _ in range(200):
            most = chance.randrange(10, 120)
            async with part.reserve(Usage(output_tokens=most), most / 1_000) as entry:
                await asyncio.sleep(chance.random() / 1_000)
                used = chance.randrange(1, most + 1)
                entry.add(Usage(output_tokens=used), used / 1_000)
            assert whole.usage.total_tokens <= 1_000

    ended = await asyncio.gather(*(run() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    assert len(refused) == 20
    assert 880 <= whole.usage.total_tokens <= 1_000
    assert whole.cost is not None
    assert whole.cost <= 1.0 + 1e-9  # a sum of floats


async def test_a_run_is_held_to_its_own_limits_too_and_the_whole_does_not_mind() -> None:
    whole = Ledger(Limits(max_tokens=1_000))
    part = PartLedger(Limits(max_tokens=50), whole, lambda refusal: pytest.fail(str(refusal)))
    with pytest.raises(LimitReached, match="60 tokens, and 50 of 50 are left"):
        async with part.reserve(Usage(output_tokens=60)):
            pass
    assert whole.usage.total_tokens == 0


async def test_all_ask_a_provider_at_one_pace_but_nobody_fails_for_the_deadline_of_another() -> None:
    whole = Ledger(Limits())
    one, other = (PartLedger(Limits(max_seconds=seconds), whole, lambda _: None) for seconds in (1.0, 100.0))
    assert one.rate_limiter("p") is other.rate_limiter("p") is whole.rate_limiter("p")
    rate_limiter = whole.rate_limiter("p")
    waiting = asyncio.get_running_loop().create_future()
    rate_limiter._queue.append(waiting)
    rate_limiter._rests_until = whole._clock() + 10
    with pytest.raises(LimitReached):
        one.check_rest(rate_limiter)
    assert not waiting.done()
    other.check_rest(rate_limiter)
