"""Policies in whole runs: what they are told, what they end, what they send back, and how iterations are rated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.policies import (
    ActionResult,
    PolicyContext,
    PolicyRegistry,
    Reason,
    RewardPolicy,
    RewardSignal,
    TerminationPolicy,
)
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.result import Result
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import IterationRated
from tests.answers.table import block
from tests.support.loopback import KEY, Loopback, Said

CONTEXT = "a text" * 200
"""Longer than what a model is shown of it."""


class Seen(TerminationPolicy):
    """Keeps what it is told; ends nothing, and so takes any declared answer."""

    name = "seen"

    def reset(self) -> None:
        self.results: list[ActionResult] = []
        self.contexts: list[PolicyContext] = []
        self.values: list[dict[str, Any]] = []
        self.resets = getattr(self, "resets", 0) + 1

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        self.results.append(result)
        self.contexts.append(context)
        self.values.append({name: context.variables[name] for name in context.variables})
        return False, None


class Convergence(TerminationPolicy):
    """N equal outputs in a row end the run."""

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        return {"times": 2}

    def reset(self) -> None:
        self._last: str | None = None
        self._times = 0

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        self._times = self._times + 1 if result.output == self._last else 1
        self._last = result.output
        return self._times >= self.config["times"], result.output


@pytest.fixture
def convergence() -> Iterator[str]:
    PolicyRegistry.register_termination("convergence")(Convergence)
    yield "convergence"
    PolicyRegistry._policies["termination"].pop("convergence")


def answered(*replies: str, limits: Limits | None = None, **options: Any) -> Result:
    return RLM(ScriptedModel(list(replies)), save=False, limits=limits, **options).completion("What?", CONTEXT)


def test_a_policy_is_told_what_the_run_did() -> None:
    seen = Seen()
    result = answered(
        block("x = 41 + 1\nrows = [1, 2]\nprint(x)"),
        block("1 / 0"),
        block("confidence = 0.4\nFINAL(x)"),
        termination=seen,
        limits=Limits(max_iterations=7),
    )
    assert (result.answer, result.stop_reason, result.value) == ("42", "answered", 42)
    first, second, third = seen.results
    assert (first.action_type, first.success, first.output.strip(), first.error) == ("code", True, "42", None)
    assert (second.action_type, second.success, second.error) == ("code", False, "ZeroDivisionError: division by zero")
    assert (third.action_type, third.output, third.metadata["confidence"]) == ("final", "42", 0.4)
    assert first.duration_ms > 0 < first.tokens_used
    assert [context.step for context in seen.contexts] == [0, 1, 2]
    assert {(context.task, context.max_steps) for context in seen.contexts} == {("What?", 7)}
    assert seen.values[0] == {"x": 42, "rows": [1, 2]}
    last = seen.contexts[-1]
    assert [step["error"] for step in last.history] == [None, second.error, None]
    rated = [record for record in result.trajectory.records if isinstance(record, IterationRated)]
    assert last.metrics["last_reward"] == rated[-1].reward == last.history[-1]["reward"]
    assert last.metrics["total_reward"] == pytest.approx(sum(record.reward for record in rated))


def test_one_policy_object_serves_many_runs() -> None:
    seen = Seen()
    for _ in range(2):
        answered(block("print(context)"), block("FINAL(1)"), termination=seen)
        assert [result.action_type for result in seen.results] == ["code", "final"]
    assert seen.resets == 2


def test_children_beside_their_parent_get_a_policy_of_their_own() -> None:
    seen = Seen()

    def child(_: object) -> str:
        return block("FINAL(context[:5])")

    model = ScriptedModel([block("a = rlm_query('hello there')\nprint(a)"), child, block("FINAL(a)")])
    result = RLM(model, save=False, limits=Limits(max_depth=2), termination=seen).completion("What?", CONTEXT)
    assert result.answer == "hello"
    # the parent's two iterations, and not its child's
    assert [outcome.action_type for outcome in seen.results] == ["code", "final"]


@pytest.mark.parametrize("times", [2, 3])
def test_equal_outputs_end_a_run(convergence: str, times: int) -> None:
    same = [block(f"x = {n}\nprint('the same')") for n in range(5)]
    result = answered(*same, termination={"name": convergence, "config": {"times": times}})
    assert (result.answer, result.stop_reason) == ("the same", "terminated")
    assert len(result.trajectory.iterations) == times


def test_a_declared_answer_ends_a_run_beside_a_policy_that_only_looks_at_outputs(convergence: str) -> None:
    result = answered(block("FINAL('first')"), block("FINAL('first')"), termination=convergence)
    assert (result.answer, result.stop_reason) == ("first", "answered")


def test_an_answer_stated_with_doubt_is_sent_back_and_one_without_is_taken() -> None:
    result = answered(
        block("FINAL('early', confidence=0.99)"),
        block("print(context)"),
        block("FINAL('doubtful', confidence=0.5)"),
        block("FINAL('sure', confidence=0.9)"),
        termination="confidence",
    )
    assert (result.answer, result.stop_reason) == ("sure", "answered")
    notices = [notice for iteration in result.trajectory.iterations for notice in iteration.notices]
    assert sum("termination policy confidence did not accept it" in notice for notice in notices) == 1
    rated = [iteration.rated for iteration in result.trajectory.iterations]
    assert [record.confidence for record in rated if record] == [None, None, 0.5, 0.9]


@pytest.mark.parametrize("end", ["iterations", "dead kernel"])
def test_an_answer_that_was_sent_back_is_kept_for_the_limit(end: str) -> None:
    last = block("print(1)") if end == "iterations" else block("import os; os._exit(1)")
    result = answered(
        block("print(context)"),
        block("answer['content'] = 'a draft'\nFINAL('kept', confidence=0.1)"),
        last,
        limits=Limits(max_iterations=3),
        termination={"name": "confidence", "config": {"min_steps_before_termination": 0}},
    )
    assert (result.answer, result.stop_reason) == ("kept", "iterations")


def test_a_policy_that_fires_on_rewards_ends_the_run_by_the_salvage_order() -> None:
    replies = [block("x = 5\nprint('looked')"), block("print('and again')"), "The forced answer"]
    config = {"min_reward_threshold": 1.5, "require_final_action": False}
    result = answered(*replies, termination={"name": "reward_threshold", "config": config})
    assert (result.answer, result.stop_reason) == ("The forced answer", "terminated")
    assert "reward_threshold ended it" in (result.trajectory.ended or pytest.fail("no end")).message


def test_the_default_threshold_and_the_default_reward_wait_for_an_answer() -> None:
    replies = [block("print(len(context))"), block("print(context[:9])"), block("FINAL(len(context) + 1)")]
    result = answered(*replies, termination="reward_threshold")
    assert (result.stop_reason, result.answer) == ("answered", str(len(CONTEXT) + 1))
    # after two that failed, an answer is asked about once
    replies = [block("1/0"), block("[][1]"), block("FINAL(len(context))"), block("FINAL(len(context) + 2)")]
    result = answered(*replies, termination="reward_threshold")
    assert (result.stop_reason, result.answer) == ("answered", str(len(CONTEXT) + 2))
    failing = [block(f"x = {n}", "1/0") for n in range(3)]
    result = answered(*failing, "None", termination="reward_threshold")
    assert (result.stop_reason, len(result.trajectory.iterations)) == ("terminated", 3)


def test_a_draft_goes_before_a_policys_words() -> None:
    class Enough(TerminationPolicy):
        name = "enough"

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return True, Reason("enough is enough")

    result = answered(block("answer['content'] = 'a draft'\nprint(1)"), termination=Enough())
    assert (result.answer, result.stop_reason) == ("a draft", "terminated")
    assert (result.trajectory.ended or pytest.fail("no end")).message == "The policy enough ended it: enough is enough"


def test_printed_output_is_read_only_where_that_is_chosen() -> None:
    replies = [block("result = 4950\nprint(\"FINAL_VAR('result')\")"), block("FINAL('mine')")]
    assert answered(*replies).answer == "mine"
    chosen = answered(*replies, termination="final_pattern")
    assert (chosen.answer, chosen.stop_reason) == ("4950", "terminated")


def test_a_policy_that_breaks_costs_nobody_the_answer() -> None:
    class Broken(TerminationPolicy):
        name = "broken"

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            raise ZeroDivisionError("division by zero")

    result = answered(block("FINAL('mine')"), block("FINAL('mine')"), termination=Broken())
    assert (result.answer, result.stop_reason) == ("mine", "failed")
    ended = result.trajectory.ended
    assert ended is not None
    assert ended.message == "The termination policy broken failed: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("verdict", [None, True, (1, "x"), (True, 3)])
def test_what_is_no_verdict_is_named(verdict: Any) -> None:
    class Odd(TerminationPolicy):
        name = "odd"

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            return verdict

    result = answered(block("print(1)"), termination=Odd())
    ended = result.trajectory.ended
    assert ended is not None
    assert ended.stop_reason == "failed"
    assert ended.message.startswith("The termination policy odd returns (True or False, a text or None)")


def test_iterations_are_rated_by_a_plain_function_and_the_rating_is_saved(tmp_path: Any) -> None:
    def short(action: dict[str, Any], result: ActionResult, context: PolicyContext) -> float:
        return 0.5 if "print" in action["code"] else -0.25

    model = ScriptedModel([block("print(1)"), block("FINAL(2)"), block("FINAL(2)")])
    result = RLM(model, save=tmp_path / "run.ipynb", reward=short).completion("What?", CONTEXT)
    assert result.answer == "2"
    for trajectory in (result.trajectory, Trajectory.load(tmp_path / "run.ipynb")):
        rewards = [iteration.rated.reward for iteration in trajectory.iterations if iteration.rated]
        assert rewards == [0.5, -0.25]


def test_a_reward_policy_is_told_when_a_run_begins_and_ends() -> None:
    class Counted(RewardPolicy):
        name = "counted"

        def on_episode_start(self, context: PolicyContext) -> None:
            self.told: list[Any] = [context.task]

        def calculate(self, action: dict[str, Any], result: ActionResult, context: PolicyContext) -> RewardSignal:
            return RewardSignal(0.25, {"base": 0.25}, "always")

        def on_episode_end(self, context: PolicyContext, total_reward: float) -> None:
            self.told.append(total_reward)

    counted = Counted()
    answered(block("print(1)"), block("FINAL(2)"), reward=counted)
    assert counted.told == ["What?", 0.5]


def test_a_reward_that_is_no_number_is_named() -> None:
    result = answered(block("FINAL('mine')"), block("FINAL('mine')"), reward=lambda *_: "much")
    ended = result.trajectory.ended
    assert ended is not None
    assert (result.answer, ended.stop_reason) == ("mine", "failed")
    assert "much" in ended.message


def test_an_unknown_policy_is_found_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="Available: declared, final_pattern"):
        RLM("extractive", termination="nope")
    with pytest.raises(ConfigurationError, match="Available: default"):
        RLM("extractive", reward="nope")


def test_the_probability_of_the_tokens_counts_as_confidence_where_that_is_chosen() -> None:
    sure, unsure = ((-0.01,), (-2.0,))
    replies = [
        Said(block("FINAL('doubtful')"), logprobs=unsure),
        Said(block("FINAL('sure')"), logprobs=sure),
    ]
    config = {"use_token_confidence": True, "min_steps_before_termination": 0}
    with Loopback(list(replies)) as server:
        model = load_model("openai/test", base_url=server.openai_url, api_key=KEY)
        rlm = RLM(model, save=False, termination={"name": "confidence", "config": config})
        result = rlm.completion("What?")
    assert (result.answer, result.stop_reason) == ("sure", "answered")
