"""For programs that were written for the reference implementation (`rlms`): change the imports, and they run here.

`from rlm_jupyter.compat import RLM, RLMLogger` takes the same arguments, and `completion` gives a result like its own.
Whatever means something else here is said once, as a `CompatWarning`; what can't be done is a `ConfigurationError` that
names the nearest thing. `docs/from-the-reference.md` has the table.
"""

from __future__ import annotations

from rlm_jupyter.compat.errors import (
    BudgetExceededError,
    CancellationError,
    CompatWarning,
    ErrorThresholdExceededError,
    TimeoutExceededError,
    TokenLimitExceededError,
)
from rlm_jupyter.compat.logger import RLMLogger
from rlm_jupyter.compat.result import ModelUsageSummary, RLMChatCompletion, UsageSummary
from rlm_jupyter.compat.rlm import RLM

__all__ = [
    "RLM",
    "BudgetExceededError",
    "CancellationError",
    "CompatWarning",
    "ErrorThresholdExceededError",
    "ModelUsageSummary",
    "RLMChatCompletion",
    "RLMLogger",
    "TimeoutExceededError",
    "TokenLimitExceededError",
    "UsageSummary",
]
