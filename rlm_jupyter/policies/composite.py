"""`CompositeTerminationPolicy`: several policies as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, Reason, TerminationPolicy
from rlm_jupyter.policies.final import accepted
from rlm_jupyter.policies.registry import PolicyRegistry
from rlm_jupyter.types.errors import ConfigurationError


class CompositeTerminationPolicy(TerminationPolicy):
    """Several policies together: any of them ends the run, or all.

    All are asked each time, so that each counts right. On a declared answer, a member that doesn't judge those
    (`judges_final`) takes it, as it would by itself; where no member judges, a declared answer ends the run.

    Settings
    --------
    policies
        At least one: a name, `{"name": …, "config": {…}}`, `package.module:ClassName`, or a policy itself.
    require_all
        `False`: ends when one of them says so; the first in the list that does gives the text, if it has one.
        `True`: ends when all of them say so; the text is the first answer, else the first `Reason`.
    """

    name = "composite"
    description = "Combines several policies: any of them, or all."

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        entries = self.config["policies"]
        if not isinstance(entries, list | tuple) or not entries:
            raise ConfigurationError(f"{self.name}: policies: a list of at least one policy is needed.")
        if any(entry is None for entry in entries):
            raise ConfigurationError(f"{self.name}: policies: None is no policy.")
        self._policies = [PolicyRegistry.termination_from(entry, "") for entry in entries]
        self.judges_final = any(policy.judges_final for policy in self._policies)
        self.wants_logprobs = any(policy.wants_logprobs for policy in self._policies)

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return the default: either of two."""
        return {"policies": ["final_pattern", "reward_threshold"], "require_all": False}

    def validate_config(self) -> list[str]:
        """Check that the switch is a switch; members are checked as they are made."""
        return validation.switches(self.config, "require_all")

    def reset(self) -> None:
        """Reset each of them."""
        for policy in self._policies:
            policy.reset()

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether one, or all, of the policies say so."""
        verdicts = [_verdict(policy, result, context) for policy in self._policies]
        texts = [text for ends, text in verdicts if ends]
        if not self.config["require_all"]:
            return (True, texts[0]) if texts else (False, None)
        if len(texts) < len(verdicts):
            return False, None
        # what is no answer comes after what is one
        return True, next(iter(sorted((text for text in texts if text is not None), key=_is_reason)), None)


def _verdict(policy: TerminationPolicy, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
    verdict = policy.should_terminate(result, context)
    return accepted(result) if result.action_type == "final" and not policy.judges_final else verdict


def _is_reason(text: str) -> bool:
    return isinstance(text, Reason)
