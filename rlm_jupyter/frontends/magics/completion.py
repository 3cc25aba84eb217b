"""Completion of `%rlm` and `%%rlm`: their options, and the names of models after `-m`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from rlm_jupyter.models.discovery import choices

_TAKES_MODEL = frozenset({"-m", "--model", "--sub-model"})
_MAGIC = re.compile(r"\s*%{1,2}rlm(_resume)?\s")


def install(shell: Any, options: Callable[[], list[str]]) -> None:
    """Complete the lines of these magics in a shell.

    Parameters
    ----------
    options
        The options of `%rlm`, as they are written.
    """

    @context_matcher()
    def complete(context: CompletionContext) -> SimpleMatcherResult:
        word, found = matches(context.text_until_cursor, options())
        # the whole word: for IPython a colon in a name ends one; and files are no models
        return {
            "completions": [SimpleCompletion(text=name) for name in found],
            "matched_fragment": word,
            "suppress": bool(found),
        }

    shell.Completer.custom_matchers.append(complete)


def matches(line: str, options: list[str]) -> tuple[str, list[str]]:
    """Return the word at the end of a line, and what it may become."""
    if not _MAGIC.match(line):
        return "", []
    before, word = re.split(r"\s", line)[-2:]
    option, is_joined, value = word.partition("=")
    if is_joined and option in _TAKES_MODEL:
        return value, choices(value)
    if before in _TAKES_MODEL:
        return word, choices(word)
    return word, [name for name in options if word.startswith("-") and name.startswith(word)]
