"""How long people wait for a reply's first words, and how fast the rest comes."""

from __future__ import annotations

import pytest

from rlm_jupyter.frontends.display.clock import Clock as RunClock
from rlm_jupyter.frontends.display.status import Speed
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.types.events import (
    CellDecided,
    CellProposed,
    Event,
    OutputsShown,
    ReplyStreamed,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    RunUnpaused,
)
from rlm_jupyter.types.values import ContextInfo, Usage
from tests.support.protocol import received


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


STARTED = RunStarted("r", "who?", "s", "o", ContextInfo("none", "empty"), "llamacpp/a", "llamacpp/a", 0, {}, "")


def test_a_slow_model_is_seen_to_be_at_work() -> None:
    clock = Clock()
    speed = Speed(clock)
    assert speed.words == []
    speed.apply(STARTED)
    clock.now = 12.4
    assert speed.words == ["waiting for its first words, 12 s"]
    for _ in range(41):  # a token each, 20 a second
        speed.apply(ReplyStreamed(1, "tok "))
        clock.now += 0.05
    assert speed.words == ["first words after 12.4 s", "20 tokens/s"]
    speed.apply(received(1, "tok " * 41))
    assert speed.words == []  # a cell runs
    speed.apply(OutputsShown(1, ""))
    clock.now += 3
    assert speed.waiting == pytest.approx(3)
    speed.apply(received(2, "again", rejected="repeats"))
    assert speed.waiting == 0


def test_nobody_waits_for_a_model_while_the_run_is_paused() -> None:
    clock = Clock()
    speed = Speed(clock)
    for event in (STARTED, received(1, "look"), OutputsShown(1, ""), RunPaused(2)):
        speed.apply(event)
    clock.now = 59.0
    assert speed.words == []
    speed.apply(RunUnpaused(2))
    clock.now = 61.0
    assert speed.words == ["waiting for its first words, 2 s"]


def test_a_provider_that_sends_several_tokens_at_a_time_is_not_called_slow() -> None:
    clock = Clock()
    speed = Speed(clock)
    speed.apply(STARTED)
    for _ in range(4):
        speed.apply(ReplyStreamed(1, "x" * 400))
        clock.now += 0.5
    assert speed.rate == 200


def test_displays_say_it() -> None:
    clock = Clock()
    view, facts = View(), RunFacts()
    view._speed, facts._speed = Speed(clock), Speed(clock)
    for event in (STARTED, OutputsShown(1, "")):
        view.apply(event)
        facts.apply(event)
    clock.now = 7.0
    assert view.text().endswith("waiting for its first words, 7 s")
    told = facts.told()
    assert (told["is_waiting"], told["first"], told["rate"]) == (True, None, None)
    for _ in range(30):
        clock.now += 0.1
        view.apply(ReplyStreamed(2, "tok "))
        facts.apply(ReplyStreamed(2, "tok "))
    assert view.text().endswith("first words after 7.1 s · 10 tokens/s")
    told = facts.told()
    assert (told["is_waiting"], told["first"], told["rate"]) == (False, 7.1, 10.0)
    ended = RunEnded("answered", "a", "a", True, 2, 1.0, Usage(), 0.0)
    facts.apply(received(2, "x"))
    facts.apply(ended)
    assert (facts.told()["first"], facts.told()["rate"]) == (None, None)


def test_the_clock_stands_still_while_a_person_is_waited_for() -> None:
    clock = Clock()
    view, facts = View(), RunFacts()
    view._clock, facts._clock = RunClock(clock), RunClock(clock)

    def tell(event: Event, seconds: float) -> tuple[bool, float | None]:
        view.apply(event)
        facts.apply(event)
        clock.now += seconds
        return f" {facts.elapsed:.0f} s" in view.text(), facts.elapsed

    assert tell(STARTED, 4) == (True, 4)
    assert tell(RunPaused(1), 60) == (True, 4)
    assert tell(RunUnpaused(1), 2) == (True, 6)
    assert tell(CellProposed(1, 0, "1"), 60) == (True, 6)
    assert tell(CellDecided(1, 0, True), 3) == (True, 9)
    # a run that is resumed goes on from what it had taken
    resumed = RunResumed(1, "a", "a", {}, "", reexecuted=True, seconds=100)
    assert tell(resumed, 5) == (True, 105)
    facts.fail("why")
    assert (facts.elapsed, facts.told()["seconds"]) == (None, 105)
