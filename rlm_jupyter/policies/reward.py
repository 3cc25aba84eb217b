"""The built-in reward policies: sums of bonuses and penalties, kept within -1 and 1, and plain functions."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, SupportsFloat, TypeAlias

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, RewardPolicy, RewardSignal
from rlm_jupyter.types.errors import ConfigurationError, PolicyError
from rlm_jupyter.types.quoted import quoted

RewardFunction: TypeAlias = Callable[[dict[str, Any], ActionResult, PolicyContext], "float | RewardSignal"]
"""What may stand for a reward policy: `(action, result, context) -> float | RewardSignal`."""

_LONG_OUTPUT = 50
"""Characters above which an output counts as progress."""


class _Sum(RewardPolicy):
    """Adds up the components that a subclass names."""

    @abstractmethod
    def components(self, result: ActionResult, *, final: bool) -> dict[str, float]:
        """Return the parts of the reward by name."""

    def calculate(self, action: dict[str, Any], result: ActionResult, context: PolicyContext) -> RewardSignal:
        """Return the sum of what this policy gives and takes."""
        parts = self.components(result, final="final" in (action.get("action"), result.action_type))
        value = round(math.fsum(parts.values()), 9)
        explanation = ", ".join(f"{name} {part:+g}" for name, part in parts.items())
        return RewardSignal(RewardSignal(value).clamped, parts, explanation)

    def validate_config(self) -> list[str]:
        """Check that every setting is a finite number."""
        return validation.numbers(self.config, *self.config, finite=True)


class DefaultRewardPolicy(_Sum):
    """Success is worth much, failure costs little. What a run rates with, unless told otherwise.

    An attempt is worth 0.1; success adds 0.7, failure takes 0.3, an error text takes 0.1 more, and a final answer
    that succeeded adds 0.5. The sum is kept within -1 and 1: cells that ran give 0.8, a cell that failed with an
    error -0.3, an answer 1.
    """

    name = "default"
    description = "Balanced: success is worth more than a failure costs."

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return bonuses and penalties.

        `base` is what every attempt is worth; `partial_success_base` takes the place of the penalty for a
        failure whose `metadata["partial"]` is true (some cells of the iteration succeeded).
        """
        return {
            "base": 0.1,
            "success_bonus": 0.7,
            "failure_penalty": 0.3,
            "partial_success_base": 0.3,
            "stderr_penalty": 0.1,
            "final_bonus": 0.5,
        }

    def components(self, result: ActionResult, *, final: bool) -> dict[str, float]:
        """Return a base, success or failure, an error, a final answer that succeeded."""
        parts = {"base": self.config["base"]}
        if not result.success and result.metadata.get("partial"):
            parts["partial"] = self.config["partial_success_base"]
        else:
            parts |= _outcome(self.config, result)
        if result.error:
            parts["error"] = -self.config["stderr_penalty"]
        if final and result.success:
            parts["final"] = self.config["final_bonus"]
        return parts


class StrictRewardPolicy(_Sum):
    """Errors cost much, and their penalties add up."""

    name = "strict"
    description = "Errors and time-outs are punished hard, and add up."

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return bonuses and penalties."""
        return {
            "success_bonus": 0.5,
            "failure_penalty": 0.6,
            "error_penalty": 0.3,
            "timeout_penalty": 0.4,
            "final_bonus": 0.3,
        }

    def components(self, result: ActionResult, *, final: bool) -> dict[str, float]:
        """Return the parts: success or failure, an error, a time-out, a final answer without an error."""
        parts = _outcome(self.config, result)
        if result.error:
            parts["error"] = -self.config["error_penalty"]
            if "timeout" in result.error.lower() or "timed out" in result.error.lower():
                parts["timeout"] = -self.config["timeout_penalty"]
        elif final and result.success:
            parts["final"] = self.config["final_bonus"]
        return parts


class LenientRewardPolicy(_Sum):
    """Trying is worth something."""

    name = "lenient"
    description = "Forgiving: every attempt is worth something."

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return bonuses and penalties."""
        return {
            "attempt_bonus": 0.2,
            "success_bonus": 0.5,
            "failure_penalty": 0.1,
            "progress_bonus": 0.15,
            "final_bonus": 0.4,
        }

    def components(self, result: ActionResult, *, final: bool) -> dict[str, float]:
        """Return the attempt, success or failure, a long output, any final answer."""
        parts = {"attempt": self.config["attempt_bonus"]}
        parts |= _outcome(self.config, result)
        if len(result.output or "") > _LONG_OUTPUT:
            parts["progress"] = self.config["progress_bonus"]
        if final:
            parts["final"] = self.config["final_bonus"]
        return parts


class FunctionRewardPolicy(RewardPolicy):
    """A function as a reward policy, named as the function is.

    Parameters
    ----------
    function
        `(action, result, context)` -> a finite number or a `RewardSignal`; what `RewardPolicy.calculate` is given.

    Raises
    ------
    ConfigurationError
        It can't be called with three arguments, or is a coroutine function.
    """

    description = "Rates with a function."

    def __init__(self, function: RewardFunction) -> None:
        super().__init__()
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.function = function
        takes = "a reward function takes (action, result, context)"
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"{self.name}: {takes} and is not async.")
        try:
            inspect.signature(function).bind(None, None, None)
        except TypeError:
            raise ConfigurationError(f"{self.name}: {takes}.") from None
        except ValueError:
            pass  # written in C, and says nothing of what it takes

    def calculate(self, action: dict[str, Any], result: ActionResult, context: PolicyContext) -> RewardSignal:
        """Return what the function returns, as a signal.

        Raises
        ------
        PolicyError
            It returns no finite number.
        """
        returned: object = self.function(action, result, context)
        given = returned.value if isinstance(returned, RewardSignal) else returned
        try:
            value = float(given) if isinstance(given, SupportsFloat) else math.nan
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            raise PolicyError(
                f"{self.name}: a reward function returns a finite number or a RewardSignal, not {quoted(given)}."
            )
        return returned if isinstance(returned, RewardSignal) else RewardSignal(value)


def _outcome(config: dict[str, Any], result: ActionResult) -> dict[str, float]:
    if result.success:
        return {"success": config["success_bonus"]}
    return {"failure": -config["failure_penalty"]}
