"""One account for the tree: never overshot, never stuck, served in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.types.errors import LimitReached
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Usage
from tests.support.examples import some

PRICE = 0.001


async def use(ledger: Ledger, reserved: int, used: int, price: float = PRICE) -> str:
    """A request through all that it has to wait for."""
    try:
        async with (
            ledger.reserve(Usage(reserved), reserved * price) as entry,
            ledger.turn(ledger.rate_limiter("anybody")),
        ):
            await asyncio.sleep(random.random() * 0.002)
            entry.add(Usage(input_tokens=used), used * price)
    except LimitReached as limit:
        return limit.stop_reason
    return "served"


def limited(most: int, by_cost: bool, **more: Any) -> Limits:
    return Limits(max_cost=most * PRICE, **more) if by_cost else Limits(max_tokens=most, **more)


# a whole tree at once

REQUESTS = st.lists(st.tuples(st.integers(1, 200), st.floats(0, 1)), max_size=24)


@dataclass(frozen=True)
class Node:
    """A run: what it asks for, and the runs that it starts."""

    requests: list[tuple[int, float]]
    children: list[Node] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.requests) + sum(child.size for child in self.children)


GRANDCHILD = st.builds(Node, REQUESTS)
CHILD = st.builds(Node, REQUESTS, st.lists(GRANDCHILD, max_size=3))
ROOT = st.builds(Node, REQUESTS, st.lists(CHILD, max_size=4))


@settings(max_examples=some(60), deadline=None)
@given(
    root=ROOT,
    most=st.integers(1, 3000),
    concurrency=st.integers(1, 64),
    max_kernels=st.integers(3, 12),
    max_subcalls=st.integers(0, 100),
    by_cost=st.booleans(),
)
def test_a_tree_at_once_never_overshoots_and_never_gets_stuck(
    root: Node, most: int, concurrency: int, max_kernels: int, max_subcalls: int, by_cost: bool
) -> None:
    limits = limited(
        most, by_cost, concurrency=concurrency, max_kernels=max_kernels, max_depth=3, max_subcalls=max_subcalls
    )
    alive = most_alive = 1
    refused: list[int] = []

    async def run(ledger: Ledger, node: Node, depth: int) -> None:
        asking: list[Awaitable[None]] = [ask(ledger, *request) for request in node.requests]
        asking += [child(ledger, one, depth + 1) for one in node.children]
        await asyncio.gather(*asking)

    async def ask(ledger: Ledger, reserved: int, share: float) -> None:
        try:
            ledger.count_subcalls(1)
        except LimitReached:
            return
        if await use(ledger, reserved, int(reserved * share)) != "served":
            refused.append(reserved)
        assert ledger.usage.total_tokens + ledger._reserved_tokens <= most or by_cost
        assert (ledger.cost or 0) + ledger._reserved_cost <= most * PRICE + 1e-6 or not by_cost

    async def child(ledger: Ledger, node: Node, depth: int) -> None:
        nonlocal alive, most_alive
        async with ledger.kernels.hold(depth):
            alive += 1
            most_alive = max(most_alive, alive)
            await asyncio.sleep(0.0005)
            await run(ledger, node, depth)  # holds nothing but its kernel meanwhile
            alive -= 1

    async def all_at_once() -> Ledger:
        ledger = Ledger(limits)
        await asyncio.wait_for(run(ledger, root, 0), 20)
        return ledger

    ledger = asyncio.run(all_at_once())
    assert most_alive <= max_kernels
    assert ledger.subcalls == min(root.size, max_subcalls)
    assert ledger._reserved_tokens == 0
    assert ledger._reserved_cost == pytest.approx(0, abs=1e-9)
    # refused only what no longer fits beside what was really used
    assert all(reserved > most - ledger.usage.total_tokens for reserved in refused)


# one thing after the other, in any order


@dataclass
class Asked:
    """A request of the state machine's."""

    tokens: int
    share: float
    go_on: asyncio.Event
    task: asyncio.Task[None] | None = None
    state: str = "waiting"


class LedgerMachine(RuleBasedStateMachine):
    """Requests come, are served, fail, are cancelled; limits are raised: in any order."""

    @initialize(most=st.integers(1, 500))
    def open(self, most: int) -> None:
        self.runner = asyncio.Runner()
        self.most = most
        self.asked: list[Asked] = []

        async def make() -> Ledger:
            return Ledger(Limits(max_tokens=most))

        self.ledger = self.runner.run(make())

    def step(self) -> None:
        async def turns() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.runner.run(turns())

    async def request(self, one: Asked) -> None:
        try:
            async with self.ledger.reserve(Usage(one.tokens)) as entry:
                one.state = "served"
                try:
                    await one.go_on.wait()
                finally:
                    entry.add(Usage(int(one.tokens * one.share)), 0.0)
                    one.state = "settled"
        except LimitReached:
            one.state = "refused"
            assert one.tokens > self.most - self.ledger.usage.total_tokens
        except asyncio.CancelledError:
            one.state = "cancelled"

    def those(self, state: str) -> list[Asked]:
        return [one for one in self.asked if one.state == state]

    @rule(tokens=st.integers(1, 300), share=st.floats(0, 1))
    def ask(self, tokens: int, share: float) -> None:
        async def begin() -> None:
            one = Asked(tokens, share, asyncio.Event())
            self.asked.append(one)
            one.task = asyncio.create_task(self.request(one))

        self.runner.run(begin())
        self.step()

    @precondition(lambda self: self.those("served"))
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.those("served"))).go_on.set()
        self.step()

    @precondition(lambda self: self.those("served") or self.those("waiting"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.those("served") + self.those("waiting"))).task
        assert task is not None
        task.cancel()
        self.step()

    @rule(more=st.integers(1, 200))
    def raise_limit(self, more: int) -> None:
        self.most += more

        async def limit() -> None:
            self.ledger.limit(Limits(max_tokens=self.most))

        self.runner.run(limit())
        self.step()

    @invariant()
    def never_overshot(self) -> None:
        if hasattr(self, "ledger"):
            in_flight = sum(one.tokens for one in self.those("served"))
            assert self.ledger._reserved_tokens == in_flight
            assert self.ledger.usage.total_tokens + in_flight <= self.most

    @invariant()
    def in_order_and_as_soon_as_there_is_room(self) -> None:
        waiting = self.those("waiting") if hasattr(self, "ledger") else []
        if waiting:
            room = self.most - self.ledger.usage.total_tokens - self.ledger._reserved_tokens
            assert waiting[0].tokens > room
            assert all(self.asked.index(one) < self.asked.index(waiting[0]) for one in self.those("served"))

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()


LedgerMachine.TestCase.settings = settings(max_examples=some(60), stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


async def test_a_request_waits_for_room_instead_of_being_refused() -> None:
    ledger = Ledger(Limits(max_tokens=100))
    outcomes = await asyncio.gather(*(use(ledger, 80, 10) for _ in range(3)))
    assert outcomes == ["served", "served", "served"]
    assert await use(ledger, 80, 10) == "tokens"


async def test_no_more_requests_are_in_flight_than_allowed_whomever_they_ask() -> None:
    ledger = Ledger(Limits(concurrency=3))
    flying = most = 0

    async def fly(provider: str) -> None:
        nonlocal flying, most
        async with ledger.turn(ledger.rate_limiter(provider)):
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.005)
            flying -= 1

    await asyncio.gather(*(fly(provider) for provider in ["one", "other"] * 10))
    assert most == 3


async def test_a_cancelled_request_gives_its_reservation_back() -> None:
    ledger = Ledger(Limits(max_tokens=100))

    async def hang() -> None:
        async with ledger.reserve(Usage(90)):
            await asyncio.sleep(60)

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(use(ledger, 50, 50))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    hanging.cancel()
    assert await asyncio.wait_for(waiting, 10) == "served"


async def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    ledger = Ledger(Limits())
    async with ledger.reserve(Usage(1, 1)) as entry:
        entry.add(Usage(1, 1), None)
    assert ledger.cost is None
    assert ledger.usage.total_tokens == 2


def test_sub_calls_are_counted_before_they_are_made() -> None:
    ledger = Ledger(Limits(max_subcalls=10))
    ledger.count_subcalls(8)
    with pytest.raises(LimitReached, match="5 sub-calls were asked for, and 2 of 10 are left"):
        ledger.count_subcalls(5)
    assert ledger.reached is None
    ledger.count_subcalls(1)
    with pytest.raises(LimitReached, match="2 sub-calls were asked for, and 1 of 10 is left"):
        ledger.count_subcalls(2)
    ledger.count_subcalls(1)
    with pytest.raises(LimitReached, match="1 sub-call was asked for, and none of 10 is left"):
        ledger.count_subcalls(1)
    with pytest.raises(LimitReached, match="1 sub-call was asked for, and none is left"):
        Ledger(Limits(max_subcalls=0)).count_subcalls(1)
    assert ledger.reached == "subcalls"


async def test_who_bills_more_than_was_asked_for_is_named_and_gets_less_the_next_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger(Limits(max_tokens=1000))
    async with ledger.reserve(Usage(50, 50), model="some/model") as entry:
        entry.add(Usage(50, 250), 0.0)
    assert ledger.overbilling.found == {"some/model": "some/model billed 250 output tokens where 50 were allowed"}
    assert "some/model billed 250 output tokens" in caplog.text
    assert ledger.usage.total_tokens == 300
    # three times as much as was reserved: from now on it is asked only where that fits
    with pytest.raises(LimitReached, match="may use 750 tokens, and 700"):
        async with ledger.reserve(Usage(150, 100), model="some/model"):
            pass
    async with ledger.reserve(Usage(150, 100), model="other/model"):
        pass


async def test_what_a_request_uses_beside_its_cap_is_no_excess() -> None:
    ledger = Ledger(Limits())
    async with ledger.reserve(Usage(50, 50), 1.0, model="some/model") as entry:
        entry.add(Usage(50, 50), 1.0)
    assert ledger.overbilling.found == {}


# the time


def test_the_time_is_measured() -> None:
    now = [0.0]
    ledger = Ledger(Limits(max_seconds=5), clock=lambda: now[0])
    assert ledger.deadline.left == 5
    now[0] = 6.0
    assert ledger.reached == "seconds"


@pytest.mark.parametrize("what", ["room", "a turn", "a kernel"])
async def test_nobody_waits_longer_than_the_time_that_is_left(what: str) -> None:
    started = asyncio.get_running_loop().time()
    ledger = Ledger(Limits(max_seconds=0.2, max_tokens=100, concurrency=1, max_kernels=2, max_depth=2))

    def waited_for() -> Any:
        return {
            "room": lambda: ledger.reserve(Usage(60)),
            "a turn": lambda: ledger.turn(ledger.rate_limiter("x")),
            "a kernel": lambda: ledger.kernels.hold(1),
        }[what]()

    async with waited_for():
        with pytest.raises(LimitReached, match="the time is up") as reached:
            async with waited_for():
                pass
    assert reached.value.stop_reason == "seconds"
    assert asyncio.get_running_loop().time() - started > 0.15  # and not for ever


@pytest.mark.slow
async def test_a_raised_limit_counts_for_those_who_wait_already_and_a_held_clock_stands() -> None:
    ledger = Ledger(Limits(max_seconds=1))
    waiting = asyncio.create_task(ledger.deadline.expired())
    await asyncio.sleep(0)
    with ledger.deadline.held():
        await asyncio.sleep(1.5)
        assert not waiting.done()
    ledger.limit(Limits(max_seconds=5))
    await asyncio.sleep(1.2)
    assert not waiting.done()
    await asyncio.wait_for(waiting, 30)


async def test_kernels_of_each_depth_have_places_of_their_own() -> None:
    ledger = Ledger(Limits(max_kernels=3, max_depth=3))
    async with ledger.kernels.hold(1), ledger.kernels.hold(2):
        waiting = asyncio.create_task(ledger.kernels.hold(1).__aenter__())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
