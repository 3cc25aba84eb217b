"""The policies that are there without being registered: `registry` loads this module by its name, when it is needed."""

from __future__ import annotations

from rlm_jupyter.policies.base import Policy
from rlm_jupyter.policies.composite import CompositeTerminationPolicy
from rlm_jupyter.policies.confidence import ConfidenceTerminationPolicy
from rlm_jupyter.policies.final import DeclaredTerminationPolicy, FinalPatternTerminationPolicy
from rlm_jupyter.policies.grounded import GroundedTerminationPolicy
from rlm_jupyter.policies.reward import DefaultRewardPolicy, LenientRewardPolicy, StrictRewardPolicy
from rlm_jupyter.policies.reward_threshold import RewardThresholdTerminationPolicy

TERMINATION: tuple[type[Policy], ...] = (
    DeclaredTerminationPolicy,
    FinalPatternTerminationPolicy,
    RewardThresholdTerminationPolicy,
    ConfidenceTerminationPolicy,
    GroundedTerminationPolicy,
    CompositeTerminationPolicy,
)
REWARD: tuple[type[Policy], ...] = (DefaultRewardPolicy, StrictRewardPolicy, LenientRewardPolicy)
