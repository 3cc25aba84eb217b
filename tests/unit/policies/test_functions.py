"""Functions that rate."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from rlm_jupyter.policies import ActionResult, FunctionRewardPolicy, PolicyContext, PolicyRegistry, RewardSignal
from rlm_jupyter.types.errors import ConfigurationError, PolicyError
from tests.unit.policies.cases import FINAL, START, code


def rate(action: dict[str, Any], result: ActionResult, context: PolicyContext) -> float:
    return 0.5 if result.success else -0.5


def test_a_function_rates() -> None:
    reward = PolicyRegistry.reward_from(rate)
    assert isinstance(reward, FunctionRewardPolicy)
    assert reward.name == "rate"
    assert reward.calculate({"action": "code"}, code("x"), START) == RewardSignal(0.5)
    assert reward.calculate({"action": "code"}, ActionResult("code", success=False), START).value == -0.5


def test_a_function_is_given_the_action_the_result_and_the_context() -> None:
    seen: list[object] = []

    def look(*given: object) -> RewardSignal:
        seen.extend(given)
        return RewardSignal(0.1, {"a": 0.1}, "looked")

    action = {"action": "code", "code": "1"}
    assert PolicyRegistry.reward_from(look).calculate(action, FINAL, START) == RewardSignal(0.1, {"a": 0.1}, "looked")
    assert seen[0] is action
    assert seen[1:] == [FINAL, START]


class Rating:
    def __call__(self, action: object, result: object, context: object, bonus: float = 1) -> float:
        return bonus


def test_whatever_can_be_called_with_three_arguments_serves() -> None:
    for function, name in (
        (Rating(), "Rating"),
        (partial(Rating(), bonus=1), "partial"),
        (lambda a, r, c: 1, "<lambda>"),
    ):
        reward = PolicyRegistry.reward_from(function)
        assert (reward.name, reward.calculate({}, FINAL, START).value) == (name, 1)


@pytest.mark.parametrize("value", [0.5, 1, -3, True, np.float32(0.5), np.int64(2), RewardSignal(0.5)])
def test_numbers_of_every_kind_are_rewards(value: Any) -> None:
    signal = PolicyRegistry.reward_from(lambda a, r, c: value).calculate({}, FINAL, START)
    assert signal.value == float(getattr(value, "value", value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "0.5",
        float("nan"),
        float("inf"),
        [],
        (0.5, "why"),
        1j,
        10**400,
        RewardSignal(float("nan")),
        RewardSignal(cast("float", "x")),
    ],
)
def test_a_reward_that_is_no_number_is_told_in_one_line(value: Any) -> None:
    def mine(action: object, result: object, context: object) -> Any:
        return value

    says = r"^mine: a reward function returns a finite number or a RewardSignal, not .*\.\Z"
    with pytest.raises(PolicyError, match=says):
        PolicyRegistry.reward_from(mine).calculate({}, FINAL, START)


async def later(action: object, result: object, context: object) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda result: 1, r"a reward function takes \(action, result, context\)\.$"),
        (lambda: 1, "a reward function takes"),
        (lambda a, r, c, more: 1, "a reward function takes"),
        (later, "later: a reward function takes .* and is not async"),
    ],
)
def test_a_function_that_cannot_rate_is_refused_at_once(function: Callable[..., Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        PolicyRegistry.reward_from(function)
