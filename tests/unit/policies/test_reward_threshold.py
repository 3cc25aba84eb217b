import copy
import math
from typing import Any

import pytest

from rlm_jupyter.policies import PolicyContext, Reason
from rlm_jupyter.types.errors import ConfigurationError, PolicyError
from tests.unit.policies.cases import EMPTY_FINAL, FINAL, START, code, policy, rewarded


def test_rewards_add_up_to_the_threshold() -> None:
    threshold = policy("reward_threshold", require_final_action=False)
    assert threshold.should_terminate(code("a"), rewarded(0.4)) == (False, None)
    ends, text = threshold.should_terminate(code("b"), rewarded(0.5))
    assert (ends, text) == (True, "b")
    assert isinstance(text, Reason)


def test_without_an_output_the_text_says_what_was_reached() -> None:
    threshold = policy("reward_threshold", require_final_action=False)
    threshold.should_terminate(code(), rewarded(0.4))
    ends, text = threshold.should_terminate(code(), rewarded(0.5))
    assert (ends, text) == (True, "Reward threshold reached: 0.90")
    assert isinstance(text, Reason)


def test_on_a_final_action_the_output_is_the_answer() -> None:
    ends, text = policy("reward_threshold", require_final_action=False).should_terminate(FINAL, rewarded(0.9))
    assert (ends, text, type(text)) == (True, "42", str)
    assert policy("reward_threshold", require_final_action=False).should_terminate(EMPTY_FINAL, rewarded(0.9)) == (
        True,
        None,
    )
    failing = policy("reward_threshold", max_negative_streak=1)
    ends, text = failing.should_terminate(FINAL, rewarded(-1))
    assert (ends, text, type(text)) == (True, "42", str)


def test_eight_tenths_are_enough_and_reset_begins_anew() -> None:
    threshold = policy("reward_threshold", require_final_action=False)
    for _ in range(2):
        ends = [threshold.should_terminate(code(), rewarded(0.1))[0] for _ in range(8)]
        assert ends == [False] * 7 + [True]
        threshold.reset()


def test_reset_forgets_a_streak() -> None:
    threshold = policy("reward_threshold", max_negative_streak=2)
    assert not threshold.should_terminate(code(), rewarded(-1))[0]
    threshold.reset()
    assert not threshold.should_terminate(code(), rewarded(-1))[0]
    assert threshold.should_terminate(code(), rewarded(-1))[0]


def test_no_reward_is_no_step_towards_it() -> None:
    threshold = policy("reward_threshold", max_negative_streak=1)
    for context in (START, rewarded(None), rewarded(0)):
        assert threshold.should_terminate(code("x"), context) == (False, None)


def test_negative_rewards_end_a_run_and_their_text_is_no_answer() -> None:
    threshold = policy("reward_threshold", require_final_action=False)
    verdicts = [threshold.should_terminate(code("x"), rewarded(r)) for r in (-1, -1, 0, -1, -1, -1)]
    assert verdicts == [(False, None)] * 5 + [(True, "Terminated after 3 consecutive negative rewards")]
    assert isinstance(verdicts[-1][1], Reason)
    endless = policy("reward_threshold", max_negative_streak=math.inf)
    assert not any(endless.should_terminate(code("x"), rewarded(-1))[0] for _ in range(20))


def test_a_threshold_waits_for_a_final_action() -> None:
    threshold = policy("reward_threshold")
    assert threshold.should_terminate(FINAL, rewarded(0.5)) == (False, None)
    assert threshold.should_terminate(code("x"), rewarded(5)) == (False, None)
    assert threshold.should_terminate(FINAL, rewarded(0)) == (True, "42")
    # a sum that suffices doesn't hide that it went wrong since
    verdicts = [threshold.should_terminate(code("x"), rewarded(-1))[0] for _ in range(3)]
    assert verdicts == [False, False, True]


def test_it_judges_declared_answers_only_when_it_waits_for_them() -> None:
    assert not policy("reward_threshold", require_final_action=False).judges_final
    waiting = policy("reward_threshold")
    assert waiting.judges_final
    assert copy.deepcopy(waiting).judges_final
    assert not waiting.wants_logprobs


@pytest.mark.parametrize("reward", ["much", "", math.nan, math.inf, {}, [0.1], True, object(), 10**400])
def test_a_reward_that_is_no_number_is_told_in_one_line(reward: object) -> None:
    with pytest.raises(PolicyError, match=r"^reward_threshold: metrics\['last_reward'\] is .*: no finite number\.$"):
        policy("reward_threshold").should_terminate(code(), PolicyContext(metrics={"last_reward": reward}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"max_negative_streak": None}, "max_negative_streak: a number is needed, not None"),
        ({"max_negative_streak": 0}, "max_negative_streak: at least 1"),
        ({"min_reward_threshold": math.nan}, "min_reward_threshold: a number is needed, not nan"),
        ({"min_reward_threshold": True}, "min_reward_threshold: a number"),
        ({"require_final_action": "false"}, "require_final_action: True or False is needed, not 'false'"),
        ({"threshold": 1}, "'threshold'. Known: max_negative_streak, min_reward_threshold, require_final_action"),
    ],
)
def test_settings_are_checked(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        policy("reward_threshold", **config)
