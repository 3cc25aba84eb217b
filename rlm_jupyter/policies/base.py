"""What policies are told, what they say, and the two kinds of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted


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
    """What went before, oldest first; a dict for each iteration."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The kernel's variables by name. In a run they are fetched when they are looked up."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Figures of the run; `last_reward` is the reward of the iteration that the policy is asked about."""
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an iteration."""

    action_type: str
    """`final` when the model declared an answer, else such as `code`."""
    success: bool
    output: str = ""
    """What its cells put out, as the model is shown it but not cut; with `final`: the answer."""
    error: str | None = None
    duration_ms: float = 0.0
    tokens_used: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    """Anything else: a `confidence` from 0 to 1 where the model stated one, and a `token_confidence` where the
    policy wants log-probabilities and the provider gives them."""


class Reason(str):
    """A text that says why a policy ends a run. It is no answer.

    In a run it becomes the run's message, and the answer is looked for where a limit would look for it: a
    recorded answer, a draft, an unconfirmed FINAL, one last reply. Otherwise it is a text like any other.
    """

    __slots__ = ()


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
        A setting is unknown, or `config` is no dict. A policy without defaults takes any setting.
    """

    name: str = ""
    """What it is registered as."""
    description: str = ""
    config: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Set the defaults, for a policy whose own `__init__` does not call this class's."""
        policy = super().__new__(cls)
        policy.config = dict(cls.get_default_config())
        return policy

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        name = self.name or type(self).__name__
        if config is not None and not isinstance(config, Mapping):
            raise ConfigurationError(f"{name}: config: a dict of settings is needed, not {quoted(config)}.")
        defaults = self.get_default_config()
        unknown = sorted(set(config or {}) - set(defaults), key=str)
        if unknown and defaults:
            raise ConfigurationError(
                f"{name}: unknown setting {quoted(unknown[0])}. Known: {', '.join(sorted(defaults))}."
            )
        self.config = {**defaults, **(config or {})}

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return every setting with its default."""
        return {}

    def validate_config(self) -> list[str]:
        """Return what is wrong with `self.config`, one line each; the registry refuses a policy that lists anything."""
        return []


class TerminationPolicy(Policy, ABC):
    """Decides, after each iteration, whether the run ends.

    A policy that only looks at outputs needs `should_terminate` and no more: a declared answer ends the run
    beside it. One that counts over iterations forgets in `reset` what it counted.
    """

    judges_final: bool = False
    """Whether the verdict on a declared answer (action type `final`) counts.

    `False`: a declared answer ends the run, whatever is said of it. `True`: `(False, None)` sends it back; the
    run keeps it as the best answer so far and goes on. Where it depends on settings, set it on the instance or
    make it a property.
    """
    wants_logprobs: bool = False
    """Whether a run is to ask for the log-probabilities of tokens, where the model's provider gives them.

    `metadata["token_confidence"]` then holds exp(mean log-probability) of the reply, from 0 to 1.
    """

    @abstractmethod
    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether to end now, and the answer if this tells it.

        Called once for each iteration, in order.

        Returns
        -------
        tuple
            `(False, …)`: go on, whatever the second is. `(True, text)`: end, with this answer.
            `(True, Reason(text))`: end, and this is why; the answer is found elsewhere, as with `(True, None)`.
        """

    def reset(self) -> None:
        """Forget what was seen: a new run begins. Nothing to forget unless a policy counts."""


class RewardPolicy(Policy, ABC):
    """Rates each iteration; the rating reaches termination policies as `metrics["last_reward"]`.

    Where nothing else is chosen, that is `default`: 0.1 for an attempt, 0.7 for success or -0.3 for failure, -0.1
    for an error text, 0.5 for a final answer, all of it kept within -1 and 1.
    """

    @abstractmethod
    def calculate(self, action: dict[str, Any], result: ActionResult, context: PolicyContext) -> RewardSignal:
        """Return the reward of one iteration.

        Parameters
        ----------
        action
            What was done: `action` (`code`, `final`) and, for code, `code`.
        result, context
            What came of it, and where the run stands.

        Returns
        -------
        RewardSignal
            Its `value` is a finite number: above 0 where the iteration helped, below 0 where it did harm.
        """

    def on_episode_start(self, context: PolicyContext) -> None:
        """Begin a run."""

    def on_episode_end(self, context: PolicyContext, total_reward: float) -> None:
        """End a run, with this sum of rewards."""
