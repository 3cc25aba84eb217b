"""`count`: what several runs of one question agree on.

Answers are compared by what they say, not by how they are written (`42`, `"42"`, `42.0`; case, quotes and full stops
don't count), and no word of any language is read: a sentence goes with the one shorter answer that it holds.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.types.values import StopReason, Value

SETTLED = "the other samples had agreed"
"""Why a sample ends that could not change the answer."""
_DIGITS = 4
"""Significant digits in which numbers that are not whole have to agree."""
_NUMBER = re.compile(r"[^\w\s.+-]?\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*[^\w\s]?")
"""A number, also with a sign of a currency before it, or a percent sign or a full stop after it."""
_WORD = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?|\w+")
_ITEMS = re.compile(r"\s*(?:[;\n]|,\s)\s*")
_ITEM_WORDS = 4


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one sample says."""

    sample: int
    """From 1."""
    answer: Value | None = None
    stop_reason: StopReason = "failed"
    confidence: float | None = None
    """From 0 to 1, where it is known."""

    @property
    def weight(self) -> tuple[bool, float, int]:
        """What decides between answers that are given as often: that it was declared, its confidence, its number."""
        is_declared = self.stop_reason in {"answered", "terminated"}
        return is_declared, -1.0 if self.confidence is None else self.confidence, -self.sample


@dataclass(frozen=True, slots=True)
class Count:
    """What the samples come to."""

    best: Ballot | None
    """The answer that most say; where several are said as often, that which is declared, then the most confident."""
    votes: int = 0
    """How many say so."""
    runner_up: int = 0
    """How many say what is said next most often."""
    of: int = 0
    """How many samples have ended."""

    @property
    def agrees(self) -> bool:
        """Whether at least two say the same, and no others as many."""
        return self.votes > max(self.runner_up, 1)

    @property
    def share(self) -> float | None:
        """The share that says so, from 0 to 1; `None` where there is no answer."""
        return None if self.best is None else self.votes / self.of

    def is_settled(self, pending: int) -> bool:
        """Return whether the samples that have not ended can't change the answer any more."""
        return self.agrees and self.votes > self.runner_up + pending

    @property
    def words(self) -> str:
        """In one line, for people."""
        if self.best is None:
            return f"none of {self.of} samples has an answer"
        if self.agrees:
            return f"{self.votes} of {self.of} samples agree"
        return f"no two of {self.of} samples agree" if self.votes == 1 else f"the {self.of} samples are divided"


def count(ballots: Sequence[Ballot]) -> Count:
    """Count what the samples say.

    Parameters
    ----------
    ballots
        Of those that have ended, also without an answer; in any order.
    """
    groups = _grouped([ballot for ballot in ballots if ballot.answer is not None])
    ranked = sorted(groups, key=lambda group: (len(group), max(ballot.weight for ballot in group)), reverse=True)
    if not ranked:
        return Count(None, of=len(ballots))
    best = max(ranked[0], key=lambda ballot: ballot.weight)
    return Count(best, len(ranked[0]), len(ranked[1]) if ranked[1:] else 0, len(ballots))


def is_same(one: Value, other: Value) -> bool:
    """Return whether two answers say the same."""
    return len(_grouped([Ballot(1, one), Ballot(2, other)])) == 1


def _grouped(ballots: Iterable[Ballot]) -> list[list[Ballot]]:
    groups: dict[Hashable, list[Ballot]] = {}
    for ballot in ballots:
        if ballot.answer is not None:
            groups.setdefault(_said(ballot.answer), []).append(ballot)
    _merge_sentences(groups)
    if all(len(group) == 1 for group in groups.values()):  # the order may be what was asked for, so only then
        _merge_orders(groups)
    return list(groups.values())


def _merge_sentences(groups: dict[Hashable, list[Ballot]]) -> None:
    """Put a text to the one shorter answer that it holds, if it holds one only."""
    words = {key: _words(key) for key in groups}
    for key in sorted(groups, key=lambda key: len(words[key])):
        held = [
            other for other in groups if 0 < len(words[other]) < len(words[key]) and _holds(words[key], words[other])
        ]
        if len(held) == 1:
            groups[held[0]] += groups.pop(key)


def _merge_orders(groups: dict[Hashable, list[Ballot]]) -> None:
    """Put lists of the same items to each other."""
    first: dict[Hashable, Hashable] = {}
    for key in list(groups):
        if isinstance(key, tuple) and key[0] == "list":
            items = frozenset((item, key[1].count(item)) for item in key[1])
            if items in first:
                groups[first[items]] += groups.pop(key)
            first.setdefault(items, key)


def _said(answer: Value) -> Hashable:
    return _normal(answer.json if answer.is_json else answer.text)


def _normal(value: Any) -> Hashable:
    """Return a form in which what says the same is the same."""
    if isinstance(value, str):
        return _normal_text(value)
    if isinstance(value, bool) or value is None:
        return "text", str(value).casefold()
    if isinstance(value, int | float):
        return _normal_number(float(value))
    if isinstance(value, Mapping):
        return "dict", frozenset((_normal(key), _normal(item)) for key, item in value.items())
    if isinstance(value, Sequence):
        return "list", tuple(_normal(item) for item in value)
    return _normal_text(str(value))


def _normal_number(number: float) -> Hashable:
    return "number", number if number.is_integer() else float(f"{number:.{_DIGITS}g}")


def _normal_text(text: str) -> Hashable:
    text = unicodedata.normalize("NFKC", text).strip().strip("\"'`*_").strip()
    if (found := _NUMBER.fullmatch(text)) is not None:
        return _normal_number(float(found[1].replace(",", "")))
    if text[:1] in ("[", "{"):
        try:
            return _normal(json.loads(text))
        except (ValueError, RecursionError):
            pass  # it only begins so
    items = [item.lstrip("-*• ") for item in _ITEMS.split(text) if item.strip()]
    if len(items) > 1 and all(len(item.split()) <= _ITEM_WORDS for item in items):
        return "list", tuple(_normal_text(item) for item in items)
    return "text", " ".join(_WORD.findall(text.casefold()))


def _words(key: Hashable) -> list[str]:
    """Return the words of a text or a number; of anything else none."""
    match key:
        case ("text", str(text)):
            return text.split()
        case ("number", float(number)):
            return [f"{number:.0f}" if number.is_integer() else f"{number}"]
    return []


def _holds(words: list[str], some: list[str]) -> bool:
    """Return whether `some` stand in `words`, one after the other."""
    plain = [word.replace(",", "") if word[:1].isdigit() else word for word in words]
    return any(plain[at : at + len(some)] == some for at in range(len(plain) - len(some) + 1))
