"""`TrajectoryView`: what the model has done so far, as data in its kernel.

The host has the record, so nothing is sent until a cell looks; then what is new since the last look comes over the
channel of the sub-calls. A kernel that was restarted asks for all of it again.
"""

from __future__ import annotations

import json
import operator
import re
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, overload

from rlm_jupyter.kernel.guest.subcall_client import SubcallError, SubcallFailure
from rlm_jupyter.kernel.guest.subcall_functions import MakesCalls

NAME = "trajectory"
"""What it is called there."""
_PARTS = ("reply", "code", "outputs", "notices")
_LINE_CHARS = 300
"""Of a line that is found; of a longer one, what is around the first word."""
_BEFORE_CHARS = 80
_ECHOES = ("Match(number=", "trajectory.search(")
"""In lines that only repeat what was searched for, and found."""


class IterationView(NamedTuple):
    """One iteration that is over."""

    number: int
    """From 1."""
    reply: str
    """What you wrote, code included."""
    code: str
    """Its blocks."""
    outputs: str
    """What they put out, whole."""
    notices: str
    """What you were told besides."""

    def __repr__(self) -> str:
        told = f"\n[{self.notices}]" if self.notices else ""
        return f"Iteration {self.number}:\n{self.reply}\nOutputs:\n{self.outputs or '(none)'}{told}"


class Match(NamedTuple):
    """A line that `search` has found."""

    number: int
    """Of the iteration."""
    part: str
    """`code`, `outputs`, `notices`, or `reply`: what was said beside the code."""
    line: str


class TrajectoryView:
    """The iterations so far: `trajectory[3]` is iteration 3, `trajectory[-1]` the last one that is over.

    Each has .number, .reply, .code, .outputs and .notices. `trajectory.search("some words")` finds lines.

    Parameters
    ----------
    calls
        Asks the host.
    """

    def __init__(self, calls: MakesCalls) -> None:
        self._calls = calls
        self._iterations: list[IterationView] = []
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Begin anew: another prompt is answered now."""
        self._iterations = []

    def search(self, text: str | re.Pattern[str], most: int = 50) -> list[Match]:
        """Return the lines that have all of these words, whatever their case, in order; at most so many, the newest.

        Of the iteration's code, outputs and notices, and of what was said beside the code; searches before this one,
        and what they found, are left out. A compiled pattern (`re.compile`) is searched for in each line.
        """
        if not isinstance(text, str | re.Pattern):
            raise TypeError(f"search takes a text or a compiled pattern, not {type(text).__name__}.")
        words = text.lower().split() if isinstance(text, str) else []
        if isinstance(text, str) and not words:
            raise ValueError("search takes words to look for; this text has none.")
        found: list[Match] = []
        for iteration in reversed(self._known()):
            here = [*_found(iteration, text, words)]
            found[:0] = here[-(most - len(found)) :] if most > len(found) else []
            if len(found) >= most:
                break
        return found

    def __len__(self) -> int:
        return len(self._known())

    def __iter__(self) -> Iterator[IterationView]:
        return iter([*self._known()])

    def __reversed__(self) -> Iterator[IterationView]:
        return reversed([*self._known()])

    @overload
    def __getitem__(self, number: int) -> IterationView: ...

    @overload
    def __getitem__(self, number: slice) -> list[IterationView]: ...

    def __getitem__(self, number: int | slice) -> IterationView | list[IterationView]:
        known = self._known()
        if isinstance(number, slice):
            return known[slice(_index(number.start), _index(number.stop), number.step)]
        number = operator.index(number)  # of anything else Python says that it is none
        if number == 0 or abs(number) > len(known):
            there = f"there are 1 to {len(known):,}" if known else "none is over yet"
            raise IndexError(f"trajectory[{number}]: iterations are counted from 1, and {there}.")
        return known[number - 1 if number > 0 else number]

    def __repr__(self) -> str:
        return (
            f"{len(self):,} iterations: trajectory[3] is iteration 3 (.reply, .code, .outputs, .notices), "
            'trajectory.search("some words") finds lines.'
        )

    def _known(self) -> list[IterationView]:
        """Return all iterations that are over, after having asked for those that are new."""
        with self._lock:
            more = True
            while more:
                [answer] = self._calls.call("trajectory", [str(len(self._iterations))], None)
                if isinstance(answer, SubcallFailure):
                    raise SubcallError(answer.reason)
                given: dict[str, Any] = json.loads(answer)
                self._iterations += [IterationView(**one) for one in given["iterations"]]
                more = given["more"]
            return self._iterations


def _index(number: int | None) -> int | None:
    return number - 1 if number is not None and number > 0 else number


def _found(iteration: IterationView, text: str | re.Pattern[str], words: list[str]) -> Iterator[Match]:
    for part in _PARTS:
        for line in _said(iteration, part).splitlines():
            if any(echo in line for echo in _ECHOES):
                continue
            if isinstance(text, re.Pattern):
                hit = text.search(line)
                at = -1 if hit is None else hit.start()
            else:
                lower = line.lower()
                at = lower.find(words[0]) if all(word in lower for word in words) else -1
            if at >= 0:
                yield Match(iteration.number, part, _cut(line, at))


def _said(iteration: IterationView, part: str) -> str:
    """Return a part of an iteration; of the reply what is beside the code, which is a part of its own."""
    whole = str(getattr(iteration, part))
    if part != "reply":
        return whole
    return re.sub(r"^```.*?(?:^```\s*$|\Z)", "", whole, flags=re.MULTILINE | re.DOTALL)


def _cut(line: str, at: int) -> str:
    if len(line) <= _LINE_CHARS:
        return line
    start = max(at - _BEFORE_CHARS, 0)
    end = start + _LINE_CHARS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
