"""Completion of `%rlm` and `%%rlm`: their options, names of models after `-m`, and variables and @ paths after `-c`."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from rlm_jupyter.frontends.magics.context import names_of_data
from rlm_jupyter.models.discovery import choices

_TAKES_MODEL = frozenset({"-m", "--model", "--sub-model"})
_TAKES_CONTEXT = frozenset({"-c", "--context"})
_Names = Callable[[], list[str]]
_MAGIC = re.compile(r"\s*%{1,2}rlm(_resume)?\s")


def install(shell: Any, options: Callable[[], list[str]]) -> None:
    """Complete the lines of these magics in a shell.

    Parameters
    ----------
    shell
        Has the variables that can be a context.
    options
        The options of `%rlm`, as they are written.
    """

    @context_matcher()
    def complete(context: CompletionContext) -> SimpleMatcherResult:
        word, found = matches(context.text_until_cursor, options(), lambda: names_of_data(shell))
        # the whole word: for IPython a colon in a name ends one; and files are no models
        return {
            "completions": [SimpleCompletion(text=name) for name in found],
            "matched_fragment": word,
            "suppress": bool(found),
        }

    shell.Completer.custom_matchers.append(complete)


def matches(line: str, options: list[str], variables: _Names = list) -> tuple[str, list[str]]:
    """Return the word at the end of a line, and what it may become."""
    if not _MAGIC.match(line):
        return "", []
    before, word = re.split(r"\s", line)[-2:]
    option, is_joined, value = word.partition("=")
    if is_joined and option in _TAKES_MODEL:
        return value, choices(value)
    if before in _TAKES_MODEL:
        return word, choices(word)
    if is_joined and option in _TAKES_CONTEXT:
        return _contexts(value, variables)
    if before in _TAKES_CONTEXT:
        return _contexts(word, variables)
    return word, [name for name in options if word.startswith("-") and name.startswith(word)]


def _contexts(word: str, variables: _Names) -> tuple[str, list[str]]:
    """Return the name that is begun behind `-c`, of several the last, and what it may become."""
    if word.startswith("@"):
        return word, [f"@{path}" for path in _paths(word[1:])]
    name = word.rpartition(",")[2]
    return name, sorted(variable for variable in variables() if variable.startswith(name))


def _paths(begun: str) -> list[str]:
    """Return the paths that begin so, folders with a slash; without those with blanks, which need quotes."""
    found = sorted(glob.glob(f"{glob.escape(begun)}*"))  # noqa: PTH207 — Path.glob takes no absolute pattern
    return [f"{path}/" if Path(path).is_dir() else path for path in found if not re.search(r"\s", path)]
