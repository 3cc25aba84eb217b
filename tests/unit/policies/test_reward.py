import pytest

from rlm_jupyter.policies import ActionResult, PolicyContext, PolicyRegistry, RewardSignal
from rlm_jupyter.types.errors import ConfigurationError

GOOD = ActionResult("code", success=True, output="42")
BAD = ActionResult("code", success=False)
ERROR = ActionResult("code", success=False, error="ZeroDivisionError")
TIMEOUT = ActionResult("code", success=False, error="Execution timeout after 60s")
LONG = ActionResult("code", success=False, output="x" * 51)
FINAL = ActionResult("final", success=True, output="42")
LOST = ActionResult("final", success=False)


@pytest.mark.parametrize(
    ("name", "result", "value"),
    [
        ("default", GOOD, 0.8),
        ("default", BAD, -0.2),
        ("default", ERROR, -0.3),
        ("default", FINAL, 1.0),
        ("default", LOST, -0.2),
        ("default", ActionResult("code", success=False, metadata={"partial": True}), 0.4),
        ("strict", GOOD, 0.5),
        ("strict", BAD, -0.6),
        ("strict", ERROR, -0.9),
        ("strict", TIMEOUT, -1.0),
        ("strict", FINAL, 0.8),
        ("strict", ActionResult("final", success=True, error="warned"), 0.2),
        ("lenient", GOOD, 0.7),
        ("lenient", BAD, 0.1),
        ("lenient", LONG, 0.25),
        ("lenient", FINAL, 1.0),
        ("lenient", LOST, 0.5),
    ],
)
def test_rewards(name: str, result: ActionResult, value: float) -> None:
    signal = PolicyRegistry.get_reward(name).calculate({"action": result.action_type}, result, PolicyContext())
    assert signal.value == value


def test_a_reward_tells_what_it_is_made_of() -> None:
    signal = PolicyRegistry.get_reward("strict").calculate({"action": "code"}, TIMEOUT, PolicyContext())
    assert signal.components == {"failure": -0.6, "error": -0.3, "timeout": -0.4}
    assert signal.explanation == "failure -0.6, error -0.3, timeout -0.4"


def test_rewards_can_be_set() -> None:
    policy = PolicyRegistry.get_reward("default", {"success_bonus": 0.2, "base": 0})
    assert policy.calculate({}, GOOD, PolicyContext()).value == 0.2
    with pytest.raises(ConfigurationError, match="success_bonus: a number"):
        PolicyRegistry.get_reward("default", {"success_bonus": "much"})


def test_a_signal_can_be_clamped() -> None:
    assert [RewardSignal(v).clamped for v in (-3, 0.5, 3)] == [-1.0, 0.5, 1.0]
