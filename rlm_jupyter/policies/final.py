"""Policies that end a run on a final answer: one that was declared, or one that was printed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from rlm_jupyter.policies import validation
from rlm_jupyter.policies.base import ActionResult, PolicyContext, TerminationPolicy
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

FINAL_VAR = "FINAL_VAR(...)"
FINAL_QUOTED = 'FINAL("...")'
FINAL_UNQUOTED = "FINAL(...)"
_READ = (FINAL_VAR, FINAL_QUOTED, FINAL_UNQUOTED)
"""Entries of `final_patterns` that are read with their brackets and quotes, and not as regular expressions."""
_IN_A_LINE = re.compile(
    r"(?<![\w.\"'`])(?<!def )(FINAL(?:_VAR)?)[^\S\n]*\(\s*(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')\s*\)",
    re.IGNORECASE,
)
"""With content in quotes it counts anywhere in a line; `semifinal('3')` and `def FINAL('x')` are other words."""


class DeclaredTerminationPolicy(TerminationPolicy):
    """Ends on a declared answer and on nothing else: what is printed can't end a run. The default of a run."""

    name = "declared"
    description = "Ends on a declared answer only (FINAL, FINAL_VAR, a ready answer), never by what is printed."

    def validate_config(self) -> list[str]:
        """Refuse any setting: it has none."""
        return [f"unknown setting {quoted(name)}; it has none." for name in self.config][:1]

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether this is a final action. A run decides that itself, and does not call it (`run/judge.py`)."""
        return accepted(result) if result.action_type == "final" else (False, None)


class FinalPatternTerminationPolicy(TerminationPolicy):
    r"""Ends when what was printed *reads* like an answer.

    It reads printed output. So a document that a cell prints can end the run, with an answer that the document
    chose: use it where all that is printed can be trusted.

    Settings
    --------
    final_patterns
        What is looked for; the first entry that is found gives the answer. Three entries are there, to keep,
        to drop or to add to, such as `[*FinalPatternTerminationPolicy.get_default_config()["final_patterns"],
        r"ANSWER:\s*(.+?)$"]`:

        - `FINAL_VAR(...)`: the variable of that name, in quotes or without; its value is the answer. Where there
          is no such variable there is no answer, and nothing else that stands beside it counts.
        - `FINAL("...")`: the text in the quotes.
        - `FINAL(...)`: any other content.

        They count at the start of a line, with balanced brackets; what is in quotes counts anywhere in a line.
        Any other entry is a regular expression, `^` and `$` meaning lines; its first group that took part is the
        answer, or all of it where there is none. One that speaks of FINAL_VAR gives the name of a variable.
    case_sensitive
        `False`: `final(…)` counts too.
    extract_answer
        `False`: the whole output is the answer.
    """

    name = "final_pattern"
    description = "Ends when FINAL(...), FINAL_VAR(...) or a pattern of yours stands in the output."

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        patterns = self.config["final_patterns"]
        if not isinstance(patterns, list | tuple) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ConfigurationError(
                f"{self.name}: final_patterns: a list of regular expressions is needed, not {quoted(patterns)}."
            )
        flags = re.MULTILINE | (re.NOFLAG if self.config["case_sensitive"] else re.IGNORECASE)
        self._patterns: list[tuple[str, re.Pattern[str] | None]] = []
        for pattern in patterns:
            try:
                self._patterns.append((pattern, None if pattern in _READ else re.compile(pattern, flags)))
            except re.error as error:
                raise ConfigurationError(f"{self.name}: {quoted(pattern)} is no regular expression: {error}.") from None

    @classmethod
    def get_default_config(cls) -> dict[str, Any]:
        """Return the three ways of writing it, in any case, with the answer taken out of the brackets."""
        return {"final_patterns": list(_READ), "case_sensitive": False, "extract_answer": True}

    def validate_config(self) -> list[str]:
        """Check that both switches are switches."""
        return validation.switches(self.config, "case_sensitive", "extract_answer")

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
        """Return whether this is a final action, or one of the patterns stands in the output."""
        if result.action_type == "final":
            return accepted(result)
        output = result.output or ""
        written = self._written(output)
        for entry, pattern in self._patterns:
            content = written.get(entry) if pattern is None else _group(pattern.search(output))
            if content is None:
                continue
            if "FINAL_VAR" in entry.upper():
                try:
                    content = str(context.variables[content])
                except KeyError:
                    return False, None
            return True, content if self.config["extract_answer"] else output
        return False, None

    def _written(self, output: str) -> dict[str, str]:
        """Return the first of each of the three ways, with its content."""
        from rlm_jupyter.parsing import declarations, unquoted

        exact = bool(self.config["case_sensitive"])
        declared = list(declarations(output, case_sensitive=exact))
        found: list[tuple[int, str, str]] = [
            (declaration.start, declaration.kind, declaration.content) for declaration in declared
        ]
        for match in _IN_A_LINE.finditer(output):
            index = bisect_right(declared, match.start(), key=lambda declaration: declaration.start)
            within = index > 0 and match.start() < declared[index - 1].end
            if not within and (match[1].isupper() or not exact):
                kind = "FINAL_VAR" if len(match[1]) > len("FINAL") else "FINAL"
                found.append((match.start(), kind, match[2]))
        written: dict[str, str] = {}
        for _, kind, content in sorted(found):
            text = unquoted(content)
            quoted = FINAL_QUOTED if text != content else FINAL_UNQUOTED
            written.setdefault(FINAL_VAR if kind == "FINAL_VAR" else quoted, text)
        return written


def accepted(result: ActionResult) -> tuple[bool, str | None]:
    """Return the verdict that takes a final action as it is: its output is the answer."""
    return True, result.output or None


def _group(found: re.Match[str] | None) -> str | None:
    if found is None:
        return None
    return next((group for group in found.groups() if group is not None), found[0]).strip()
