"""`ConfidenceTerminationPolicy`: the model is sure enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, Reason, TerminationPolicy
from rlm_jupyter.policies.final import FinalPatternTerminationPolicy, accepted
from rlm_jupyter.types.errors import PolicyError
from rlm_jupyter.types.quoted import quoted

TOKEN_CONFIDENCE = "token_confidence"
"""Where `metadata` holds what the log-probabilities of a reply say."""


class ConfidenceTerminationPolicy(TerminationPolicy):
    """Ends when the model is confident enough, and sends back an answer that it states doubt about.

    With its fallback on, as it is by default, it reads printed output, as `final_pattern` does: a document that a
    cell prints can then end the run.

    What it looks at, in this order:

    1. Before the minimum of iterations nothing ends the run, a declared answer neither.
    2. A confidence that reaches the threshold ends it. A declared answer is taken; on any other action the text
       is the output, as a `Reason`, since what is printed is no declared answer.
    3. A declared answer with a confidence below the threshold is sent back; the fallback isn't asked.
    4. Otherwise the fallback is asked, where it is on: it takes a declared answer that states no confidence, and
       an explicit FINAL in the output.
    5. Otherwise the run goes on. So with the fallback off, a declared answer needs a confidence.

    Settings
    --------
    confidence_threshold
        From 0 to 1.
    min_steps_before_termination
        Iterations that must have gone before: with 2, the third is the first that may end the run.
    confidence_key
        Where `result.metadata` holds the confidence. A numeric text counts; `None` means that none is stated.
    use_token_confidence
        Where a declared answer states none, take `metadata["token_confidence"]`, how probable the tokens of its reply
        were. How sure a model is of a piece of code says nothing of an answer, so there it doesn't count.
    fallback_to_final_pattern
        Whether `final_pattern` is asked where confidence decides nothing.
    final_pattern
        Settings of that `final_pattern`.
    """

    name = "confidence"
    description = "Ends when the stated confidence reaches a threshold; sends back answers below it."
    judges_final = True

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.wants_logprobs = bool(self.config["use_token_confidence"])
        self._finals = FinalPatternTerminationPolicy(self.config["final_pattern"])

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return a confidence of 0.85, not before the third iteration."""
        return {
            "confidence_threshold": 0.85,
            "min_steps_before_termination": 2,
            "confidence_key": "confidence",
            "use_token_confidence": False,
            "fallback_to_final_pattern": True,
            "final_pattern": {},
        }

    def validate_config(self) -> list[str]:
        """Check that both bounds are numbers, and the switches are switches."""
        return [
            *validation.numbers(self.config, "confidence_threshold", "min_steps_before_termination"),
            *validation.switches(self.config, "use_token_confidence", "fallback_to_final_pattern"),
            *(f"final_pattern: {problem}" for problem in self._finals.validate_config()),
        ]

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether the confidence suffices, or, where it decides nothing, there is an explicit final.

        Raises
        ------
        PolicyError
            The confidence is no number.
        """
        if context.step < self.config["min_steps_before_termination"]:
            return False, None
        final = result.action_type == "final"
        confidence = self._confidence(result.metadata, final=final)
        if confidence is not None and confidence >= self.config["confidence_threshold"]:
            return accepted(result) if final else (True, Reason(result.output) if result.output else None)
        if not self.config["fallback_to_final_pattern"] or (final and confidence is not None):
            return False, None
        return self._finals.should_terminate(result, context)

    def _confidence(self, metadata: Mapping[str, Any], *, final: bool) -> float | None:
        key = self.config["confidence_key"]
        given = metadata.get(key)
        if given is None and final and self.config["use_token_confidence"]:
            key, given = TOKEN_CONFIDENCE, metadata.get(TOKEN_CONFIDENCE)
        confidence = validation.number(given)
        if confidence is None and given is not None:
            raise PolicyError(f"{self.name}: metadata[{quoted(key)}] is {quoted(given)}: no finite number.")
        return confidence
