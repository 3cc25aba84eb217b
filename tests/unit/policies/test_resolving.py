"""What a user may pass for a policy."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.policies import PolicyRegistry, RewardThresholdTerminationPolicy, StrictRewardPolicy
from rlm_jupyter.types.errors import ConfigurationError
from tests.unit.policies.cases import FINAL, START, Always, policy

MODULE = """
from rlm_jupyter.policies import PolicyRegistry, RewardPolicy, RewardSignal, TerminationPolicy

class Never(TerminationPolicy):
    @classmethod
    def get_default_config(cls):
        return {"n": 1}
    def should_terminate(self, result, context):
        return False, None

class Named(Never):
    name = "named"

class Outer:
    class Inner(Never):
        pass

class Half(TerminationPolicy):
    pass

class Fussy(Never):
    def __init__(self, config=None):
        super().__init__(config)
        self.n = int(self.config["n"])

class Settingless(Never):
    def __init__(self):
        super().__init__()

class Flat(RewardPolicy):
    def calculate(self, action, result, context):
        return RewardSignal(0.25)

def rate(action, result, context):
    return 0.5

def two(a, b):
    return 0.5

instance = Never()
number = 3
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "own_policies"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mine.py").write_text(MODULE)
    (package / "broken.py").write_text("import nowhere_to_be_found\n")
    (package / "failing.py").write_text("raise RuntimeError('two\\nlines')\n")
    (package / "wrong.py").write_text("def (:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("own_policies")]:
        del sys.modules[name]


def resolved(given: Any) -> tuple[str, dict[str, Any]]:
    found = PolicyRegistry.termination_from(given, "declared")
    return found.name, found.config


def test_nothing_means_the_default_that_is_given() -> None:
    PolicyRegistry.set_default_termination("confidence")
    assert resolved(None) == ("declared", {})
    assert PolicyRegistry.termination_from(None, "final_pattern").name == "final_pattern"
    assert PolicyRegistry.reward_from(None).name == "default"
    PolicyRegistry.set_default_reward("lenient")
    assert PolicyRegistry.reward_from(None).name == "lenient"
    with pytest.raises(ConfigurationError, match="Unknown termination policy 'nope'"):
        PolicyRegistry.termination_from(None, "nope")


def test_a_name_or_a_dict_or_json_makes_a_new_policy() -> None:
    given: Any
    entry = {"name": "reward_threshold", "config": {"min_reward_threshold": 3}}
    expected = {"min_reward_threshold": 3, "max_negative_streak": 3, "require_final_action": True}
    for given in (entry, json.dumps(entry), "\n " + json.dumps(entry)):
        assert resolved(given) == ("reward_threshold", expected)
    for given in ("reward_threshold", {"name": "reward_threshold"}, {"name": "reward_threshold", "config": None}):
        assert resolved(given)[1]["min_reward_threshold"] == 0.8
    first, second = (PolicyRegistry.termination_from("confidence", "declared") for _ in range(2))
    assert first is not second
    strict = PolicyRegistry.reward_from({"name": "strict", "config": {"success_bonus": 1}})
    assert (strict.name, strict.config["success_bonus"]) == ("strict", 1)
    assert PolicyRegistry.reward_from('{"name": "lenient"}').name == "lenient"


def test_a_policy_is_given_back_as_it_is_once_it_is_checked() -> None:
    mine, rewards = Always((False, None)), StrictRewardPolicy()
    assert PolicyRegistry.termination_from(mine, "declared") is mine
    assert mine.resets == 0
    assert PolicyRegistry.reward_from(rewards) is rewards
    with pytest.raises(ConfigurationError, match="reward_threshold: max_negative_streak: a number"):
        PolicyRegistry.termination_from(RewardThresholdTerminationPolicy({"max_negative_streak": "x"}), "declared")


def test_a_class_of_a_module_that_nobody_registered() -> None:
    assert resolved("own_policies.mine:Never") == ("own_policies.mine:Never", {"n": 1})
    assert resolved("own_policies.mine:Named") == ("named", {"n": 1})
    assert resolved("own_policies.mine:Outer.Inner") == ("own_policies.mine:Outer.Inner", {"n": 1})
    assert resolved({"name": "own_policies.mine:Named", "config": {"n": 2}}) == ("named", {"n": 2})
    assert resolved('{"name": "own_policies.mine:Named", "config": {"n": 3}}') == ("named", {"n": 3})
    assert PolicyRegistry.get_termination("own_policies.mine:Named", {"n": 4}).config == {"n": 4}
    flat = PolicyRegistry.reward_from("own_policies.mine:Flat")
    assert (flat.name, flat.calculate({}, FINAL, START).value) == ("own_policies.mine:Flat", 0.25)
    rating = PolicyRegistry.reward_from("own_policies.mine:rate")
    assert (rating.name, rating.calculate({}, FINAL, START).value) == ("rate", 0.5)
    assert "named" not in {entry["name"] for entry in PolicyRegistry.list_termination_policies()}


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("nowhere_at_all:Mine", "there is no module 'nowhere_at_all'"),
        ("nowhere_at_all.deep:Mine", "there is no module 'nowhere_at_all'"),
        ("own_policies.nope:Mine", "there is no module 'own_policies.nope'"),
        ("own_policies.mine:Nope", "own_policies.mine has no Nope"),
        ("own_policies.mine:Outer.Nope", "own_policies.mine has no Outer.Nope"),
        ("own_policies.broken:X", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("own_policies.failing:X", "own_policies.failing can't be imported: RuntimeError: two lines"),
        ("own_policies.wrong:X", "SyntaxError"),
        ("own_policies.mine:number", "is no TerminationPolicy"),
        ("own_policies.mine:instance", "is no TerminationPolicy"),
        ("own_policies.mine:Flat", "is no TerminationPolicy"),
        ("own_policies.mine:Half", "is no TerminationPolicy with all its methods"),
        ("own_policies.mine:rate", "is no TerminationPolicy"),
        ("json:JSONDecoder", "is no TerminationPolicy"),
        ("own_policies.mine:Settingless", "can't be made with None: TypeError"),
        (":Never", "package.module:name is needed"),
        ("own_policies.mine:", "package.module:name is needed"),
        (".mine:Never", "package.module:name is needed"),
        ("a:b:c", "package.module:name is needed"),
        ("own-policies:Never", "package.module:name is needed"),
        ("nope", "Unknown termination policy 'nope'. Available: declared, final_pattern"),
        ("", "Unknown termination policy ''"),
        ("{", "is no JSON"),
        ('{"name": "declared"', "is no JSON"),
        ('{"config": {}}', "the `name` of a policy is needed"),
        ('{"name": "declared", "x": 1}', "a dict with `name` and `config` is needed"),
        ('{"name": 3}', "the `name` of a policy is needed"),
        ('{"name": "confidence", "config": [1]}', r"confidence: config: a dict of settings is needed, not \[1\]"),
        ('{"name": "declared", "config": {"x": 1}}', "declared: unknown setting 'x'"),
        ('{"name": "own_policies.mine:Fussy", "config": {"n": "x"}}', "can't be made with .*: ValueError"),
        ('{"name": "own_policies.mine:Never", "config": {"m": 1}}', "Never: unknown setting 'm'. Known: n"),
    ],
)
def test_a_text_that_names_no_policy_is_told_in_one_line(path: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as raised:
        PolicyRegistry.termination_from(path, "declared")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        3,
        0,
        False,
        [],
        ["declared"],
        b"declared",
        print,
        object(),
        StrictRewardPolicy(),
        RewardThresholdTerminationPolicy,
    ],
)
def test_anything_else_is_refused_with_what_may_be_passed(given: Any) -> None:
    says = r"pass a name \(declared, .*\), 'package.module:ClassName', a dict with `name` and `config` or a TerminationPolicy, not "
    with pytest.raises(ConfigurationError, match=says):
        PolicyRegistry.termination_from(given, "declared")


@pytest.mark.parametrize("given", [3, 0.5, False, [], Always((False, None)), StrictRewardPolicy, int])
def test_what_is_no_reward_is_refused(given: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"a function \(action, result, context\) -> float or a RewardPolicy, not"
    ):
        PolicyRegistry.reward_from(given)


def test_a_class_in_place_of_an_object_is_told_how_to_become_one() -> None:
    with pytest.raises(ConfigurationError, match=r"make an object of it, StrictRewardPolicy\(\)\.$"):
        PolicyRegistry.reward_from(StrictRewardPolicy)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"make an object of it, RewardThresholdTerminationPolicy\(\)\.$"):
        PolicyRegistry.termination_from(RewardThresholdTerminationPolicy, "declared")  # type: ignore[arg-type]


def test_a_function_of_a_module_is_checked_too() -> None:
    with pytest.raises(ConfigurationError, match="two: a reward function takes"):
        PolicyRegistry.reward_from("own_policies.mine:two")
    with pytest.raises(ConfigurationError, match="is no RewardPolicy"):
        PolicyRegistry.reward_from({"name": "own_policies.mine:rate", "config": {"x": 1}})
    with pytest.raises(ConfigurationError, match="is no RewardPolicy"):
        PolicyRegistry.reward_from("own_policies.mine:Never")


def test_a_registered_name_goes_before_a_module() -> None:
    PolicyRegistry.register_termination("team:special")(
        policy_class := type("Special", (Always,), {"__init__": _plain})
    )
    assert type(policy("team:special")) is policy_class


def _plain(self: Always, config: Any = None) -> None:
    Always.__init__(self, (False, None))
