from itertools import product
from typing import Any

import pytest

from rlm_jupyter.policies import CompositeTerminationPolicy, PolicyContext, Reason, TerminationPolicy
from rlm_jupyter.types.errors import ConfigurationError
from tests.unit.policies.cases import (
    EMPTY_FINAL,
    FINAL,
    START,
    Always,
    Judge,
    Verdict,
    at,
    code,
    final,
    policy,
    rewarded,
)

NO: Verdict = (False, None)
WHY: Verdict = (True, Reason("why"))
YES: Verdict = (True, "yes")
BARE: Verdict = (True, None)


def combined(*policies: object, require_all: bool = False) -> TerminationPolicy:
    return policy("composite", policies=list(policies), require_all=require_all)


def test_the_default_ends_on_either_of_two() -> None:
    either = policy("composite")
    assert either.should_terminate(code("x"), rewarded(0.1)) == (False, None)
    assert either.should_terminate(code("FINAL(1)"), rewarded(0.1)) == (True, "1")
    failing = [either.should_terminate(code("x"), rewarded(-0.1)) for _ in range(3)]
    assert failing == [(False, None)] * 2 + [(True, "Terminated after 3 consecutive negative rewards")]
    either.reset()
    assert either.should_terminate(code("x"), rewarded(-0.1)) == (False, None)
    assert either.should_terminate(FINAL, START) == (True, "42")


@pytest.mark.parametrize("verdicts", list(product([NO, WHY, YES, BARE], repeat=3)))
def test_any_the_first_that_fires_gives_the_text(verdicts: tuple[Verdict, ...]) -> None:
    expected = next((verdict for verdict in verdicts if verdict[0]), NO)
    members = [Always(verdict) for verdict in verdicts]
    assert combined(*members).should_terminate(code("x"), START) == expected
    assert [member.asked for member in members] == [1, 1, 1]


@pytest.mark.parametrize("verdicts", list(product([NO, WHY, YES, BARE], repeat=3)))
def test_all_the_first_answer_goes_before_a_reason(verdicts: tuple[Verdict, ...]) -> None:
    ends, text = combined(*[Always(v) for v in verdicts], require_all=True).should_terminate(code("x"), START)
    if NO in verdicts:
        assert (ends, text) == (False, None)
    else:
        assert (ends, text) == (True, "yes" if YES in verdicts else "why" if WHY in verdicts else None)
        assert isinstance(text, Reason) == (text == "why")


def test_each_counts_right_even_where_another_fired() -> None:
    either = combined(Always(YES), policy("reward_threshold", require_final_action=False))
    either.should_terminate(code("x"), rewarded(0.5))
    late = either._policies[1]  # type: ignore[attr-defined]
    assert late.should_terminate(code("y"), rewarded(0.4)) == (True, "y")


@pytest.mark.parametrize("require_all", [False, True])
def test_reset_reaches_all(require_all: bool) -> None:
    members = [Always(YES), Always(NO)]
    outer = combined(combined(*members), require_all=require_all)
    before = [member.resets for member in members]
    outer.reset()
    assert [member.resets - was for member, was in zip(members, before, strict=True)] == [1, 1]


def test_explicit_answer_and_confidence_together() -> None:
    both = combined("confidence", "final_pattern", require_all=True)
    assert both.should_terminate(code("it is FINAL('42')", confidence=0.9), at(3)) == (True, "42")
    assert both.should_terminate(code("it is 42", confidence=0.9), at(3)) == (False, None)
    assert both.should_terminate(code("it is FINAL('42')", confidence=0.9), at(1)) == (False, None)
    assert both.should_terminate(final(confidence=0.9), at(3)) == (True, "42")
    assert both.should_terminate(final(confidence=0.4), at(3)) == (False, None)


def test_members_that_do_not_judge_take_a_declared_answer() -> None:
    # whatever they say of it themselves
    for verdict in (NO, WHY, YES, BARE):
        member = Always(verdict)
        assert combined(member).should_terminate(FINAL, START) == (True, "42")
        assert combined(member, Judge(NO)).should_terminate(FINAL, START) == (True, "42")
        assert combined(member, Judge(NO), require_all=True).should_terminate(FINAL, START) == (False, None)
        assert combined(member, Judge(BARE), require_all=True).should_terminate(FINAL, START) == (True, "42")
        assert member.asked == 4
    assert combined(Always(NO)).should_terminate(EMPTY_FINAL, START) == (True, None)


def test_an_acceptance_fires_at_its_place_in_the_order() -> None:
    assert combined(Judge(YES), Always(NO)).should_terminate(FINAL, START) == (True, "yes")
    assert combined(Always(NO), Judge(YES)).should_terminate(FINAL, START) == (True, "42")
    assert combined(Judge(NO), Always(NO)).should_terminate(FINAL, START) == (True, "42")
    assert combined(Judge(NO), Judge(NO)).should_terminate(FINAL, START) == (False, None)


def test_judging_and_log_probabilities_are_those_of_any_member() -> None:
    assert not combined("declared", "final_pattern").judges_final
    assert policy("composite").judges_final
    assert not policy("composite").wants_logprobs
    waiting = {"name": "reward_threshold"}
    looking = {"name": "confidence", "config": {"use_token_confidence": True}}
    assert combined("declared", waiting).judges_final
    assert combined("declared", combined("declared", waiting)).judges_final
    assert not combined("declared", waiting).wants_logprobs
    assert combined("declared", combined(looking)).wants_logprobs


def test_members_are_given_in_many_ways() -> None:
    own = policy("final_pattern", case_sensitive=True)
    inner = {"name": "composite", "config": {"policies": [own]}}
    either = combined(
        inner,
        {"name": "reward_threshold", "config": {"min_reward_threshold": 9}},
        "rlm_jupyter.policies.final:DeclaredTerminationPolicy",
        '{"name": "reward_threshold", "config": {"max_negative_streak": 1}}',
    )
    assert either.should_terminate(code("final(1)"), rewarded(0.1)) == (False, None)
    assert either.should_terminate(code("FINAL(1)"), rewarded(0.1)) == (True, "1")
    assert either.should_terminate(code("x"), rewarded(-1)) == (True, "Terminated after 1 consecutive negative rewards")


def test_two_of_the_same_name_count_apart() -> None:
    low, high = (
        {"name": "reward_threshold", "config": {"min_reward_threshold": n, "require_final_action": False}}
        for n in (1, 2)
    )
    both = combined(low, high, require_all=True)
    assert [both.should_terminate(code("x"), rewarded(0.5))[0] for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"policies": []}, "composite: policies: a list of at least one policy"),
        ({"policies": "final_pattern"}, "at least one"),
        ({"policies": None}, "at least one"),
        ({"policies": ["declared", None]}, "None is no policy"),
        ({"policies": ["nope"]}, "'nope'. Available: declared"),
        ({"policies": [3]}, "pass a name .*, not 3"),
        ({"policies": [""]}, "Unknown termination policy ''"),
        ({"policies": [{"name": "declared", "x": 1}]}, "a dict with `name` and `config`"),
        ({"policies": [{"name": "confidence", "config": {"x": 1}}]}, "confidence: unknown setting 'x'"),
        ({"policies": [{"name": "confidence", "config": {"confidence_threshold": "x"}}]}, "not 'x'"),
        ({"require_all": "yes"}, "require_all: True or False"),
        ({"all": True}, "unknown setting 'all'. Known: policies, require_all"),
    ],
)
def test_what_it_does_not_know_is_refused(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        policy("composite", **config)
    if "policies" in config:
        with pytest.raises(ConfigurationError, match=complaint):
            CompositeTerminationPolicy(config)


def test_an_error_of_a_member_is_not_hidden_by_one_that_fired() -> None:
    class Failing(TerminationPolicy):
        def should_terminate(self, result: Any, context: PolicyContext) -> Verdict:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        combined(Always(YES), Failing()).should_terminate(code(), START)
