"""What several answers come to: the same said in other words counts as the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_jupyter.run.vote import Ballot, count, is_same
from rlm_jupyter.types.values import StopReason, Value


def value(said: Any) -> Value:
    return Value(said if isinstance(said, str) else json.dumps(said), said, is_json=True)


def ballot(sample: int, said: Any, confidence: float | None = None, stop_reason: StopReason = "answered") -> Ballot:
    return Ballot(sample, None if said is None else value(said), stop_reason, confidence)


SAME = [
    (42, "42"),
    (42, 42.0),
    ("42", "42."),
    (1234, "1,234"),
    ("$1,234.50", 1234.5),
    (12.333333333, "12.33"),
    (17, "There are 17 orders."),
    ("17%", 17),
    ("Lima", "lima"),
    ("Lima", '"Lima".'),
    ("**Lima**", "Lima"),
    ("Lima", "The city with the highest total is Lima."),
    ("Zoë", "Zoë"),
    (["Lima", "Rome"], "Lima, Rome"),
    (["Lima", "Rome"], ["Rome", "Lima"]),
    ("- Lima\n- Rome", "Lima; Rome"),
    ({"a": 1, "b": "x"}, '{"b": "X", "a": 1.0}'),
    ('["Lima", 2]', ["lima", "2"]),
    (True, "true"),
    ("1 October 2024", "1 October 2024."),
]
OTHER = [
    (42, 43),
    (10655, 10656),
    ("Lima", "Rome"),
    ("17 orders", "18 orders"),
    (["Lima", "Rome"], ["Lima", "Rome", "Rome"]),
    ("-17", "17"),
    (0.1, 0.2),
    ("In 2019 it was Lima", "In 2019 it was Rome"),
    ({"a": 1}, {"a": 2}),
    (1, "11 of them"),
    ("Lima", ""),
    (True, False),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_says_the_same_is_the_same(one: Any, other: Any) -> None:
    assert is_same(value(one), value(other))
    assert is_same(value(other), value(one))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_says_something_else_is_not(one: Any, other: Any) -> None:
    assert not is_same(value(one), value(other))


def test_the_order_counts_where_samples_agree_on_one() -> None:
    counted = count([ballot(1, ["a", "b"]), ballot(2, ["b", "a"]), ballot(3, ["b", "a"])])
    assert counted.best is not None
    assert counted.best.answer is not None
    assert (counted.best.answer.json, counted.votes) == (["b", "a"], 2)


def test_a_sentence_that_holds_two_of_the_answers_goes_with_neither() -> None:
    counted = count([ballot(1, "Lima"), ballot(2, "Rome"), ballot(3, "either Lima or Rome")])
    assert (counted.votes, counted.runner_up, counted.agrees) == (1, 1, False)


@pytest.mark.parametrize(
    ("said", "pending", "settled"),
    [
        (["a", "a"], 1, True),
        (["a", "a"], 2, False),
        (["a"], 0, False),
        (["a", "b"], 1, False),
        (["a", "a", "b"], 2, False),
        (["a", "a", "a", "b"], 1, True),
        (["a", None, "a"], 0, True),
        ([None, None], 1, False),
    ],
)
def test_a_vote_is_settled_when_the_rest_can_not_change_it(said: list[str | None], pending: int, settled: bool) -> None:
    counted = count([ballot(place, one) for place, one in enumerate(said, start=1)])
    assert counted.is_settled(pending) is settled


def test_of_answers_that_are_given_as_often_the_declared_then_the_confident_one_counts() -> None:
    def best(*ballots: Ballot) -> int:
        found = count(ballots).best
        assert found is not None
        return found.sample

    assert best(ballot(1, "a", stop_reason="iterations"), ballot(2, "b")) == 2
    assert best(ballot(1, "a", 0.4), ballot(2, "b", 0.9), ballot(3, "c")) == 2
    assert best(ballot(2, "a"), ballot(1, "b")) == 1
    assert best(ballot(1, "a", 0.9, "seconds"), ballot(2, "b"), ballot(3, "A", 0.1)) == 3


def test_it_says_in_words_how_the_samples_voted() -> None:
    words = [
        count([ballot(place, one) for place, one in enumerate(said, start=1)]).words
        for said in (["a", "a", "b"], ["a", "b", "c"], ["a", "a", "b", "b"], [None, None])
    ]
    assert words == [
        "2 of 3 samples agree",
        "no two of 3 samples agree",
        "the 4 samples are divided",
        "none of 2 samples has an answer",
    ]


def test_long_and_nested_answers_are_compared_too() -> None:
    texts = ["word " * 100_000 + str(number) for number in range(5)]
    assert count([ballot(place, text) for place, text in enumerate(texts, start=1)]).votes == 1
    nested = "[" * 50_000
    assert not is_same(value(nested), value(nested + "1"))
