"""What one process of a batch is refused, as the others hear of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path

import pytest

from rlm_jupyter.batch.shared_refusals import SharedRefusals, shared
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.types.errors import ModelUnavailableError
from rlm_jupyter.types.limits import Limits

pytestmark = pytest.mark.slow

AT = "https://models.example/v1"
LOCAL = "http://localhost:8080/v1"
SOON = 2.0
"""Seconds in which what is told has been heard."""


def process(folder: Path) -> SharedRefusals:
    return SharedRefusals(folder, Ledger(Limits(concurrency=8)))


async def refuse(limiter: RateLimiter, seconds: float | None) -> None:
    refusal = ModelUnavailableError("too many", overloaded=True, retry_after=seconds)
    limiter.leave(await limiter.enter(False), refusal)


async def heard(*processes: SharedRefusals) -> None:
    with contextlib.ExitStack() as stack:
        for each in processes:
            stack.enter_context(each.followed())
        await asyncio.sleep(SOON)


async def test_a_refusal_is_heard_once_by_all_others_and_not_by_whoever_was_refused(tmp_path: Path) -> None:
    async with shared(tmp_path):
        one, two = process(tmp_path), process(tmp_path)
        elsewhere = two.rate_limiter("https://others.example")
        mine, its = one.rate_limiter(AT), two.rate_limiter(AT)
        for _ in range(8):
            await its.enter(False)
        await refuse(mine, 30)
        await heard(one, two, two)  # two items of one process
        assert (its.width, mine.width) == (4, 1)
        assert 30 - SOON - 1 < its.rest <= 30 - SOON + 0.5
        assert (elsewhere.width, elsewhere.rest) == (8, 0)
        # who comes later waits as well, for what is left
        later = process(tmp_path)
        limiter = later.rate_limiter(AT)
        await heard(later)
        assert 20 < limiter.rest < its.rest + 0.1
    assert [*tmp_path.iterdir()] == []


async def test_what_is_over_or_broken_or_too_long_is_not_heard(tmp_path: Path) -> None:
    async with shared(tmp_path):
        one, two = process(tmp_path), process(tmp_path)
        limiter = two.rate_limiter(AT)
        await refuse(one.rate_limiter(AT), 1e9)  # all there is fails of it
        now = time.time()
        good = {"process": "x", "machine": "y", "provider": AT, "rest": 5.0, "at": now + 1e6, "sent": now + 1e6}
        old = good | {"at": now - 60, "sent": now - 61}
        local = good | {"at": now, "sent": now, "provider": LOCAL}
        broken = ["", "{", "[]", '"x"', "{}", *map(json.dumps, (good | {"at": "x"}, old, local))]
        write(tmp_path, *broken)
        await heard(two)
        assert (limiter.width, limiter.rest) == (8, 0)
        # of a server of that machine's own
        assert two.rate_limiter(LOCAL).rest == 0
        whole = json.dumps(good)
        write(tmp_path, whole[:20], end="")
        await heard(two)
        assert limiter.rest == 0
        write(tmp_path, whole[20:])
        await heard(two)
        assert 0 < limiter.rest <= 5  # a clock that goes wrong makes nobody wait longer


def write(folder: Path, *lines: str, end: str = "\n") -> None:
    with (folder / "refusals.jsonl").open("a") as file:
        file.write("\n".join(lines) + end)


async def test_who_waits_for_a_turn_gets_it_after_the_rest_of_others(tmp_path: Path) -> None:
    async with shared(tmp_path):
        one, two = process(tmp_path), process(tmp_path)
        await refuse(one.rate_limiter(AT), 0.3)
        limiter = two.rate_limiter(AT)
        await refuse(limiter, 0.3)
        waiting = asyncio.create_task(limiter.enter(again=True))
        with one.followed(), two.followed():
            async with asyncio.timeout(5):
                limiter.leave(await waiting, None)
        # what nobody else is in flight for does not stand still either
        await refuse(limiter, 3)
        waiting = asyncio.create_task(limiter.enter(again=True))
        await asyncio.sleep(0)
        limiter.slow_down_with_others(0.0, 0.0, 0.0)
        async with asyncio.timeout(5):
            await waiting


async def test_one_round_of_refusals_slows_down_once_however_many_are_refused(tmp_path: Path) -> None:
    async with shared(tmp_path):
        many = [process(tmp_path) for _ in range(16)]
        limiters = [each.rate_limiter(AT) for each in many]
        sent = [await limiter.enter(False) for limiter in limiters]
        watching = process(tmp_path)
        watched = watching.rate_limiter(AT)
        for limiter, at in zip(limiters, sent, strict=True):
            limiter.leave(at, ModelUnavailableError("too many", overloaded=True, retry_after=1.0))
        own = [limiter.width for limiter in limiters]
        await heard(watching, *many)
        assert [limiter.width for limiter in limiters] == own
        assert watched.width == 4
        # it speeds up again as ever
        for _ in range(40):
            watched.leave(await watched.enter(False), None)
        assert watched.width == 8


async def test_each_batch_is_told_of_its_own_and_one_in_the_same_folder_is_another(tmp_path: Path) -> None:
    rates = Ledger(Limits(concurrency=8))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with shared(tmp_path / "one"), shared(tmp_path / "other"):
        here = [SharedRefusals(tmp_path / name, rates) for name in ("one", "other")]
        there = [process(tmp_path / name) for name in ("one", "other")]
        limiters = [each.rate_limiter(AT) for each in there]
        here[0].rate_limiter(AT)
        await refuse(here[1].rate_limiter(AT), 20)
        await heard(*there)
        assert all(limiter.rest > 15 for limiter in limiters)
    async with shared(tmp_path / "one"):
        await refuse(process(tmp_path / "one").rate_limiter(AT), 60)
        await heard(*there)
        assert limiters[0].rest > 50
        assert limiters[1].rest < 20


async def test_a_server_that_tells_its_slots_is_sent_no_more_whoever_has_heard_of_it_first(tmp_path: Path) -> None:
    async with shared(tmp_path):
        one, two = process(tmp_path), process(tmp_path)
        await refuse(one.rate_limiter(AT, 2), 0.1)
        await heard(two)
        assert two.rate_limiter(AT, 2).width == 2
        for _ in range(20):
            two.rate_limiter(AT, 2).leave(await two.rate_limiter(AT, 2).enter(False), None)
        assert two.rate_limiter(AT, 2).width == 2


async def test_after_the_batch_nothing_is_told(tmp_path: Path) -> None:
    async with shared(tmp_path):
        one = process(tmp_path)
    await refuse(one.rate_limiter(AT), 5)
    assert [*tmp_path.iterdir()] == []
    await heard(one)


@pytest.mark.parametrize("seconds", [None, 3.0])
async def test_many_refusals_of_one_round_are_told_once(tmp_path: Path, seconds: float | None) -> None:
    async with shared(tmp_path):
        limiter = process(tmp_path).rate_limiter(AT)
        sent = [await limiter.enter(False) for _ in range(8)]
        refusal = ModelUnavailableError("too many", overloaded=True, retry_after=seconds)
        for at in sent:
            limiter.leave(at, refusal)
        _, *lines = (tmp_path / "refusals.jsonl").read_text().splitlines()
        assert len(lines) == 1
        assert json.loads(lines[0])["rest"] == pytest.approx(seconds or 0.09, abs=0.02)
