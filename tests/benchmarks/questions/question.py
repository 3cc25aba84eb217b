"""`Question`, and the register of the kinds of questions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from tests.benchmarks.questions.grading import Grader

Form = Literal["text", "json", "frame"]
"""How a context is handed over: as it is, as the data that its JSON holds, or as a data frame of its CSV."""
Length = Literal["fits", "10x", "100x"]
CHARS: Mapping[Length, int] = {"fits": 8_000, "10x": 500_000, "100x": 5_000_000}
"""Characters of a context, about: one that a window of 16,000 tokens holds, and ten and a hundred times such a window."""


@dataclass(frozen=True)
class Question:
    """A question about a context, and what is right."""

    kind: str
    length: Length
    prompt: str
    context: str
    """As text, whatever its form."""
    form: Form
    grader: Grader

    @property
    def name(self) -> str:
        """What it is called in tables and folders."""
        return f"{self.kind}.{self.length}"

    @property
    def answer(self) -> str:
        """What is right, in words."""
        return self.grader.expected

    def score(self, answer: object) -> float:
        """Grade an answer; none has nothing right in it."""
        return 0.0 if answer is None else self.grader.score(str(answer).strip(), self.prompt)


@dataclass(frozen=True)
class Made:
    """What a kind makes of a random generator and a length."""

    prompt: str
    context: str | list[Any] | dict[str, Any]
    """Lists and dicts are handed over as such."""
    grader: Grader
    form: Form | None = None


Maker = Callable[[Random, int], Made]


@dataclass(frozen=True)
class Kind:
    """A kind of question."""

    name: str
    context: str
    """What it is about: `CSV`, `log`, …"""
    is_seen: bool
    """Whether its runs may be looked at while prompts are tried; the others are for the table alone."""
    make: Maker

    def question(self, seed: int, length: Length) -> Question:
        """Make one: the same on every machine."""
        made = self.make(Random(f"{self.name} {seed} {length}"), CHARS[length])
        text = made.context if isinstance(made.context, str) else json.dumps(made.context, ensure_ascii=False)
        form = made.form or ("text" if isinstance(made.context, str) else "json")
        return Question(self.name, length, made.prompt, text, form, made.grader)


KINDS: dict[str, Kind] = {}


def kind(name: str, context: str, *, seen: bool) -> Callable[[Maker], Maker]:
    """Register what makes a kind of question."""

    def register(make: Maker) -> Maker:
        assert name not in KINDS, name
        KINDS[name] = Kind(name, context, seen, make)
        return make

    return register


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV, quoted where that is needed."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def as_json_lines(rows: Iterable[object]) -> str:
    """Each as a line of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def filled(row: Callable[[int], Any], chars: int, text_of: Callable[[list[Any]], str]) -> list[Any]:
    """Return so many rows, at least thirty, that their text has about so many characters."""
    first = [row(index) for index in range(30)]
    count = max(30, chars * 30 // len(text_of(first)))
    return first + [row(index) for index in range(30, count)]
