import copy
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from rlm_jupyter.policies import Reason
from rlm_jupyter.types.errors import ConfigurationError, PolicyError
from tests.unit.policies.cases import FINAL, START, Verdict, at, code, final, policy


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    "result",
    [
        code("42", confidence=0.99),
        code("FINAL('42')"),
        final(confidence=0.99),
        final(),
        code("x", confidence="not even looked at"),
    ],
)
def test_nothing_ends_a_run_before_the_minimum(result: Any, step: int) -> None:
    assert policy("confidence").should_terminate(result, at(step)) == (False, None)


def test_the_minimum_can_be_set() -> None:
    assert policy("confidence", min_steps_before_termination=0).should_terminate(FINAL, START) == (True, "42")
    late = policy("confidence", min_steps_before_termination=4)
    assert [late.should_terminate(FINAL, at(step))[0] for step in range(6)] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("confidence", "verdict"),
    [
        (0.99, (True, "x")),
        (0.85, (True, "x")),
        (1, (True, "x")),
        ("0.9", (True, "x")),
        (" 0.9\n", (True, "x")),
        (np.float32(0.9), (True, "x")),
        (Decimal("0.9"), (True, "x")),
        (0.84, (False, None)),
        (0, (False, None)),
        ("0.3", (False, None)),
        (None, (False, None)),
    ],
)
def test_confidence_enough_ends_a_run(confidence: object, verdict: Verdict) -> None:
    assert policy("confidence").should_terminate(code("x", confidence=confidence), at(2)) == verdict


def test_what_was_printed_is_no_declared_answer() -> None:
    ends, text = policy("confidence").should_terminate(code("x", confidence=0.9), at(2))
    assert (ends, text) == (True, "x")
    assert isinstance(text, Reason)
    assert policy("confidence").should_terminate(code("", confidence=0.9), at(2)) == (True, None)
    ends, text = policy("confidence").should_terminate(final("x", confidence=0.9), at(2))
    assert (ends, text, type(text)) == (True, "x", str)
    ends, text = policy("confidence").should_terminate(code("so FINAL('x')"), at(2))
    assert (ends, text, type(text)) == (True, "x", str)


def test_a_declared_answer_with_stated_doubt_is_sent_back() -> None:
    for fallback in (True, False):
        doubting = policy("confidence", fallback_to_final_pattern=fallback)
        assert doubting.judges_final
        assert doubting.should_terminate(final(confidence=0.4), at(3)) == (False, None)
        assert doubting.should_terminate(final(confidence=0.85), at(3)) == (True, "42")


def test_without_a_confidence_the_fallback_decides() -> None:
    with_fallback, alone = policy("confidence"), policy("confidence", fallback_to_final_pattern=False)
    for result in (FINAL, final(confidence=None), code("FINAL('42')"), code("it is FINAL('42')")):
        assert with_fallback.should_terminate(result, at(2)) == (True, "42")
        assert alone.should_terminate(result, at(2)) == (False, None)
    assert with_fallback.should_terminate(code("42"), at(2)) == (False, None)


def test_an_explicit_final_in_the_output_ends_a_run_below_the_threshold() -> None:
    doubtful = code("I think it might be FINAL('42')", confidence=0.4)
    assert policy("confidence").should_terminate(doubtful, at(3)) == (True, "42")
    assert policy("confidence", fallback_to_final_pattern=False).should_terminate(doubtful, at(3)) == (False, None)
    assert policy("confidence").should_terminate(code("might be 42", confidence=0.4), at(3)) == (False, None)


def test_the_fallback_takes_the_settings_of_final_pattern() -> None:
    other = policy("confidence", final_pattern={"final_patterns": ["DONE (.+)"]})
    assert other.should_terminate(code("DONE 3"), at(2)) == (True, "3")
    assert other.should_terminate(code("FINAL(3)"), at(2)) == (False, None)


def test_the_key_can_be_set() -> None:
    other = policy("confidence", confidence_key="sure", fallback_to_final_pattern=False)
    assert other.should_terminate(code("x", sure=0.9, confidence=0.1), at(2)) == (True, "x")
    assert other.should_terminate(code("x", confidence=0.9), at(2)) == (False, None)
    with pytest.raises(PolicyError, match=r"metadata\['sure'\] is 'high'"):
        other.should_terminate(code("x", sure="high"), at(2))


def test_log_probabilities_count_where_they_are_asked_for() -> None:
    without, using = policy("confidence"), policy("confidence", use_token_confidence=True)
    assert (without.wants_logprobs, using.wants_logprobs) == (False, True)
    assert copy.deepcopy(using).wants_logprobs
    # how sure a model is of its code says nothing of an answer
    assert [p.should_terminate(code("x", token_confidence=0.9), at(2))[0] for p in (without, using)] == [False, False]
    assert using.should_terminate(final(token_confidence=0.9), at(2)) == (True, "42")
    assert not using.should_terminate(final(token_confidence=0.2), at(2))[0]
    assert without.should_terminate(final(token_confidence=0.2), at(2))[0]
    # what the model states goes before it
    assert not using.should_terminate(code("x", confidence=0.2, token_confidence=0.9), at(2))[0]
    assert using.should_terminate(code("x", confidence=0.9, token_confidence=0.2), at(2))[0]
    assert not using.should_terminate(final(confidence=0.2, token_confidence=0.9), at(2))[0]
    assert using.should_terminate(final(confidence=None, token_confidence=0.9), at(2))[0]
    # a provider that gives none
    assert using.should_terminate(final(token_confidence=None), at(2)) == (True, "42")
    with pytest.raises(PolicyError, match=r"metadata\['token_confidence'\] is nan"):
        using.should_terminate(final(token_confidence=math.nan), at(2))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [
        ("high", "'high'"),
        ("", "''"),
        ("90%", "'90%'"),
        ({"value": 0.9}, "{'value': 0.9}"),
        ([0.9], r"\[0.9\]"),
        (math.nan, "nan"),
        ("nan", "'nan'"),
        (math.inf, "inf"),
        (True, "True"),
        (1j, "1j"),
        ("x\ny" * 1000, ".{,90}"),
        (np.array([0.1, 0.2]), "array.*"),
        (Unprintable(), "<Unprintable instance.*"),
    ],
)
@pytest.mark.parametrize("kind", [code, final])
def test_a_confidence_that_is_no_number_is_told_in_one_line(kind: Any, confidence: object, shown: str) -> None:
    with pytest.raises(PolicyError, match=rf"^confidence: metadata\['confidence'\] is {shown}: no finite number\.\Z"):
        policy("confidence").should_terminate(kind("x", confidence=confidence), at(2))


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"confidence_threshold": "high"}, "confidence_threshold: a number is needed, not 'high'"),
        ({"min_steps_before_termination": None}, "min_steps_before_termination: a number"),
        ({"use_token_confidence": 1}, "use_token_confidence: True or False is needed, not 1"),
        ({"fallback_to_final_pattern": "no"}, "fallback_to_final_pattern: True or False"),
        ({"final_pattern": {"nope": 1}}, "final_pattern: unknown setting 'nope'"),
        ({"final_pattern": {"extract_answer": 1}}, "final_pattern: extract_answer: True or False"),
        ({"final_pattern": 3}, "final_pattern: config: a dict of settings is needed, not 3"),
    ],
)
def test_settings_are_checked(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        policy("confidence", **config)
