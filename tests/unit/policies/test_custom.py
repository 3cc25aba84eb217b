"""Policies of a user's own, as a user writes them."""

import copy
from typing import Any

import pytest

import rlm_jupyter.policies
from rlm_jupyter.policies import ActionResult, PolicyContext, PolicyRegistry, Reason, TerminationPolicy
from rlm_jupyter.policies.shared_policy import SharedPolicy
from rlm_jupyter.types.errors import ConfigurationError
from tests.unit.policies.cases import FINAL, START, code, policy


def convergence() -> type[TerminationPolicy]:
    @PolicyRegistry.register_termination("convergence")
    class Convergence(TerminationPolicy):
        """Ends when the last outputs are the same."""

        description = "Stops when outputs stop changing."

        @classmethod
        def get_default_config(cls) -> dict[str, Any]:
            return {"window_size": 3, "min_steps": 0}

        def __init__(self, config: dict[str, Any] | None = None) -> None:
            super().__init__(config)
            self.outputs: list[str] = []

        def validate_config(self) -> list[str]:
            return [] if self.config["window_size"] > 1 else ["window_size must be above 1."]

        def reset(self) -> None:
            self.outputs.clear()

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            config = {**self.get_default_config(), **self.config}
            self.outputs.append(result.output or "")
            window = self.outputs[-config["window_size"] :]
            if context.step < config["min_steps"] or len(window) < config["window_size"] or len(set(window)) > 1:
                return False, None
            return True, window[-1]

    return Convergence


def answers(policy: TerminationPolicy, *outputs: str) -> list[str | None]:
    verdicts = [policy.should_terminate(code(o), PolicyContext(step=i)) for i, o in enumerate(outputs)]
    assert all(ends == (answer is not None) for ends, answer in verdicts)
    return [answer for _, answer in verdicts]


def test_equal_outputs_in_a_row_end_a_run() -> None:
    cls = convergence()
    found = PolicyRegistry.get_termination("convergence")
    assert type(found) is cls
    assert answers(found, "a", "a", "b", "b", "b", "b") == [None, None, None, None, "b", "b"]
    found.reset()
    assert answers(found, "b", "b", "b") == [None, None, "b"]


def test_it_takes_settings() -> None:
    convergence()
    assert policy("convergence").config == {"window_size": 3, "min_steps": 0}
    assert answers(policy("convergence", window_size=2), "a", "a") == [None, "a"]
    assert answers(policy("convergence", window_size=2, min_steps=3), "a", "a", "a", "a") == [None, None, None, "a"]
    with pytest.raises(ConfigurationError, match="convergence: window_size must be above 1"):
        policy("convergence", window_size=1)
    with pytest.raises(ConfigurationError, match=r"unknown setting 'windw'\. Known: min_steps, window_size"):
        policy("convergence", windw=1)


def test_each_that_is_asked_for_is_a_new_one_with_a_memory_of_its_own() -> None:
    convergence()
    first, second = policy("convergence"), policy("convergence")
    assert answers(first, "a", "a", "a") == [None, None, "a"]
    assert answers(second, "a") == [None]
    copied = copy.deepcopy(first)
    copied.reset()
    assert answers(first, "a") == ["a"]
    assert answers(copied, "a") == [None]


def test_it_is_listed_and_takes_its_part_in_others() -> None:
    convergence()
    listed = {"name": "convergence", "description": "Stops when outputs stop changing."}
    assert listed in PolicyRegistry.list_termination_policies()
    entry = {"name": "convergence", "config": {"window_size": 2}}
    either = policy("composite", policies=["final_pattern", entry])
    assert answers(either, "a", "a", "FINAL('b')") == [None, "a", "b"]
    either.reset()
    assert answers(either, "a", "a") == [None, "a"]
    made = PolicyRegistry.create_from_config({"termination": entry})["termination"]
    assert made.config == {"window_size": 2, "min_steps": 0}


def test_what_a_policy_counts_with_may_be_set_in_reset_alone() -> None:
    # as the docstring of the package shows it
    lines = (rlm_jupyter.policies.__doc__ or "").splitlines()
    namespace: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in lines if line.startswith("    ")), namespace)
    assert answers(namespace["policy"], "a", "b", "b") == [None, None, "b"]
    assert policy("twice").description == "The same output twice in a row."


def test_a_policy_that_only_looks_at_outputs_needs_no_more() -> None:
    class Done(TerminationPolicy):
        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return (True, Reason("it says done")) if "done" in result.output else (False, None)

    done = Done()
    done.reset()
    assert (done.judges_final, done.wants_logprobs, done.config, done.name) == (False, False, {}, "")
    ends, text = done.should_terminate(code("done"), START)
    assert ends
    assert isinstance(text, Reason)
    assert policy("composite", policies=[done]).should_terminate(FINAL, START) == (True, "42")


def test_whether_it_judges_may_depend_on_its_settings() -> None:
    class Choosy(TerminationPolicy):
        @classmethod
        def get_default_config(cls) -> dict[str, Any]:
            return {"choosy": False}

        @property
        def judges_final(self) -> bool:  # type: ignore[override]
            return bool(self.config["choosy"])

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return False, None

    for choosy in (False, True):
        both = policy("composite", policies=[Choosy({"choosy": choosy})])
        assert both.judges_final is choosy
        assert both.should_terminate(FINAL, START)[0] is not choosy


def test_a_reason_is_a_text_that_keeps_its_kind() -> None:
    reason = Reason("why")
    assert (reason, f"{reason}!", reason.upper()) == ("why", "why!", "WHY")
    assert isinstance(copy.deepcopy(reason), Reason)
    assert not isinstance("why", Reason)


def test_a_policy_need_not_call_the_init_of_its_class() -> None:
    class Bare(TerminationPolicy):
        def __init__(self, most: int) -> None:
            self.most = most

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return context.step >= self.most, None

    bare = Bare(1)
    assert (bare.config, copy.deepcopy(bare).most) == ({}, 1)
    shared = SharedPolicy(bare)
    assert (shared.name, len(shared.digest)) == ("Bare", 64)
