"""`enter`: the prompt for a provider's key; it stays in this process's environment, and in no notebook."""

from __future__ import annotations

import os
from collections.abc import Callable

from IPython.core.error import StdinNotImplementedError

from rlm_jupyter.models import PROVIDERS
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

Ask = Callable[[str], str]
"""Prompts for a secret, without echo."""


def enter(provider: str, ask: Ask) -> str:
    """Ask for a key and set it in this process's environment; return the variable's name.

    Raises
    ------
    ConfigurationError
        The provider is unknown or takes no key, the front end has no input, or nothing was entered.
    """
    variables = {name: preset.key_variables[0] for name, preset in PROVIDERS.items() if preset.key_variables}
    if provider not in variables:
        what = f"{quoted(provider)} is no provider that takes a key" if provider else "Name the provider"
        raise ConfigurationError(f"{what}: %rlm_key NAME, with one of {', '.join(variables)}")
    variable = variables[provider]
    try:
        key = ask(f"{variable}: ").strip()
    except (StdinNotImplementedError, EOFError):
        raise ConfigurationError(f"Nobody can be asked here: set {variable} in the environment instead.") from None
    except KeyboardInterrupt:
        key = ""
    if not key:
        raise ConfigurationError(f"Nothing was entered; {variable} is as it was.")
    os.environ[variable] = key
    return variable
