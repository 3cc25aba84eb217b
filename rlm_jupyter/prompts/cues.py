"""What to reply next: the line that ends an iteration's outputs, and what a search in vain or a repetition calls for.

A small model takes its last instruction from the end of the message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm_jupyter.types.values import CellStatus

NUDGE = (
    "The same block again would give the same result. If its output answers the question, end with FINAL; if not, "
    "write a different one: look at another part, or search in another way."
)
NUDGE_IN_VAIN = (
    "The same block again would give the same result. Write a different one: look at what is there, or search in "
    "another way."
)
_SEARCH = (
    "reply with a block that searches all of `context` in another way: for fewer words, whatever their case, or that "
    "prints what is there."
)


def status(iteration: int, max_iterations: int, left: Sequence[str], cue: str = "") -> str:
    """Return the line that ends an iteration's outputs: which comes next, what is left, and what to reply.

    Parameters
    ----------
    cue
        What to reply, as far as the outputs tell (`cue`).
    """
    line = "No iteration is left." if iteration == max_iterations else f"Iteration {iteration + 1} of {max_iterations}."
    if left:
        line += f" Left: {', '.join(left)}."
    if iteration == max_iterations:
        return line
    if iteration + 1 == max_iterations:
        cue = "This is the last one: end with FINAL."
    return f"{line} {cue}".rstrip()


_FOUND_NOTHING = re.compile(
    r"(?=[^\n]{0,120}\Z).*\b(?:(?<!404 )not (?:be )?found|no(?:ne|thing)? (?:\w+ ){0,8}found|no match\w*)\b.*",
    re.IGNORECASE,
)
"""`says_nothing_found`."""
_NOTHING = re.compile(
    r"(?:[^\n]{0,80}(?::|=|\bis|\bare))?\s*(?:\[\]|\{\}|\(\)|set\(\)|''|None|0|0\.0|-1)\.?", re.IGNORECASE
)
"""An output that is empty or zero: what a search in vain shows, and what a count of none rightly is."""


def cue(statuses: Sequence[CellStatus], text: str) -> str:
    """Return what to reply, after cells that ended so and showed this; empty where none was executed.

    A small model takes its last instruction from the end of the message: told to end with FINAL if that is an answer,
    it ends with an error.
    """
    if not statuses:
        return ""
    if statuses[-1] != "ok":
        return "The block did not succeed: reply with a different one."
    if not text.strip():
        return (
            "The block printed nothing: nothing met its conditions, or it has no `print`. Reply with a different one, "
            "with fewer conditions, that prints how many it finds and the first of them."
        )
    if says_nothing_found(text):
        return f"Nothing was found that way: {_SEARCH}"
    if _NOTHING.fullmatch(text.strip()):
        return (
            "If that is the answer (there may be none), reply with a block that holds only FINAL(...), with the answer "
            f"in it; else {_SEARCH}"
        )
    return (
        "If the outputs answer the question, reply with a block that holds only FINAL(...), with the answer in it; "
        "else with different code."
    )


def says_nothing_found(text: str) -> bool:
    """Return whether a text says in words that a search was in vain; `0` and `[]` may be the answer."""
    return _FOUND_NOTHING.fullmatch(text.strip()) is not None


def nudge(statuses: Sequence[CellStatus], text: str) -> str:
    """Return what a model is told that was about to repeat cells which had ended so and shown this."""
    is_answer = statuses and statuses[-1] == "ok" and text.strip() and not says_nothing_found(text)
    return NUDGE if is_answer else NUDGE_IN_VAIN
