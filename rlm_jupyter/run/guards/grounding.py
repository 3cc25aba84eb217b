"""`made_up`, `echoed`: a last word that comes from nowhere, or from the question itself.

Pressed for an answer when nothing came of their code, small models name a figure, or say the question again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher

from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.trajectory import Trajectory

_SHORT = 200
"""Characters of an answer whose figures are looked for: in a longer one, some are worked out from others."""
_LEAST_ECHO = 8
"""Words in a row that are the prompt's: an answer that says again what it answers has fewer."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:[,_'\u00a0\u2009\u202f]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?")


def made_up(answer: str, trajectory: Trajectory) -> str | None:
    """Find a made-up figure: the first of a short answer of which none stands in the prompt or in any output.

    `None` where one does, and where the answer is long or has none.
    """
    figures = _figures(answer) if len(answer) <= _SHORT else {}
    if not figures or any(figures.keys() & _figures(text).keys() for text in _seen(trajectory)):
        return None
    return next(iter(figures.values()))


def echoed(answer: str, prompt: str) -> bool:
    """Whether a short answer is for its most part the prompt's own words, in a row."""
    said, asked = (re.findall(r"\w+", text.lower()) for text in (answer, prompt))
    if len(answer) > _SHORT or len(said) < _LEAST_ECHO:
        return False
    same = SequenceMatcher(None, said, asked, autojunk=False).find_longest_match()
    return same.size >= max(_LEAST_ECHO, len(said) / 2)


def _seen(trajectory: Trajectory) -> Iterator[str]:
    """Yield what a figure may come from, what was seen last first."""
    for iteration in reversed(trajectory.iterations):
        for cell in iteration.cells:
            yield outputs.render([output for output in cell.outputs if output.get("output_type") != "error"])
    yield trajectory.started.prompt
    yield trajectory.started.context.beginning


def _figures(text: str) -> dict[Decimal, str]:
    """Return the numbers in a text, as they are written there."""
    return {Decimal(re.sub(r"[^\d.]", "", found)): found for found in _NUMBER.findall(text)}
