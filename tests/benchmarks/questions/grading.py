"""Graders: what is right, and how near an answer comes to it.

A sentence around an answer, thousands separators, quotes and capitals don't matter. What the question itself names is
no candidate, several candidates where one is asked for are no answer, and neither is a long text that holds the right
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:[,_'\u00a0\u2009\u202f ]\d{3})+(?!\d)|\d+)(?:\.\d+)?(?![\w]*\d)")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
DATE = _DATE.pattern
_LONGEST = 300
"""Characters of an answer, beyond twice those of the expected one: what is longer is a report, a listing or code."""
_PARTIAL_BASE = 0.75
"""The score of a number that is off by one; of OOLONG (arXiv 2511.02817)."""


class Grader(Protocol):
    """Knows what is right."""

    @property
    def expected(self) -> str:
        """The right answer, in words."""

    def score(self, answer: str, prompt: str) -> float:
        """Return 1.0 for what is right, 0.0 for what is wrong, and what lies between where a miss may be near."""


@dataclass(frozen=True)
class Number:
    """One number."""

    value: float
    tolerance: float = 0.0
    partial: bool = False
    """Whether a near miss counts in part: `0.75 ** abs(error)`."""

    @property
    def expected(self) -> str:
        """The right answer, in words."""
        return f"{self.value:.10g}"

    def score(self, answer: str, prompt: str) -> float:
        """Grade the only number of an answer, those of the question aside."""
        if _is_long(answer, self.expected):
            return 0.0
        named = _numbers(answer)
        found = (named - _numbers(prompt)) or named
        if len(found) != 1:
            return 0.0
        error = abs(found.pop() - self.value)
        if error <= self.tolerance + 1e-9:
            return 1.0
        return float(_PARTIAL_BASE**error) if self.partial else 0.0


@dataclass(frozen=True)
class Names:
    """One or several of some candidates: all that are right, and no other."""

    values: tuple[str, ...]
    candidates: str
    """A regular expression for all that could be an answer of this kind, right or wrong."""
    ordered: bool = False

    @property
    def expected(self) -> str:
        """The right answer, in words."""
        return ", ".join(self.values)

    def score(self, answer: str, prompt: str) -> float:
        """Grade the candidates that an answer names, those of the question aside where others are left."""
        if _is_long(answer, self.expected):
            return 0.0
        right = [_plain(value) for value in self.values]
        said, asked = self._named(answer), set(self._named(prompt)) - set(right)
        said = [one for one in said if one not in asked] or said
        return float(said == right if self.ordered else set(said) == set(right))

    def _named(self, text: str) -> list[str]:
        found = (match[0] for match in re.finditer(self.candidates, text, re.IGNORECASE))
        return list(dict.fromkeys(map(_plain, found)))


@dataclass(frozen=True)
class YesNo:
    """A yes, or a no."""

    value: bool

    @property
    def expected(self) -> str:
        """The right answer, in words."""
        return "yes" if self.value else "no"

    def score(self, answer: str, prompt: str) -> float:
        """Grade the first word of an answer that says the one or the other."""
        said = re.search(r"\b(yes|true|no|not|none|nobody|false)\b", answer.lower())
        return float(said is not None and not _is_long(answer, "yes") and (said[1] in {"yes", "true"}) == self.value)


def one_of(value: str, names: Iterable[str]) -> Names:
    """Grade one of some names, each a word of its own."""
    return Names((value,), any_of(names))


def any_of(names: Iterable[str]) -> str:
    """Return an expression for any of these names, as a word of its own."""
    return rf"\b(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\b"


def _is_long(answer: str, expected: str) -> bool:
    return len(answer) > _LONGEST + 2 * len(expected)


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


def _numbers(text: str) -> set[float]:
    text = _DATE.sub(" ", text)
    return {float(re.sub(r"[^0-9.-]", "", found.replace("−", "-"))) for found in _NUMBER.findall(text)}
