"""`RewardThresholdTerminationPolicy`: enough reward, or too little."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, Reason, TerminationPolicy
from rlm_jupyter.policies.final import accepted
from rlm_jupyter.types.errors import PolicyError
from rlm_jupyter.types.quoted import quoted


class RewardThresholdTerminationPolicy(TerminationPolicy):
    """Ends on a declared answer when the rewards add up to enough, or when too many in a row are negative.

    Adds up `metrics["last_reward"]`, one for each call. An answer that comes before there was reward enough is sent
    back. With the `default` reward, an answer alone is enough (1.0), unless two or more iterations failed before it.

    With `require_final_action` set to `False`, the sum ends a run on any action, and a declared answer ends it
    whatever the sum. The `default` reward gives 0.8 for each iteration that succeeded: choose a threshold for as many
    as the run shall have.

    On a final action the output is the answer. On any other, the text is a `Reason`: the output, or what was
    reached.

    Settings
    --------
    min_reward_threshold
        The sum at which to end.
    max_negative_streak
        How many negative rewards in a row end the run; `math.inf`: never.
    require_final_action
        The sum ends the run on a final action only. A negative streak ends it on any.
    """

    name = "reward_threshold"
    description = "Ends on an answer once the rewards add up to a threshold, or when they stay negative."

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.judges_final = bool(self.config["require_final_action"])
        self.reset()

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return an answer and a sum of 0.8, or three negative rewards in a row."""
        return {"min_reward_threshold": 0.8, "max_negative_streak": 3, "require_final_action": True}

    def validate_config(self) -> list[str]:
        """Check that both bounds are numbers, and a streak is at least one reward long."""
        problems = validation.numbers(self.config, "min_reward_threshold", "max_negative_streak")
        problems += validation.switches(self.config, "require_final_action")
        if not problems and self.config["max_negative_streak"] < 1:
            problems.append("max_negative_streak: at least 1 is needed.")
        return problems

    def reset(self) -> None:
        """Begin to add up anew."""
        self._cumulative_reward = 0.0
        self._negative_streak = 0

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether the sum suffices, or too many rewards in a row were negative.

        Raises
        ------
        PolicyError
            `metrics["last_reward"]` is no finite number.
        """
        given = context.metrics.get("last_reward")
        reward = 0.0 if given is None else validation.number(given)
        if reward is None:
            raise PolicyError(f"{self.name}: metrics['last_reward'] is {quoted(given)}: no finite number.")
        self._cumulative_reward += reward
        self._negative_streak = self._negative_streak + 1 if reward < 0 else 0
        final = result.action_type == "final"
        threshold = self.config["min_reward_threshold"]
        # eight times 0.1 is meant to be 0.8
        enough = self._cumulative_reward >= threshold or math.isclose(self._cumulative_reward, threshold)
        if enough and (final or not self.config["require_final_action"]):
            reached = f"Reward threshold reached: {self._cumulative_reward:.2f}"
            return accepted(result) if final else (True, Reason(result.output or reached))
        if self._negative_streak >= self.config["max_negative_streak"]:
            streak = f"Terminated after {self._negative_streak} consecutive negative rewards"
            return accepted(result) if final else (True, Reason(streak))
        return False, None
