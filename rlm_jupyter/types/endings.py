"""Why a run ended, in words for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlm_jupyter.types.sentence import sentence

if TYPE_CHECKING:
    from rlm_jupyter.types.values import StopReason

WORDS: dict[StopReason, str] = {
    "answered": "answered",
    "terminated": "ended by its termination policy",
    "iterations": "iteration limit reached",
    "errors": "too many iterations failed in a row",
    "tokens": "token limit reached",
    "cost": "cost limit reached",
    "seconds": "time limit reached",
    "subcalls": "sub-call limit reached",
    "context_window": "the conversation does not fit the model's window",
    "no_progress": "the model repeated itself",
    "cancelled": "stopped by you",
    "kernel_died": "the kernel died too often",
    "no_agreement": "the samples do not agree",
    "answer_invalid": "the answer or its files are not as they were asked for",
    "failed": "failed",
}
LIMITED_BY = {
    "iterations": "max_iterations",
    "tokens": "max_tokens",
    "cost": "max_cost",
    "seconds": "max_seconds",
    "subcalls": "max_subcalls",
    "answer_invalid": "max_answer_errors",
}
"""The limit behind a stop reason."""
RESUMABLE = {"failed", "cancelled", "kernel_died"}
"""What may end otherwise when the run is resumed as it is."""
_MORE = 1.5
"""How many times what a run has used its raised limit is, at least."""
_NEEDED = re.compile(r"a request may (?:use (?P<tokens>[\d,]+) tokens|cost \$(?P<dollars>[\d.]+)),")
"""In `too_large`."""
SAYS_ITSELF: set[StopReason] = {"no_progress", "cancelled", "failed"}
"""Where the message of a run is the reason itself."""


def why_ended(stop_reason: StopReason, message: str = "") -> str:
    """Say why a run ended, in one line that may follow a colon.

    Parameters
    ----------
    stop_reason, message
        Of the result, or of the run's last record.
    """
    message = " ".join(message.split()).rstrip(".")
    if message and stop_reason in SAYS_ITSELF:
        return message
    return f"{WORDS[stop_reason]} ({message})" if message else WORDS[stop_reason]


def in_short(stop_reason: StopReason, message: str = "") -> str:
    """Say why a run ended, in a few words: alike in its headline, its notebook and the list of runs.

    Parameters
    ----------
    stop_reason, message
        Of the result, or of the run's last record.
    """
    is_said = bool(message) and stop_reason in {"cancelled", "no_progress"}  # and says more than the reason's words
    if not is_said:
        return WORDS[stop_reason]
    words = why_ended(stop_reason, message).partition(". ")[0]
    return words[0].lower() + words[1:] if words[1:2].islower() else words  # as the other reasons


def beside_headline(stop_reason: StopReason, message: str = "") -> str:
    """Say that a run ended without an answer, and of the reason what is not `in_short` in the headline above it.

    Parameters
    ----------
    stop_reason, message
        Of the result, or of the run's last record.
    """
    why, short = why_ended(stop_reason, message), in_short(stop_reason, message)
    if not why.lower().startswith(short.lower()):
        return sentence(f"No answer: {why}")
    rest = why[len(short) :].strip(" .")
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1]
    return sentence(f"No answer: {rest}") if rest else "No answer."


def remark(stop_reason: StopReason, message: str = "") -> str:
    """Return what a message says beside the headline (`in_short`): of a draft, what is missing of it, say a file."""
    if stop_reason in {"cancelled", "no_progress"}:
        return message.partition(". ")[2]
    return "" if stop_reason in SAYS_ITSELF else message


def no_answer(stop_reason: StopReason, message: str = "") -> str:
    """Say that a run ended without an answer, and why."""
    return f"No answer: {why_ended(stop_reason, message)}"


def too_large(needed: str, left: str, of: str) -> str:
    """Say that a request was not sent, because it may take more than is left of a limit."""
    return f"a request may {needed}, and {left} of {of} are left"


def raised_limit(stop_reason: StopReason, limits: Mapping[str, Any], used: float = 0, message: str = "") -> str:
    """Return the option that raises the limit behind a stop reason, to twice what it was: `--max-iterations 60`.

    Parameters
    ----------
    limits
        Those of the run, by their names.
    used
        How much of what is limited the run took: more than the limit, where that was raised as it went on.
    message
        Of the result: it may say what a further request needs (`too_large`).
    """
    name = LIMITED_BY[stop_reason]
    before = limits.get(name)
    if before is None:
        return f"--{name.replace('_', '-')} N"
    if (needed := _NEEDED.search(message)) is not None:
        used += float((needed["tokens"] or needed["dollars"]).replace(",", ""))
    raised = before * 2 or 1
    while raised < used * _MORE:
        raised *= 2
    return f"--{name.replace('_', '-')} {raised:.10g}"
