"""`named_tools`: the functions that `--tool` names in a notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.run.tool import Tool
from rlm_jupyter.run.toolbox import imported_tools
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def named_tools(namespace: Mapping[str, Any], names: Sequence[str] | None, option: str = "--tool") -> list[Any] | None:
    """Return the functions, or `Tool`s, of these names; `None` where there are none.

    Parameters
    ----------
    namespace
        Of the notebook.
    names
        As `search` or `index.search`, or `package.module:function`.
    option
        Which has them, for the errors.

    Raises
    ------
    ConfigurationError
        There is no such function.
    """
    found: list[Any] = []
    for name in names or ():
        if ":" in name:
            found += imported_tools([name], option) or ()
            continue
        if not _DOTTED.fullmatch(name):  # an expression could do something before anybody has agreed
            raise ConfigurationError(f"{option} takes the name of a function of the notebook, not {quoted(name)}.")
        try:
            tool = eval(name, dict(namespace))
        except Exception as error:
            functions = [known for known, value in namespace.items() if callable(value) and not known.startswith("_")]
            raise ConfigurationError(
                f"{option} takes a function of the notebook, not {quoted(name)}: {type(error).__name__}: {error}."
                f"{did_you_mean(closest(name, functions))}"
            ) from error
        if not isinstance(tool, Tool) and (not callable(tool) or isinstance(tool, type)):
            kind = "a class" if isinstance(tool, type) else f"of type {type(tool).__name__}"
            raise ConfigurationError(f"{option} takes a function of the notebook; {name} is {kind}.")
        found.append(tool)
    return found or None
