"""The built-in termination policies.

A message of a policy is never an answer: one that ends a run for want of progress says `(True, None)`. An
explicit final action ends a run whatever a policy counts or waits for.
"""

from __future__ import annotations

import math
import re
from typing import Any

from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.policies.base import ActionResult, Policy, PolicyContext, TerminationPolicy

_NOT_YET: tuple[bool, str | None] = (False, None)
_QUOTED = r"\(\s*(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')\s*\)"
_BY_NAME = {
    name: tuple(re.compile(rf"(?<![\w.\"'`])(?<!def ){name}{_QUOTED}", flags) for flags in (re.IGNORECASE, re.NOFLAG))
    for name in ("FINAL_VAR", "FINAL")
}
"""For each word, by `case_sensitive`: with its content in quotes, anywhere in a line."""


class DeclaredTerminationPolicy(TerminationPolicy):
    """Never ends a run: only a declared answer, or a limit, does. The default of a run."""

    name = "declared"
    description = "Ends on a declared answer only (FINAL, FINAL_VAR, a ready answer), never by itself."

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Not by this policy."""
        return _NOT_YET


class FinalPatternTerminationPolicy(TerminationPolicy):
    """Ends when what was put out *reads* like an answer.

    So a document that is printed can end a run: choose it where outputs are trusted.

    Settings
    --------
    final_patterns
        Looked for in this order. `FINAL_VAR` and `FINAL` are read with balanced brackets at the start of a
        line, or with quoted content anywhere in it. Anything else is a regular expression, `^` and `$`
        meaning lines; its first group, or all of it, is the answer.
    case_sensitive
        `False`: `final(…)` counts too.
    extract_answer
        `False`: the whole output is the answer.
    """

    name = "final_pattern"
    description = "Ends when FINAL(...), FINAL_VAR(...) or a pattern of yours stands in the output."

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        patterns = self.config["final_patterns"]
        if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ConfigurationError("final_pattern: final_patterns: a list of regular expressions is needed.")
        flags = re.MULTILINE | (re.NOFLAG if self.config["case_sensitive"] else re.IGNORECASE)
        self._patterns: list[tuple[str, re.Pattern[str] | None]] = []
        for pattern in patterns:
            try:
                self._patterns.append((pattern, None if pattern in _BY_NAME else re.compile(pattern, flags)))
            except re.error as error:
                raise ConfigurationError(f"final_pattern: {pattern!r} is no regular expression: {error}.") from None

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """The paper's two words, in any case, with the answer taken out of the brackets."""
        return {"final_patterns": ["FINAL_VAR", "FINAL"], "case_sensitive": False, "extract_answer": True}

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Whether this is a final action, or one of the patterns stands in the output."""
        if result.action_type == "final":
            return True, result.output or None
        output = result.output or ""
        for name, pattern in self._patterns:
            content = self._declared(output, name) if pattern is None else _group(pattern.search(output))
            if content is None:
                continue
            if "FINAL_VAR" in name.upper():
                if content not in context.variables:
                    # no answer, least of all its name; and a FINAL beside it was not meant
                    return _NOT_YET
                content = str(context.variables[content])
            return True, content if self.config["extract_answer"] else output
        return _NOT_YET

    def _declared(self, output: str, name: str) -> str | None:
        from rlm_jupyter.parsing import declarations, unquoted

        for declaration in declarations(output, case_sensitive=self.config["case_sensitive"], in_fences=True):
            if declaration.kind == name:
                return unquoted(declaration.content)
        quoted = _BY_NAME[name][bool(self.config["case_sensitive"])].search(output)
        return unquoted(quoted[1]) if quoted else None


class RewardThresholdTerminationPolicy(TerminationPolicy):
    """Ends when the rewards add up to enough, or when too many in a row are negative.

    Reads `metrics["last_reward"]` once for each call.

    Settings
    --------
    min_reward_threshold
        The sum at which to end; the answer is then the output.
    max_negative_streak
        How many negative rewards in a row end the run, without an answer.
    require_final_action
        The sum ends the run on a final action only.
    """

    name = "reward_threshold"
    description = "Ends when the rewards add up to a threshold, or stay negative."

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self.reset()

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """A sum of 0.8, or three negative rewards in a row."""
        return {"min_reward_threshold": 0.8, "max_negative_streak": 3, "require_final_action": False}

    def validate_config(self) -> list[str]:
        """Both bounds are numbers."""
        return _not_numbers(self.config, "min_reward_threshold", "max_negative_streak")

    def reset(self) -> None:
        """Begin to add up anew."""
        self._cumulative_reward = 0.0
        self._negative_streak = 0

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Whether the sum suffices, or too many rewards in a row were negative."""
        reward = float(context.metrics.get("last_reward") or 0.0)
        self._cumulative_reward += reward
        self._negative_streak = self._negative_streak + 1 if reward < 0 else 0
        threshold = self.config["min_reward_threshold"]
        # eight times 0.1 is meant to be 0.8
        enough = self._cumulative_reward >= threshold or math.isclose(self._cumulative_reward, threshold)
        if enough and (result.action_type == "final" or not self.config["require_final_action"]):
            return True, result.output or None
        return self._negative_streak >= self.config["max_negative_streak"], None


class ConfidenceTerminationPolicy(TerminationPolicy):
    """Ends when an iteration says that it is confident enough.

    Settings
    --------
    confidence_threshold
        From 0 to 1.
    min_steps_before_termination
        Iterations before which confidence doesn't count; an explicit final does.
    confidence_key
        Where `result.metadata` holds the confidence. What is no number is no confidence.
    fallback_to_final_pattern
        Whether FINAL and FINAL_VAR in the output end the run as well.
    final_pattern
        Settings of that `final_pattern`.
    """

    name = "confidence"
    description = "Ends when the reported confidence reaches a threshold."

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self._finals = FinalPatternTerminationPolicy(self.config["final_pattern"])

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """A confidence of 0.85, not before the third iteration."""
        return {
            "confidence_threshold": 0.85,
            "min_steps_before_termination": 2,
            "confidence_key": "confidence",
            "fallback_to_final_pattern": True,
            "final_pattern": {},
        }

    def validate_config(self) -> list[str]:
        """Both bounds are numbers."""
        return _not_numbers(self.config, "confidence_threshold", "min_steps_before_termination")

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Whether there is an explicit final, or confidence enough."""
        if result.action_type == "final":
            return True, result.output or None
        confidence = _number(result.metadata.get(self.config["confidence_key"]))
        late_enough = context.step >= self.config["min_steps_before_termination"]
        confident = late_enough and confidence is not None and confidence >= self.config["confidence_threshold"]
        if self.config["fallback_to_final_pattern"]:
            ended, answer = self._finals.should_terminate(result, context)
            if ended:
                return True, answer
        return (True, result.output or None) if confident else _NOT_YET


class CompositeTerminationPolicy(TerminationPolicy):
    """Several policies together.

    Settings
    --------
    policies
        Names, `{"name": …, "config": {…}}`, or policies themselves; at least one.
    require_all
        `True`: ends when all of them say so; `False`: when one does. The answer is the first that any of
        those that say so has, in the order of the list. All are asked each time, so that each counts right.
    """

    name = "composite"
    description = "Combines several policies: any of them, or all."

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        entries = self.config["policies"]
        if not isinstance(entries, list | tuple) or not entries:
            raise ConfigurationError("composite: policies: a list of at least one policy is needed.")
        self._policies = [_policy(entry) for entry in entries]

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Either of two."""
        return {"policies": ["final_pattern", "reward_threshold"], "require_all": False}

    def reset(self) -> None:
        """Reset each of them."""
        for policy in self._policies:
            policy.reset()

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Whether one, or all, of the policies say so."""
        verdicts = [policy.should_terminate(result, context) for policy in self._policies]
        ended = [answer for done, answer in verdicts if done]
        if len(ended) < (len(verdicts) if self.config["require_all"] else 1):
            return _NOT_YET
        return True, next((answer for answer in ended if answer is not None), None)


def _policy(entry: object) -> TerminationPolicy:
    from rlm_jupyter.policies.registry import PolicyRegistry

    if isinstance(entry, TerminationPolicy):
        return entry
    if isinstance(entry, str):
        return PolicyRegistry.get_termination(entry)
    if isinstance(entry, dict) and isinstance(entry.get("name"), str) and set(entry) <= {"name", "config"}:
        return PolicyRegistry.get_termination(entry["name"], entry.get("config"))
    raise ConfigurationError(f"composite: a policy is a name or a dict with `name` and `config`, not {entry!r}.")


def _group(found: re.Match[str] | None) -> str | None:
    if found is None:
        return None
    return ((found[1] if found.re.groups else found[0]) or "").strip()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _not_numbers(config: dict[str, Any], *names: str) -> list[str]:
    return [
        f"{name}: a number is needed, not {config[name]!r}."
        for name in names
        if isinstance(config[name], bool) or not isinstance(config[name], int | float) or math.isnan(config[name])
    ]


BUILT_IN: tuple[type[Policy], ...] = (
    DeclaredTerminationPolicy,
    FinalPatternTerminationPolicy,
    RewardThresholdTerminationPolicy,
    ConfidenceTerminationPolicy,
    CompositeTerminationPolicy,
)
