"""Policies: when a run ends by itself, and how an iteration is rated.

A policy is a class, registered by name and looked up with its settings::

    from rlm_jupyter.policies import ActionResult, PolicyContext, PolicyRegistry, TerminationPolicy

    @PolicyRegistry.register_termination("twice")
    class Twice(TerminationPolicy):
        description = "The same output twice in a row."

        def reset(self) -> None:
            self.last: str | None = None

        def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
            again, self.last = result.output == self.last, result.output
            return again, result.output if again else None

    policy = PolicyRegistry.get_termination("twice")

Names and settings follow rlm-code's policies, so that a policy written for one serves the other. What a policy
returns is the run's answer, unless it is a `Reason`: a text that only says why the run ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm_jupyter.policies.base import ActionResult as ActionResult
    from rlm_jupyter.policies.base import Policy as Policy
    from rlm_jupyter.policies.base import PolicyContext as PolicyContext
    from rlm_jupyter.policies.base import Reason as Reason
    from rlm_jupyter.policies.base import RewardPolicy as RewardPolicy
    from rlm_jupyter.policies.base import RewardSignal as RewardSignal
    from rlm_jupyter.policies.base import TerminationPolicy as TerminationPolicy
    from rlm_jupyter.policies.composite import CompositeTerminationPolicy as CompositeTerminationPolicy
    from rlm_jupyter.policies.confidence import ConfidenceTerminationPolicy as ConfidenceTerminationPolicy
    from rlm_jupyter.policies.final import DeclaredTerminationPolicy as DeclaredTerminationPolicy
    from rlm_jupyter.policies.final import FinalPatternTerminationPolicy as FinalPatternTerminationPolicy
    from rlm_jupyter.policies.grounded import GroundedTerminationPolicy as GroundedTerminationPolicy
    from rlm_jupyter.policies.registry import PolicyRegistry as PolicyRegistry
    from rlm_jupyter.policies.reward import DefaultRewardPolicy as DefaultRewardPolicy
    from rlm_jupyter.policies.reward import FunctionRewardPolicy as FunctionRewardPolicy
    from rlm_jupyter.policies.reward import LenientRewardPolicy as LenientRewardPolicy
    from rlm_jupyter.policies.reward import StrictRewardPolicy as StrictRewardPolicy
    from rlm_jupyter.policies.reward_threshold import (
        RewardThresholdTerminationPolicy as RewardThresholdTerminationPolicy,
    )
    from rlm_jupyter.policies.shared_policy import SharedPolicy as SharedPolicy

_HOMES = {
    "base": (
        "ActionResult",
        "Policy",
        "PolicyContext",
        "Reason",
        "RewardPolicy",
        "RewardSignal",
        "TerminationPolicy",
    ),
    "composite": ("CompositeTerminationPolicy",),
    "confidence": ("ConfidenceTerminationPolicy",),
    "final": (
        "DeclaredTerminationPolicy",
        "FinalPatternTerminationPolicy",
    ),
    "grounded": ("GroundedTerminationPolicy",),
    "registry": ("PolicyRegistry",),
    "reward": (
        "DefaultRewardPolicy",
        "FunctionRewardPolicy",
        "LenientRewardPolicy",
        "StrictRewardPolicy",
    ),
    "reward_threshold": ("RewardThresholdTerminationPolicy",),
    "shared_policy": ("SharedPolicy",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
