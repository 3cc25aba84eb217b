import subprocess
import sys

import pytest

import rlm_jupyter.policies
from rlm_jupyter.policies import (
    ActionResult,
    FinalPatternTerminationPolicy,
    PolicyContext,
    PolicyRegistry,
    RewardPolicy,
    StrictRewardPolicy,
    TerminationPolicy,
)
from rlm_jupyter.types.errors import ConfigurationError


class Nameless(TerminationPolicy):
    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        return False, None


def named(name: str) -> type[TerminationPolicy]:
    return type("Named", (Nameless,), {"name": name})


def test_a_policy_is_registered_under_its_own_name_and_again_when_its_cell_runs_again() -> None:
    PolicyRegistry.register_termination()(named("mine"))
    again = PolicyRegistry.register_termination()(named("mine"))
    assert type(PolicyRegistry.get_termination("mine")) is again
    other = PolicyRegistry.register_termination("other")(named("mine"))
    assert other.name == "other"


def test_a_new_one_is_made_each_time_and_reset() -> None:
    @PolicyRegistry.register_termination("counting")
    class Counting(Nameless):
        def reset(self) -> None:
            self.seen: list[str] = []

    first, second = (PolicyRegistry.get_termination("counting") for _ in range(2))
    assert isinstance(first, Counting)
    assert isinstance(second, Counting)
    assert first is not second
    assert first.seen is not second.seen


def test_what_is_no_policy_is_not_registered() -> None:
    with pytest.raises(ConfigurationError, match="a name is needed"):
        PolicyRegistry.register_termination()(Nameless)
    with pytest.raises(ConfigurationError, match="no RewardPolicy"):
        PolicyRegistry.register_reward("x")(Nameless)
    with pytest.raises(ConfigurationError, match="no RewardPolicy"):
        PolicyRegistry.register_reward("x")(RewardPolicy)  # type: ignore[type-abstract]
    with pytest.raises(ConfigurationError, match="no TerminationPolicy"):
        PolicyRegistry.register_termination("x")(lambda result, context: (False, None))  # type: ignore[arg-type, type-var]
    with pytest.raises(ConfigurationError, match=r"A name is needed: @PolicyRegistry.register_termination\('name'\)"):
        PolicyRegistry.register_termination(Nameless)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="built-in"):
        PolicyRegistry.register_termination("declared")(Nameless)


def test_unknown_names_and_settings_are_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'x'\. Available: declared, final_pattern, reward_threshold"):
        PolicyRegistry.get_termination("x")
    with pytest.raises(ValueError, match="Unknown reward policy 'x'"):
        PolicyRegistry.get_reward("x")
    with pytest.raises(ConfigurationError, match=r"'windw'\. Known: case_sensitive, extract_answer, final_patterns"):
        PolicyRegistry.get_termination("final_pattern", {"windw": 1})


def test_settings_are_merged_with_the_defaults() -> None:
    given = {"case_sensitive": True}
    merged = PolicyRegistry.get_termination("final_pattern", given).config
    assert merged == FinalPatternTerminationPolicy.get_default_config() | given
    assert given == {"case_sensitive": True}
    for wrong in ([("case_sensitive", True)], "x", 3):
        with pytest.raises(ConfigurationError, match="final_pattern: config: a dict of settings is needed, not"):
            PolicyRegistry.get_termination("final_pattern", wrong)  # type: ignore[arg-type]


def test_a_policy_without_defaults_takes_any_setting() -> None:
    PolicyRegistry.register_termination("free")(Nameless)
    assert PolicyRegistry.get_termination("free", {"anything": 1}).config == {"anything": 1}


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
    assert PolicyRegistry.create_from_config({"reward": {"name": None, "config": None}})["reward"].name == "default"
    with pytest.raises(ConfigurationError, match="A dict of kinds of policies is needed, not 3"):
        PolicyRegistry.create_from_config(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Unknown reward policy 'nope'"):
        PolicyRegistry.create_from_config({"reward": {"name": "nope"}})
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
        "grounded",
        "composite",
    ]
    assert [entry["name"] for entry in listing["reward"]] == ["default", "strict", "lenient"]
    assert listing["reward"] == PolicyRegistry.list_reward_policies()
    assert listing["termination"] == PolicyRegistry.list_termination_policies()
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
