"""One account for the tree: never overshot, never stuck."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_jupyter.errors import LimitReached
from rlm_jupyter.ledger import Ledger
from rlm_jupyter.limits import Limits
from rlm_jupyter.types import Usage


async def use(ledger: Ledger, reserved: int, used: int, price: float = 0.001) -> str:
    try:
        async with ledger.request(tokens=reserved, cost=reserved * price) as entry:
            await asyncio.sleep(random.random() * 0.002)
            entry.settle(Usage(input_tokens=used), used * price)
    except LimitReached as limit:
        return limit.stop_reason
    return "served"


@settings(max_examples=40, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 200), st.floats(0, 1)), min_size=1, max_size=64),
    most=st.integers(1, 1000),
    concurrency=st.integers(1, 64),
    by_cost=st.booleans(),
)
def test_requests_at_once_never_overshoot_and_all_settle(
    requests: list[tuple[int, float]], most: int, concurrency: int, by_cost: bool
) -> None:
    limits = (
        Limits(max_cost=most * 0.001, concurrency=concurrency)
        if by_cost
        else Limits(max_tokens=most, concurrency=concurrency)
    )

    async def all_at_once() -> tuple[Ledger, list[str]]:
        ledger = Ledger(limits)
        uses = (use(ledger, reserved, int(reserved * share)) for reserved, share in requests)
        return ledger, await asyncio.wait_for(asyncio.gather(*uses), 10)

    ledger, outcomes = asyncio.run(all_at_once())
    assert ledger.usage.total_tokens <= most or by_cost
    assert ledger.cost is not None
    assert ledger.cost <= most * 0.001 + 1e-6 or not by_cost
    assert ledger._reserved_tokens == 0
    refused = [reserved for (reserved, _), outcome in zip(requests, outcomes, strict=True) if outcome != "served"]
    # refused only what no longer fits beside what was really used
    spent = ledger.usage.total_tokens
    assert all(reserved > most - spent for reserved in refused)


async def test_a_request_waits_for_room_instead_of_being_refused() -> None:
    ledger = Ledger(Limits(max_tokens=100))
    outcomes = await asyncio.gather(*(use(ledger, 80, 10) for _ in range(3)))
    assert outcomes == ["served", "served", "served"]
    assert await use(ledger, 80, 10) == "tokens"


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    ledger = Ledger(Limits(concurrency=3))
    flying = most = 0

    async def fly() -> None:
        nonlocal flying, most
        async with ledger.request(tokens=1, cost=0.0):
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.005)
            flying -= 1

    await asyncio.gather(*(fly() for _ in range(20)))
    assert most == 3


async def test_a_cancelled_request_gives_its_reservation_back() -> None:
    ledger = Ledger(Limits(max_tokens=100))

    async def hang() -> None:
        async with ledger.request(tokens=90, cost=0.0):
            await asyncio.sleep(60)

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(use(ledger, 50, 50))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    hanging.cancel()
    assert await asyncio.wait_for(waiting, 1) == "served"


async def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    ledger = Ledger(Limits())
    async with ledger.request(tokens=1, cost=None) as entry:
        entry.settle(Usage(1, 1), None)
    assert ledger.cost is None
    assert ledger.usage.total_tokens == 2


def test_sub_calls_are_counted_before_they_are_made() -> None:
    ledger = Ledger(Limits(max_subcalls=10))
    ledger.count_subcalls(8)
    with pytest.raises(LimitReached, match="5 sub-calls were asked for, and 2 of 10 are left"):
        ledger.count_subcalls(5)
    assert ledger.reached is None
    ledger.count_subcalls(2)
    with pytest.raises(LimitReached):
        ledger.count_subcalls(1)
    assert ledger.reached == "subcalls"


def test_the_time_is_measured() -> None:
    now = [0.0]
    ledger = Ledger(Limits(max_seconds=5), clock=lambda: now[0])
    assert ledger.seconds_left == 5
    now[0] = 6.0
    assert ledger.reached == "seconds"


async def test_kernels_of_each_depth_have_places_of_their_own() -> None:
    ledger = Ledger(Limits(max_kernels=3, max_depth=3))
    async with ledger.kernel(1), ledger.kernel(2):
        waiting = asyncio.create_task(ledger.kernel(1).__aenter__())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
