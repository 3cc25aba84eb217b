"""`Asked`: what an agent asks for, checked, within what the owner allows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.frontends.agents.tools import LOWERABLE
from rlm_jupyter.run.files.paths import names_file
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits

_MOST_PATH_CHARS = 1_024


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, what it is about, and the limits of its run."""

    question: str
    paths: tuple[str, ...]
    text: str | None
    schema: Mapping[str, Any] | None
    limits: Limits

    @classmethod
    def of(cls, arguments: Mapping[str, Any], owner: Limits) -> Self:
        """Return what the arguments of `ask` say; their form is checked already.

        Parameters
        ----------
        owner
            The most that a run may use.

        Raises
        ------
        ConfigurationError
            The question is empty, both paths and a text are given, or a limit is raised.
        """
        question = str(arguments["question"]).strip()
        if not question:
            raise ConfigurationError("ask: the question is empty.")
        paths, text = tuple(arguments.get("paths") or ()), arguments.get("text")
        if paths and text is not None:
            raise ConfigurationError("ask: give paths or text, not both.")
        if text is not None and not text.strip():
            raise ConfigurationError("ask: the text is empty; leave it out to ask without one.")
        if text is not None and _names_file_here(text):
            raise ConfigurationError("ask: the text is the name of a file; give it in paths to read the file.")
        given = {name: arguments[name] for name in LOWERABLE if arguments.get(name) is not None}
        return cls(question, paths, text, arguments.get("schema"), lowered(owner, given))


def _names_file_here(text: str) -> bool:
    """Return whether a text names a file below the working directory; of others nothing is told."""
    return not {"/", "~", ".."} & {text[:1], *Path(text[:_MOST_PATH_CHARS]).parts} and names_file(text)


def lowered(owner: Limits, given: Mapping[str, float]) -> Limits:
    """Return the owner's limits with lower ones in place of some.

    Raises
    ------
    ConfigurationError
        One is higher than the owner's.
    """
    for name, value in given.items():
        most = getattr(owner, name)
        if most is not None and value > most:
            raise ConfigurationError(f"ask: {name} is {most:g} at most here, not {value:g}.")
    changed: dict[str, Any] = dict(given)
    return dataclasses.replace(owner, **changed)
