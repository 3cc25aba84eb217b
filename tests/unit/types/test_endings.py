"""The words for why a run ended, and what raises the limit behind that."""

from __future__ import annotations

import pytest

from rlm_jupyter.types.endings import raised_limit
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
