from typing import Any

import pytest

from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.policies import ActionResult, PolicyContext, PolicyRegistry, TerminationPolicy


def policy(name: str, **config: Any) -> TerminationPolicy:
    return PolicyRegistry.get_termination(name, config)


def code(output: str = "", **more: Any) -> ActionResult:
    return ActionResult("code", success=True, output=output, **more)


FINAL = ActionResult("final", success=True, output="42")
START = PolicyContext()


def rewarded(reward: float) -> PolicyContext:
    return PolicyContext(metrics={"last_reward": reward})


def test_declared_never_ends_a_run() -> None:
    declared = policy("declared")
    for result in (FINAL, code("FINAL(42)")):
        assert declared.should_terminate(result, START) == (False, None)


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("FINAL('42')", "42"),
        ("FINAL(42)", "42"),
        ("some lines\n  FINAL(f(1,2))\nmore", "f(1,2)"),
        ("FINAL(a (b) c)", "a (b) c"),
        ('FINAL("a ) b")', "a ) b"),
        ("FINAL('line1\nline2')", "line1\nline2"),
        ("final(draft)", "draft"),
        ("FINAL_VAR('result')", "4950"),
        ("FINAL_VAR(result)", "4950"),
        ("FINAL('x')\nFINAL_VAR(result)", "4950"),
        ("After computing, the answer is FINAL('42')", "42"),
        ('I think it is FINAL_VAR("result").', "4950"),
        ("FINAL()", ""),
    ],
)
def test_final_pattern_finds_answers(output: str, answer: str) -> None:
    context = PolicyContext(variables={"result": 4950})
    assert policy("final_pattern").should_terminate(code(output), context) == (True, answer)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "the semi final (Germany vs Spain)",
        "SEMIFINAL(3)",
        "SEMIFINAL('3')",
        "we call it final (draft)",
        "I will call FINAL(x) later",
        "def FINAL(x): pass",
        "def FINAL('x')",
        "FINAL_VAR('missing')",
        "FINAL_VAR(missing)\nFINAL(3)",
        "FINAL(never closed",
    ],
)
def test_final_pattern_takes_nothing_else_for_an_answer(output: str) -> None:
    assert policy("final_pattern").should_terminate(code(output), START) == (False, None)


def test_a_final_action_ends_with_its_output() -> None:
    for name in ("final_pattern", "confidence"):
        assert policy(name).should_terminate(FINAL, START) == (True, "42")
        assert policy(name).should_terminate(ActionResult("final", success=True), START) == (True, None)


def test_final_pattern_settings() -> None:
    context = PolicyContext(variables={"n": 7})

    def answer(output: str, **config: Any) -> tuple[bool, str | None]:
        return policy("final_pattern", **config).should_terminate(code(output), context)

    assert answer("final(3)", case_sensitive=True) == (False, None)
    assert answer("so final('3')", case_sensitive=True) == (False, None)
    assert answer("a\nFINAL(3)\nb", extract_answer=False) == (True, "a\nFINAL(3)\nb")
    assert answer("a\nANSWER: 3 \nb", final_patterns=[r"ANSWER:\s*(.+?)$"]) == (True, "3")
    assert answer("answer: 3", final_patterns=[r"ANSWER: \d"]) == (True, "answer: 3")
    assert answer("FINAL(3)", final_patterns=[r"ANSWER: \d"]) == (False, None)
    assert answer("FINAL(3)", final_patterns=["ANSWER", "FINAL"]) == (True, "3")
    assert answer("final_var<n>", final_patterns=[r"final_var<(\w+)>"]) == (True, "7")


def test_final_pattern_refuses_what_is_no_pattern() -> None:
    with pytest.raises(ConfigurationError, match="regular expression"):
        policy("final_pattern", final_patterns=["("])
    with pytest.raises(ConfigurationError, match="a list"):
        policy("final_pattern", final_patterns="FINAL")


def test_rewards_add_up_to_the_threshold() -> None:
    threshold = policy("reward_threshold")
    assert threshold.should_terminate(code("a"), rewarded(0.4)) == (False, None)
    assert threshold.should_terminate(code("b"), rewarded(0.5)) == (True, "b")
    threshold.reset()
    ends = [threshold.should_terminate(code(), rewarded(0.1))[0] for _ in range(8)]
    assert ends == [False] * 7 + [True]
    assert policy("reward_threshold", min_reward_threshold=0.3).should_terminate(code(), rewarded(0.5)) == (True, None)
    assert policy("reward_threshold").should_terminate(code(), START) == (False, None)


def test_negative_rewards_end_a_run_without_an_answer() -> None:
    threshold = policy("reward_threshold")
    verdicts = [threshold.should_terminate(code("x"), rewarded(r)) for r in (-1, -1, 0, -1, -1, -1)]
    assert verdicts == [(False, None)] * 5 + [(True, None)]


def test_a_threshold_may_wait_for_a_final_action() -> None:
    threshold = policy("reward_threshold", require_final_action=True)
    assert threshold.should_terminate(code("x"), rewarded(5)) == (False, None)
    assert threshold.should_terminate(FINAL, rewarded(0)) == (True, "42")
    # a sum that suffices doesn't hide that it went wrong since
    verdicts = [threshold.should_terminate(code("x"), rewarded(-1)) for _ in range(3)]
    assert verdicts == [(False, None), (False, None), (True, None)]


@pytest.mark.parametrize(
    ("confidence", "step", "verdict"),
    [
        (0.99, 1, (False, None)),
        (0.99, 2, (True, "x")),
        (0.85, 2, (True, "x")),
        (0.84, 2, (False, None)),
        ("0.9", 2, (True, "x")),
        ("high", 2, (False, None)),
        (None, 2, (False, None)),
        (True, 2, (False, None)),
        (float("nan"), 2, (False, None)),
    ],
)
def test_confidence_ends_a_run(confidence: object, step: int, verdict: tuple[bool, str | None]) -> None:
    result = code("x", metadata={"confidence": confidence})
    assert policy("confidence").should_terminate(result, PolicyContext(step=step)) == verdict


def test_confidence_does_not_hold_back_an_explicit_final() -> None:
    assert policy("confidence").should_terminate(code("FINAL(1)"), START) == (True, "1")
    alone = policy("confidence", fallback_to_final_pattern=False)
    assert alone.should_terminate(code("FINAL(1)"), START) == (False, None)
    other = policy("confidence", final_pattern={"final_patterns": ["DONE (.+)"]}, confidence_key="sure")
    assert other.should_terminate(code("DONE 3"), START) == (True, "3")
    assert other.should_terminate(code("x", metadata={"sure": 1}), PolicyContext(step=5)) == (True, "x")


def test_composite_ends_on_any() -> None:
    either = policy("composite")
    assert either.should_terminate(code("x"), rewarded(0.1)) == (False, None)
    assert either.should_terminate(code("FINAL(1)"), rewarded(0.1)) == (True, "1")
    assert either.should_terminate(code("x"), rewarded(0.7)) == (True, "x")
    either.reset()
    assert either.should_terminate(code("x"), rewarded(0.7)) == (False, None)


def test_composite_may_need_all() -> None:
    both = policy("composite", require_all=True, policies=["reward_threshold", "final_pattern"])
    assert both.should_terminate(code("FINAL(1)"), rewarded(0.5)) == (False, None)
    assert both.should_terminate(code("x"), rewarded(0.5)) == (False, None)
    assert both.should_terminate(ActionResult("final", success=True), rewarded(0)) == (True, None)
    assert both.should_terminate(code("FINAL(1)"), rewarded(0)) == (True, "FINAL(1)")


def test_composite_gives_settings_to_its_parts() -> None:
    inner = {"name": "composite", "config": {"policies": [policy("final_pattern", case_sensitive=True)]}}
    either = policy("composite", policies=[inner, {"name": "reward_threshold", "config": {"min_reward_threshold": 9}}])
    assert either.should_terminate(code("final(1)"), rewarded(1)) == (False, None)
    assert either.should_terminate(code("FINAL(1)"), rewarded(1)) == (True, "1")


def test_composite_takes_an_answer_from_any_that_has_one() -> None:
    either = policy("composite", policies=["reward_threshold", "final_pattern"])
    for _ in range(2):
        either.should_terminate(code("x"), rewarded(-1))
    assert either.should_terminate(code("FINAL(1)"), rewarded(-1)) == (True, "1")


@pytest.mark.parametrize(
    ("policies", "complaint"),
    [([], "at least one"), ("final_pattern", "at least one"), (["nope"], "'nope'"), ([3], "a name or a dict"),
     ([{"name": "declared", "x": 1}], "a name or a dict"), ([{"name": "confidence", "config": {"x": 1}}], "'x'")],
)  # fmt: skip
def test_composite_refuses_what_it_does_not_know(policies: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        policy("composite", policies=policies)


def test_bounds_are_numbers() -> None:
    with pytest.raises(ConfigurationError, match="confidence_threshold: a number is needed, not 'high'"):
        policy("confidence", confidence_threshold="high")
    with pytest.raises(ConfigurationError, match="max_negative_streak"):
        policy("reward_threshold", max_negative_streak=None)
