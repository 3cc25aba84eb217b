"""Why a run ended, in words for people."""

from __future__ import annotations

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
    "context_window": "the conversation no longer fits the model's window",
    "no_progress": "the model repeated itself",
    "cancelled": "stopped by you",
    "kernel_died": "the kernel died too often",
    "no_agreement": "the samples do not agree",
    "failed": "an error ended the run",
}
_SAYS_ITSELF = {"no_progress", "cancelled", "failed"}
"""Where the message of a run is the reason itself."""


def why_ended(stop_reason: StopReason, message: str = "") -> str:
    """Say why a run ended, in one line that may follow a colon.

    Parameters
    ----------
    stop_reason, message
        Of the result, or of the run's last record.
    """
    message = " ".join(message.split()).rstrip(".")
    if message and stop_reason in _SAYS_ITSELF:
        return message
    return f"{WORDS[stop_reason]} ({message})" if message else WORDS[stop_reason]


def no_answer(stop_reason: StopReason, message: str = "") -> str:
    """Say that a run ended without an answer, and why."""
    return f"No answer: {why_ended(stop_reason, message)}"
