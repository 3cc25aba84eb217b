"""The words for why a run ended, and what raises the limit behind that."""

from __future__ import annotations

import pytest

from rlm_jupyter.types.endings import beside_headline, raised_limit, too_large
from rlm_jupyter.types.values import StopReason


@pytest.mark.parametrize(
    ("stop_reason", "limits", "used", "option"),
    [
        ("iterations", {"max_iterations": 30}, 0, "--max-iterations 60"),
        ("subcalls", {"max_subcalls": 0}, 0, "--max-subcalls 1"),
        ("seconds", {"max_seconds": 60.0}, 60.4, "--max-seconds 120"),
        ("cost", {"max_cost": None}, 3.0, "--max-cost N"),
        # it was raised to 8000 by hand, which is not recorded
        ("tokens", {"max_tokens": 1000}, 7900, "--max-tokens 16000"),
        ("cost", {"max_cost": 0.1}, 0.3, "--max-cost 0.8"),
    ],
)
def test_the_limit_that_is_proposed_is_above_what_was_used(
    stop_reason: StopReason, limits: dict[str, float | None], used: float, option: str
) -> None:
    assert raised_limit(stop_reason, limits, used) == option


@pytest.mark.parametrize(
    ("stop_reason", "limit", "needed", "option"),
    [
        ("tokens", 10, "use 3,451 tokens", "--max-tokens 10240"),
        ("cost", 0.0001, "cost $0.0300", "--max-cost 0.0512"),
    ],
)
def test_the_limit_that_is_proposed_lets_the_next_request_be_sent(
    stop_reason: StopReason, limit: float, needed: str, option: str
) -> None:
    message = too_large(needed, "5", "10")
    assert raised_limit(stop_reason, {f"max_{stop_reason}": limit}, 5 if limit == 10 else 0, message) == option


@pytest.mark.parametrize(
    ("stop_reason", "message", "said"),
    [
        ("no_progress", "Nothing in the context matches. Try others.", "No answer: Try others."),
        ("no_progress", "", "No answer."),
        ("context_window", "x/y reads 10 tokens", "No answer: x/y reads 10 tokens."),
        ("failed", "it broke off. Is that its address?", "No answer: it broke off. Is that its address?"),
        ("seconds", "", "No answer."),
        ("seconds", "while retrying, 2 tries so far: x", "No answer: while retrying, 2 tries so far: x."),
        ("failed", "broken", "No answer: broken."),
    ],
)
def test_a_reason_that_stands_in_the_headline_is_not_said_twice(
    stop_reason: StopReason, message: str, said: str
) -> None:
    assert beside_headline(stop_reason, message) == said
