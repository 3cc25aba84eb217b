"""Texts that look like an answer of a type, and are none: what models write instead of JSON, and what breaks parsers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

WHOLE = {"vendor": "Abel & Sons", "total": 40.5, "lines": [1, 2, 3], "paid": {"by": "card", "on": "2031-04-01"}}
TEXT = json.dumps(WHOLE)


class Paid(BaseModel):
    by: str
    on: str


class Invoice(BaseModel, extra="forbid"):
    vendor: str
    total: float = Field(gt=0)
    lines: list[int]
    paid: Paid


def malformed() -> list[str]:
    """Every one of them, each once; none is an invoice, however kindly it is read."""
    return list(dict.fromkeys([*_truncated(), *_other_types(), *_around(), *_numbers(), *_broken()]))


def _truncated() -> Iterator[str]:
    """A reply that was cut off, at every character."""
    for end in range(1, len(TEXT)):
        yield TEXT[:end]
        yield f"```json\n{TEXT[:end]}\n```"


def _other_types() -> Iterator[str]:
    others: dict[str, list[Any]] = {
        "vendor": [None, 1, [], {}, ["Abel"], True],
        "total": [None, "much", [], {}, 0, -1, "forty", [40.5], "40,5", "40.5 EUR"],
        "lines": [None, 1, "1, 2, 3", {}, [1, None], [1, "two"], [[1]], [1.5], {"0": 1}],
        "paid": [None, "card", [], {"by": "card"}, {"on": "2031-04-01"}, [["by", "card"]], {"by": None, "on": None}],
    }
    for name, values in others.items():
        yield json.dumps({key: value for key, value in WHOLE.items() if key != name})
        yield from (json.dumps(WHOLE | {name: value}) for value in values)
        yield json.dumps({key.upper() if key == name else key: value for key, value in WHOLE.items()})
    yield json.dumps(WHOLE | {"more": 1})
    yield json.dumps([WHOLE])
    yield json.dumps({"answer": WHOLE})
    yield json.dumps(TEXT)
    yield from ("null", "true", "[]", "{}", '""', "0", "Abel & Sons", "I don't know.")


def _around() -> Iterator[str]:
    """JSON with something else around it: what is meant is not guessed."""
    yield f"Here it is: {TEXT}"
    yield f"{TEXT}\nI hope this helps!"
    yield f"{TEXT}\n{TEXT}"
    yield f"{TEXT},"
    yield f"```json\n{TEXT}"
    yield f"```json\n{TEXT}\n```\nThat is all."
    yield f"Sure!\n```json\n{TEXT}\n```"
    yield f"<think>It is 40.5.</think>{TEXT}"
    yield f"FINAL({TEXT})"
    yield f"Invoice(**{WHOLE!r})"
    yield repr(WHOLE)
    yield TEXT.replace('"', "'")
    yield TEXT.replace('"', "\u201d")
    yield TEXT[:-1] + ",}"
    yield TEXT.replace(": ", " = ")
    yield f"{TEXT} // from the letterhead"
    yield f"/* an invoice */ {TEXT}"


def _numbers() -> Iterator[str]:
    for number in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        '"NaN"',
        '"inf"',
        "0x28",
        "040.5",
        "40.",
        ".5",
        "+4",
    ):
        yield TEXT.replace("40.5", number)
    yield TEXT.replace("[1, 2, 3]", "[1, 2, 3e999]")
    yield TEXT.replace("[1, 2, 3]", "[NaN]")


def _broken() -> Iterator[str]:
    for deep in (100, 1_000, 100_000):
        yield "[" * deep
        yield "[" * deep + "]" * deep
        yield '{"vendor": ' * deep + "1" + "}" * deep
        yield TEXT.replace("[1, 2, 3]", "[" * deep + "1" + "]" * deep)
    yield TEXT.replace("Abel", "Abel\n")  # a line end within a string
    yield TEXT.replace("Abel", "\x00")
    yield TEXT.replace("Abel", "\\x41bel")
    yield TEXT.replace("Abel", "\\u12")
    yield "\ud800"
    yield TEXT + "\ud800"
    yield "\ufeff" + TEXT[:40]
    yield "{" + '"a": 1, ' * 10_000
