import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rlm_jupyter.policies
from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.policies import (
    ActionResult,
    FinalPatternTerminationPolicy,
    PolicyContext,
    PolicyRegistry,
    RewardPolicy,
    StrictRewardPolicy,
    TerminationPolicy,
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    PolicyRegistry.list_all()
    policies = {kind: dict(known) for kind, known in PolicyRegistry._policies.items()}
    defaults = dict(PolicyRegistry._defaults)
    yield
    PolicyRegistry._policies.update(policies)
    PolicyRegistry._defaults.update(defaults)


def convergence() -> type[TerminationPolicy]:
    class Convergence(TerminationPolicy):
        name = "convergence"
        description = "Stops when outputs stop changing."

        @classmethod
        def get_default_config(cls) -> dict[str, Any]:
            return {"window_size": 3}

        def __init__(self, config: dict[str, Any] | None = None) -> None:
            super().__init__(config)
            self.seen: list[str] = []

        def validate_config(self) -> list[str]:
            return [] if self.config["window_size"] > 1 else ["window_size must be above 1."]

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            config = {**self.get_default_config(), **self.config}
            self.seen.append(result.output)
            window = self.seen[-config["window_size"] :]
            converged = len(window) == config["window_size"] and len(set(window)) == 1
            return converged, window[-1] if converged else None

    return Convergence


def test_a_policy_of_ones_own_is_found_by_name() -> None:
    cls = PolicyRegistry.register_termination("mine")(convergence())
    policy = PolicyRegistry.get_termination("mine", {"window_size": 2})
    assert type(policy) is cls
    assert PolicyRegistry.get_termination("mine") is not policy
    same = ActionResult("code", success=True, output="a")
    assert [policy.should_terminate(same, PolicyContext()) for _ in range(2)] == [(False, None), (True, "a")]
    assert {"name": "mine", "description": cls.description} in PolicyRegistry.list_termination_policies()


def test_a_policy_is_registered_under_its_own_name_and_again_when_its_cell_runs_again() -> None:
    PolicyRegistry.register_termination()(convergence())
    again = PolicyRegistry.register_termination()(convergence())
    assert type(PolicyRegistry.get_termination("convergence")) is again


def test_what_is_no_policy_is_not_registered() -> None:
    class Nameless(TerminationPolicy):
        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return False, None

    with pytest.raises(ConfigurationError, match="a name is needed"):
        PolicyRegistry.register_termination()(Nameless)
    with pytest.raises(ConfigurationError, match="no RewardPolicy"):
        PolicyRegistry.register_reward("x")(Nameless)
    with pytest.raises(ConfigurationError, match="no RewardPolicy"):
        PolicyRegistry.register_reward("x")(RewardPolicy)  # type: ignore[type-abstract]
    with pytest.raises(ConfigurationError, match="built-in"):
        PolicyRegistry.register_termination("declared")(Nameless)


def test_unknown_names_and_settings_are_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'x'\. Available: declared, final_pattern, reward_threshold"):
        PolicyRegistry.get_termination("x")
    with pytest.raises(ValueError, match="Unknown reward policy 'x'"):
        PolicyRegistry.get_reward("x")
    with pytest.raises(ConfigurationError, match=r"'windw'\. Known: case_sensitive, extract_answer, final_patterns"):
        PolicyRegistry.get_termination("final_pattern", {"windw": 1})


def test_settings_are_merged_with_the_defaults_and_checked() -> None:
    PolicyRegistry.register_termination()(convergence())
    assert PolicyRegistry.get_termination("convergence").config == {"window_size": 3}
    with pytest.raises(ConfigurationError, match="convergence: window_size must be above 1"):
        PolicyRegistry.get_termination("convergence", {"window_size": 1})
    assert FinalPatternTerminationPolicy({"case_sensitive": True}).config["extract_answer"] is True


def test_defaults_can_be_changed() -> None:
    assert PolicyRegistry.get_termination().name == "final_pattern"
    assert PolicyRegistry.get_reward().name == "default"
    PolicyRegistry.set_default_termination("confidence")
    PolicyRegistry.set_default_reward("strict")
    assert PolicyRegistry.get_termination().name == "confidence"
    assert isinstance(PolicyRegistry.get_reward(), StrictRewardPolicy)
    with pytest.raises(ConfigurationError, match="Unknown termination policy 'x'"):
        PolicyRegistry.set_default_termination("x")
    with pytest.raises(ConfigurationError, match="Unknown reward policy 'x'"):
        PolicyRegistry.set_default_reward("x")


def test_policies_come_from_plain_data() -> None:
    made = PolicyRegistry.create_from_config(
        {"termination": {"name": "composite", "config": {"policies": ["declared"]}}, "reward": {}}
    )
    assert {kind: policy.name for kind, policy in made.items()} == {"termination": "composite", "reward": "default"}
    assert PolicyRegistry.create_from_config({}) == {}
    with pytest.raises(ConfigurationError, match=r"'action'\. Known: termination, reward"):
        PolicyRegistry.create_from_config({"action": {"name": "greedy"}})
    with pytest.raises(ConfigurationError, match="a dict with `name` and `config`"):
        PolicyRegistry.create_from_config({"reward": {"nam": "strict"}})


def test_everything_is_listed() -> None:
    listing = PolicyRegistry.list_all()
    assert [entry["name"] for entry in listing["termination"]] == [
        "declared",
        "final_pattern",
        "reward_threshold",
        "confidence",
        "composite",
    ]
    assert listing["reward"] == PolicyRegistry.list_reward_policies()
    assert all(entry["description"] for entries in listing.values() for entry in entries)


def test_every_exported_name_is_there() -> None:
    for name in rlm_jupyter.policies.__all__:
        assert getattr(rlm_jupyter.policies, name).__name__ == name
    assert dir(rlm_jupyter.policies) == sorted(rlm_jupyter.policies.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = rlm_jupyter.policies.nope


def test_importing_policies_loads_none_of_them() -> None:
    code = "import sys, rlm_jupyter.policies; print(*(m for m in sys.modules if m.startswith('rlm_jupyter.pol')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["rlm_jupyter.policies"]
