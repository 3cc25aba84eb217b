"""Where an answer comes from: nowhere (`made_up`), the question (`is_question`), an output (`ends_an_output`).

Pressed for an answer when nothing came of their code, small models name one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.trajectory import Trajectory

_SHORT = 200
"""Characters of an answer whose figures are looked for: in a longer one, some are worked out from others."""
_SIGNS = 20
"""Quotes and the like, by which an answer may be longer than the question that it only repeats."""
_FEWEST_WORDS = 3
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:[,_'\u00a0\u2009\u202f]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?")


def made_up(answer: str, trajectory: Trajectory) -> str | None:
    """Find a made-up figure: the first of a short answer of which none stands in the prompt or in any output.

    `None` where one does, and where the answer is long or has none.
    """
    figures = _figures(answer) if len(answer) <= _SHORT else {}
    if not figures or any(figures.keys() & _figures(text).keys() for text in _seen(trajectory)):
        return None
    return next(iter(figures.values()))


def is_question(answer: str, prompt: str) -> bool:
    """Return whether an answer is the question itself, word for word; case, blanks and signs don't count.

    `Paris` may well answer `Paris?`: a question of one or two words is none.
    """
    if len(answer) > len(prompt) + _SIGNS:
        return False
    words = _WORD.findall(prompt.casefold())
    return len(words) >= _FEWEST_WORDS and _WORD.findall(answer.casefold()) == words


def ends_an_output(text: str, trajectory: Trajectory) -> bool:
    """Return whether a line of some output is this text, or ends with it behind a colon, a comma or an equals sign.

    What only stands somewhere in a line may be its label: `total: 12` shows no answer `total`.
    """
    form = re.compile(rf"(?:^|[:=,]\s*)[\[('\"]*{re.escape(text)}[\])'\".]*\s*$", re.MULTILINE)
    return any(form.search(output) for output in _outputs(trajectory))


def _outputs(trajectory: Trajectory) -> Iterator[str]:
    """Yield what cells have shown but for errors, the last one first."""
    for iteration in reversed(trajectory.iterations):
        for cell in iteration.cells:
            yield outputs.render([output for output in cell.outputs if output.get("output_type") != "error"])


def _seen(trajectory: Trajectory) -> Iterator[str]:
    """Yield what a figure may come from, what was seen last first."""
    yield from _outputs(trajectory)
    yield trajectory.started.prompt
    yield trajectory.started.context.beginning


def _figures(text: str) -> dict[Decimal, str]:
    """Return the numbers in a text, as they are written there."""
    return {Decimal(re.sub(r"[^\d.]", "", found)): found for found in _NUMBER.findall(text)}
