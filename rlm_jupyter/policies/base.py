"""What policies are told, what they say, and the two kinds of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rlm_jupyter.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """Where a run stands when a policy is asked."""

    task: str = ""
    """The prompt."""
    step: int = 0
    """The iteration, from 0."""
    max_steps: int = 10
    """The run's `max_iterations`."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """What went before, oldest first."""
    variables: dict[str, Any] = field(default_factory=dict)
    """The kernel's variables by name, as far as a policy may read them."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Figures of the run; `last_reward` is the reward of the last iteration."""
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an iteration."""

    action_type: str
    """`final` when the model declared an answer, else such as `code`."""
    success: bool
    output: str = ""
    """What the model is shown of it; with `final`: the answer."""
    error: str | None = None
    duration_ms: float = 0.0
    tokens_used: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    """Anything else, such as a `confidence` from 0 to 1."""


@dataclass(frozen=True, slots=True)
class RewardSignal:
    """How an iteration is rated."""

    value: float
    components: dict[str, float] = field(default_factory=dict)
    """What the value is the sum of."""
    explanation: str = ""

    @property
    def clamped(self) -> float:
        """The value, kept within -1 and 1."""
        return max(-1.0, min(1.0, self.value))


class Policy:
    """A rule with settings.

    Parameters
    ----------
    config
        Settings that differ from `get_default_config()`; `self.config` holds all of them.

    Raises
    ------
    ConfigurationError
        A setting is unknown. A policy without defaults takes any.
    """

    name: ClassVar[str] = ""
    """What it is registered as."""
    description: ClassVar[str] = ""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        defaults = self.get_default_config()
        unknown = sorted(set(config or {}) - set(defaults))
        if unknown and defaults:
            raise ConfigurationError(
                f"{self.name or type(self).__name__}: unknown setting {unknown[0]!r}. "
                f"Known: {', '.join(sorted(defaults))}."
            )
        self.config: dict[str, Any] = {**defaults, **(config or {})}

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Every setting with its default."""
        return {}

    def validate_config(self) -> list[str]:
        """What is wrong with `self.config`, one line each; the registry refuses a policy that lists anything."""
        return []


class TerminationPolicy(Policy, ABC):
    """Decides, after each iteration, whether the run ends."""

    @abstractmethod
    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Whether to end now, and the answer if this tells it.

        Called once for each iteration, in order. `(True, None)` ends the run without an answer of its own;
        a message of the policy is never an answer.
        """

    def reset(self) -> None:
        """Forget what was seen: a new run begins."""


class RewardPolicy(Policy, ABC):
    """Rates each iteration; the rating reaches termination policies as `metrics["last_reward"]`."""

    @abstractmethod
    def calculate(self, action: dict[str, Any], result: ActionResult, context: PolicyContext) -> RewardSignal:
        """The reward of one iteration.

        Parameters
        ----------
        action
            What was done: `action` (`code`, `final`) and, for code, `code`.
        result, context
            What came of it, and where the run stands.
        """

    def on_episode_start(self, context: PolicyContext) -> None:
        """A run begins."""

    def on_episode_end(self, context: PolicyContext, total_reward: float) -> None:
        """A run ended, with this sum of rewards."""
