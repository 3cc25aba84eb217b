"""Numbered messages: whatever a connection loses or doubles, each is taken once, in order."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.kernel.guest.numbered import Numbered


class Ends:
    """Two ends, and what is on its way between them."""

    def __init__(self, seed: int, loses: float) -> None:
        self.random, self.loses = random.Random(seed), loses
        self.taken: dict[str, list[bytes]] = {"a": [], "b": []}
        self.on_the_way: list[tuple[str, dict[str, Any], list[Any]]] = []
        self.ends = {name: self.end(name, other) for name, other in (("a", "b"), ("b", "a"))}

    def end(self, name: str, other: str) -> Numbered:
        def post(content: dict[str, Any], buffers: Any) -> None:
            self.on_the_way.append((other, content, [*buffers]))

        def take(channel: str, frames: list[Any]) -> None:
            assert channel == "control"
            self.taken[name].append(b"|".join(bytes(frame) for frame in frames))

        return Numbered(post, take, piece_bytes=64)

    def deliver(self) -> None:
        while self.on_the_way:
            to, content, buffers = self.on_the_way.pop(0)
            if "n" in content and self.random.random() < self.loses:
                continue
            for _ in range(1 + (self.random.random() < self.loses)):
                if "n" in content:
                    self.ends[to].receive(content, buffers)
                else:
                    self.ends[to].settle(content["seen"])

    def reconnect(self) -> None:
        self.on_the_way.clear()
        seen = {name: end.seen for name, end in self.ends.items()}
        self.ends["a"].resume(seen["b"])
        self.ends["b"].resume(seen["a"])
        self.deliver()


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400), st.booleans()), max_size=60),
)
def test_each_message_is_taken_once_and_in_order(seed: int, sent: list[tuple[str, int, bool]]) -> None:
    ends = Ends(seed, 0.3)
    expected: dict[str, list[bytes]] = {"a": [], "b": []}
    for number, (name, size, cut) in enumerate(sent):
        frames = [f"{number}".encode(), b"x" * size]
        ends.ends[name].send("control", frames)
        expected["b" if name == "a" else "a"].append(b"|".join(frames))
        if cut:
            ends.reconnect()
    ends.loses = 0
    ends.reconnect()
    ends.reconnect()
    assert ends.taken == expected


def test_no_more_are_on_their_way_than_a_server_holds() -> None:
    ends = Ends(0, 0)
    ends.reconnect()
    for number in range(1_000):
        ends.ends["a"].send("control", [f"{number}".encode()])
    assert len(ends.on_the_way) == 256
    ends.deliver()
    assert len(ends.taken["b"]) == 1_000
    assert ends.ends["a"].waiting < 32


def test_what_is_lost_once_more_is_sent_once_more() -> None:
    ends = Ends(0, 0)
    ends.reconnect()
    a, b = ends.ends["a"], ends.ends["b"]
    for number in range(4):
        a.send("control", [f"{number}".encode()])
    told = 0
    while ends.on_the_way:
        _, content, buffers = ends.on_the_way.pop(0)
        told += content["n"] != 1 and b.receive(content, buffers)
    assert told == 1  # the others are lost with it
    for _ in range(2):
        assert b.lacks(a.posted)
        a.resume(b.seen)
        ends.on_the_way.clear()  # and these, too
    assert b.lacks(a.posted)
    a.resume(b.seen)
    ends.deliver()
    assert not b.lacks(a.posted)
    assert ends.taken["b"] == [b"0", b"1", b"2", b"3"]
