"""`GroundedTerminationPolicy`: a typed answer has to stand somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, TerminationPolicy
from rlm_jupyter.policies.final import accepted

_OURS = re.compile(
    r"^(?:Outputs(?: of block \d+)?:|\d+ more blocks? w\w+ not executed\.|Iteration \d+ of .*"
    r"|No iteration is left\..*)$",
    re.MULTILINE,
)
"""The lines that the run adds to outputs: a number in them grounds nothing."""
_PLAIN = {"yes", "no", "true", "false", "none", "unknown", "not found"}
"""Answers that say what was found, and stand nowhere."""
_MOST_VARIABLES = 50


class GroundedTerminationPolicy(TerminationPolicy):
    """Asks once about a short answer that was typed, and stands in no output, prompt or variable.

    Weak models end with a figure that they have nowhere from. What a cell computes is never asked about, nor is a text
    of some length, or a yes or no; said again, an answer is taken.

    Settings
    --------
    max_chars
        How long an answer may be to count as short: a number, a name.
    """

    name = "grounded"
    description = "Asks once about a short answer that stands in no output, prompt or variable."
    judges_final = True

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._has_asked = False

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return the default: up to 60 characters."""
        return {"max_chars": 60}

    def validate_config(self) -> list[str]:
        """Check that the length is a number."""
        return validation.numbers(self.config, "max_chars")

    def reset(self) -> None:
        """Forget that it has asked."""
        self._has_asked = False

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether a declared answer is taken; nothing else ends the run."""
        if result.action_type != "final":
            return False, None
        if self._has_asked or not self._is_typed(result, context) or _is_found(result.output, context):
            return accepted(result)
        self._has_asked = True
        return False, None

    def _is_typed(self, result: ActionResult, context: PolicyContext) -> bool:
        """Return whether the answer is a short literal in the cell that gave it."""
        from rlm_jupyter.parsing import constant_final

        answer = _plain(result.output)
        if not answer or answer in _PLAIN or len(result.output) > self.config["max_chars"]:
            return False
        code = str(context.history[-1].get("code", "")) if context.history else ""
        return constant_final(code) == result.output


def _is_found(answer: str, context: PolicyContext) -> bool:
    wanted = re.compile(rf"(?<![\w.]){re.escape(_plain(answer))}(?![\w]|\.\d)")
    return any(wanted.search(_plain(text)) for text in _texts(context))


def _texts(context: PolicyContext) -> Iterator[str]:
    """Yield where an answer may stand, what is at hand first."""
    yield context.task
    for step in reversed(context.history):
        yield _OURS.sub("", str(step.get("output") or ""))
    for name in islice(context.variables, _MOST_VARIABLES):
        try:
            yield str(context.variables[name])
        except KeyError:
            continue


def _plain(text: str) -> str:
    """Return a text as it is compared: in one case, with single spaces, numbers without separators."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", " ".join(text.casefold().split())).rstrip(".")
