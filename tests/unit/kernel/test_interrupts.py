"""An interrupt and the host's word of it, which come by different ways: in any order, it counts once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from rlm_jupyter.kernel.guest import sigint
from rlm_jupyter.kernel.guest.sigint import Interrupts


class Served:
    """A cell that is served after one that was interrupted, and how often it was."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.interrupts = Interrupts({}, self.counted.append)
        self.interrupts.expect("before")
        self.interrupts.serve("now")

    def signal(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def served() -> Iterator[Served]:
    before = signal.getsignal(signal.SIGINT)
    try:
        yield Served()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_before_its_word(served: Served) -> None:
    served.signal()
    assert served.counted == []
    served.interrupts.expect("now")
    assert served.counted == ["now"]
    # what was made good is not made good again by the word of the next
    served.interrupts.expect("now")
    assert served.counted == ["now"]
    served.signal()
    assert served.counted == ["now", "now"]


def test_a_word_before_its_signal(served: Served) -> None:
    served.interrupts.expect("now")
    assert served.counted == []
    served.signal()
    assert served.counted == ["now"]


@pytest.mark.parametrize("look", [1, 2])
def test_a_word_that_comes_while_the_signal_is_looked_at(
    served: Served, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        if looks == look:
            served.interrupts.expect("now")
        return time.monotonic()

    monkeypatch.setattr(sigint, "time", SimpleNamespace(monotonic=clock))
    served.signal()
    assert looks >= look
    assert served.counted == ["now"]


def test_a_signal_of_long_ago_is_not_made_good(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.signal()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 6)
    monkeypatch.setattr(sigint, "time", later)
    served.interrupts.expect("now")
    assert served.counted == []
