"""`checked`: sampling options that go to a provider's SDK as they are, and those that can't."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest

_SET_HERE = {
    "model": "it is the model that was named",
    "messages": "the run writes them",
    "system": "the run writes it; system_prompt_extra adds to it",
    "stream": "replies are always streamed",
    "stream_options": "replies are always streamed",
    "n": "a request has one reply",
    "max_tokens": "Limits(max_output_tokens=…) sets it",
    "max_completion_tokens": "Limits(max_output_tokens=…) sets it",
    "logprobs": "a termination policy asks for them",
    "timeout": "Limits(max_seconds=…) bounds the run",
    "extra_headers": "headers may hold keys, and options are recorded",
}
"""Options that a request gets from us, and why."""
_USUAL = ("temperature", "top_p", "top_k", "min_p", "seed")
"""Sampling options that servers take, whether an SDK has parameters for them or not."""
_MOST_TEMPERATURE = 2.0


def checked(name: str, options: object) -> dict[str, Any]:
    """Check the sampling options for a model, as far as its SDK need not be loaded for that.

    Parameters
    ----------
    name
        The model, for the errors.
    options
        By the SDK's names.

    Returns
    -------
    dict
        A copy of plain data.

    Raises
    ------
    ConfigurationError
        They are no mapping of plain data, or one of them is set by the run itself.
    """
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ConfigurationError(f"{name}: options are a mapping by name, such as {{'temperature': 0.2}}.")
    body = options.get("extra_body")
    for option in (*options, *(body if isinstance(body, Mapping) else ())):
        if option in _SET_HERE:
            raise ConfigurationError(f"{name}: the option {quoted(option)} can't be set: {_SET_HERE[option]}.")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name}: options are plain data, because they are recorded ({error}).") from None
    heat = plain.get("temperature")
    is_number = isinstance(heat, int | float) and not isinstance(heat, bool)
    if heat is not None and not (is_number and 0 <= heat <= _MOST_TEMPERATURE):
        raise ConfigurationError(f"{name}: no temperature of {quoted(heat)} can be set there.")
    return plain


def placed(name: str, sdk: str, send: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Put options where the SDK's method `send` takes them.

    Which of the usual ones it takes by name differs between SDKs and their versions: the others go into the request's
    body as they are, and the server decides.

    Raises
    ------
    ConfigurationError
        It takes no option of that name.
    """
    known = inspect.signature(send).parameters
    body = dict(options.get("extra_body") or {})
    by_name: dict[str, Any] = {}
    for option, value in options.items():
        if option in known:
            by_name[option] = value
        elif option in _USUAL:
            body[option] = value
        else:
            close = closest(option, [*known, *_USUAL])
            hint = f"did you mean {quoted(close)}? What" if close else "what"
            raise ConfigurationError(
                f"{name}: the {sdk} SDK takes no option {quoted(option)}; {hint} only the server knows goes into "
                f"extra_body, as in {{'extra_body': {{{quoted(option)}: …}}}}."
            )
    return by_name | ({"extra_body": body} if body else {})


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """Read options that are written as NAME=VALUE; a value is JSON where it can be, else text.

    Raises
    ------
    ConfigurationError
        One of them is written otherwise.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name.strip():
            raise ConfigurationError(f"An option is written NAME=VALUE, as in temperature=0.2, not {quoted(pair)}.")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options
