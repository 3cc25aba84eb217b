"""Cancelled, or stopped, at every await point of a run: it ends, and nothing of it is left."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.run.control import Control
from tests.faults.injector import Injector, Watch, struck, watched
from tests.faults.runs import check_record, streamed, whole

pytestmark = pytest.mark.slow

WAYS = ("cancel", "cancel twice", "stop", "stop, then cancel")
POINTS = (3, 12, 45, 90, 125)
EARLY = range(24, 76, 7)
"""Steps at which, for the most part, a cell is early."""
Run = Callable[[Path, Control], Coroutine[Any, Any, Any]]
_SECOND = 3
"""Steps after the first at which it is struck again: in the middle of its putting things away."""
_MOST_SECONDS = 50.0


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Kernels are told by it; what every process of ours keeps for good is there already."""
    folder = tmp_path_factory.mktemp("whole")
    with watched() as watch:
        asyncio.run(struck(lambda: whole(folder, Control()), Injector()))
        watch.look()
        yield watch


def strike(way: str, step: int, folder: Path, watch: Watch, run: Run = whole) -> tuple[str, bool]:
    """Strike a run at one step; how it ended, and whether it had come that far."""
    control = Control()
    injector = Injector(frozenset([step]))
    if "twice" in way or "then" in way:
        injector.at |= {step + _SECOND}
    if way == "stop":
        injector.strike = control.stop
    elif way == "stop, then cancel":
        injector.first = control.stop
    began = time.monotonic()
    how = asyncio.run(struck(lambda: run(folder, control), injector))
    took = time.monotonic() - began
    assert not (left := watch.left()), f"{way} at step {step}: {left}"
    assert took < _MOST_SECONDS, f"{way} at step {step} took {took:.1f} s"
    ended = check_record(folder)
    assert how in {"'ended'", "cancelled"} or (way.startswith("stop") and "RLMError" in how), how
    if how == "'ended'":
        assert ended is not None
    return how, injector.steps >= step


def strike_all(way: str, steps: Iterable[int], folder: Path, watch: Watch, run: Run = whole) -> None:
    seen: Counter[str] = Counter()
    for step in steps:
        how, reached = strike(way, step, folder / f"{step}", watch, run)
        if not reached:
            break
        seen[how] += 1
    print(f"{way}: {sum(seen.values())} points, {dict(seen)}, nothing left")
    assert seen


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_of_a_run_that_is_struck(way: str, tmp_path: Path, watch: Watch) -> None:
    """While it starts, while it asks, in a batch, in a child, while it ends; each way at some of them."""
    offset = WAYS.index(way)
    strike_all(way, (step + offset for step in POINTS[offset % 2 :: 2]), tmp_path, watch)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_of_a_run_that_is_struck_while_a_cell_is_early(way: str, tmp_path: Path, watch: Watch) -> None:
    offset = WAYS.index(way)
    strike_all(way, range(EARLY.start + offset, EARLY.stop, EARLY.step), tmp_path, watch, streamed)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_of_a_run_that_is_struck_anywhere(way: str, tmp_path: Path, watch: Watch) -> None:
    """At every step: several hundred points."""
    strike_all(way, range(1, 10_000), tmp_path, watch)
