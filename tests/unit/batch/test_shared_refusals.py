"""What one process of a batch is refused, as the others hear of it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from rlm_jupyter.batch.shared_refusals import SharedRefusals, shared
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.rate_limit import RateLimiter
from rlm_jupyter.types.errors import ModelUnavailableError
from rlm_jupyter.types.limits import Limits

AT = "https://models.example/v1"
SOON = 2.0
"""Seconds in which what is told has been heard."""


def process(folder: Path) -> SharedRefusals:
    return SharedRefusals(folder, Ledger(Limits(concurrency=8)))


async def refuse(limiter: RateLimiter, seconds: float | None) -> None:
    refusal = ModelUnavailableError("too many", overloaded=True, retry_after=seconds)
    limiter.leave(await limiter.enter(False), refusal)


async def heard(*processes: SharedRefusals) -> None:
    tasks = [asyncio.create_task(each.follow()) for each in processes]
    await asyncio.sleep(SOON)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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
        old = {"process": "x", "provider": AT, "rest": 9.0, "until": time.time() - 60}
        ahead = {"process": "x", "provider": AT, "rest": 5.0, "until": time.time() + 1e6}
        lines = ["", "{", "[]", '"x"', "{}", json.dumps(old | {"until": "x"}), json.dumps(old), json.dumps(ahead)]
        path = tmp_path / "refusals.jsonl"
        path.write_text("\n".join(lines[:-1]) + "\n")
        await heard(two)
        assert (limiter.width, limiter.rest) == (8, 0)
        with path.open("a") as file:
            file.write(lines[-1][:20])
            file.flush()
            await heard(two)
            assert limiter.rest == 0
            file.write(lines[-1][20:] + "\n")
        await heard(two)
        assert 0 < limiter.rest <= 5  # a clock that goes wrong makes nobody wait longer


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
        lines = (tmp_path / "refusals.jsonl").read_text().splitlines()
        assert len(lines) == 1
        assert json.loads(lines[0])["rest"] == pytest.approx(seconds or 0.09, abs=0.02)
