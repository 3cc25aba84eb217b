"""The reference's arguments as ours: models, environments, tools, prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

from rlm_jupyter.compat.errors import say_once
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.prompt import MOST_PROMPT_CHARS
from rlm_jupyter.run.tool import Tool
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

_ELSEWHERE = ("docker", "modal", "prime", "daytona", "e2b")
_HERE = ("local", "ipython")
_INSTEAD = {
    "model": "backend and backend_kwargs",
    "sub_model": "other_backends",
    "limits": "max_iterations, max_budget, max_timeout and max_tokens",
    "tools": "custom_tools",
    "sub_tools": "custom_sub_tools",
    "system_prompt_extra": "custom_system_prompt",
    "compact_at": "compaction and compaction_threshold_pct",
}
"""Options of ours that come of the reference's arguments."""
_ABOUT_THE_MODEL = {"model_name", "api_key", "base_url", "azure_endpoint", "sampling_args"}
_TASK = (
    "Your task stands in `context`, at its beginning or its end, together with what it is about. Find it there, and do "
    "it."
)
"""What is asked where the prompt is too long to be shown."""


def model_of(backend: str, kwargs: Mapping[str, Any] | None, sampling: Mapping[str, Any] | None) -> Model:
    """Return a model by its backend.

    Parameters
    ----------
    kwargs
        `model_name`, `api_key`, `base_url` and `sampling_args`.
    sampling
        More of the latter.

    Raises
    ------
    ConfigurationError
        No model is named, or there is no such backend, key or address.
    """
    if not isinstance(backend, str):
        raise ConfigurationError(f"backend is the name of a provider, not {quoted(backend)}.")
    given = dict(kwargs or {})
    if "/" in backend:
        provider, _, model = backend.partition("/")
        raise ConfigurationError(
            f'backend is a provider alone: backend="{provider}", backend_kwargs={{"model_name": "{model}"}}.'
        )
    name = given.get("model_name")
    if not name:
        raise ConfigurationError(f'The model is not named: backend="{backend}", backend_kwargs={{"model_name": "…"}}.')
    if others := sorted(given.keys() - _ABOUT_THE_MODEL):
        say_once(f"backend_kwargs: {', '.join(others)} means nothing here and is left out; options of requests go into "
                 "sampling_args.")  # fmt: skip
    return load_model(
        f"{backend}/{name}",
        base_url=given.get("base_url") or given.get("azure_endpoint"),
        api_key=given.get("api_key"),
        options={**(given.get("sampling_args") or {}), **(sampling or {})} or None,
    )


def cell_seconds(environment: str, kwargs: Mapping[str, Any] | None) -> float | None:
    """Check the environment, and return how long a cell may run; `None`: as usual.

    Raises
    ------
    ConfigurationError
        It is not there.
    """
    if environment in _ELSEWHERE:
        raise ConfigurationError(
            f'environment="{environment}" is not there: code runs in a Jupyter kernel on this machine. The nearest is '
            'environment="local" with sandbox="bwrap" (Linux, bubblewrap) or sandbox="docker": no network, and none of '
            "your files."
        )
    if environment not in _HERE:
        raise ConfigurationError(
            f"environment={quoted(environment)}: there is local (or ipython, which is the same): a Jupyter kernel on "
            "this machine."
        )
    given = dict(kwargs or {})
    if given.pop("setup_code", None):
        raise ConfigurationError(
            "environment_kwargs: there is no setup_code; give functions by custom_tools, and data as the prompt."
        )
    timeout: float | None = given.pop("cell_timeout", None)
    if given:
        say_once(f"environment_kwargs: {', '.join(sorted(given))} means nothing here and is left out.")
    return timeout


def tools_of(tools: Mapping[str, Any] | None, argument: str) -> list[Tool]:
    """Return tools by name: functions, values, or a dict of `tool` and `description`.

    Raises
    ------
    ConfigurationError
        A name can't be one.
    """
    if tools is None:
        return []
    if not isinstance(tools, Mapping):
        raise ConfigurationError(f"{argument} is a dict of functions by name, not {quoted(tools)}.")
    if wrong := [name for name in tools if not str(name).isidentifier()]:
        raise ConfigurationError(f"{argument}: {quoted(wrong[0])} is no name that code can call.")
    return [_tool(name, entry) for name, entry in tools.items()]


def _tool(name: str, entry: Any) -> Tool:
    is_described = isinstance(entry, Mapping) and "tool" in entry
    value, said = (entry["tool"], entry.get("description")) if is_described else (entry, None)
    if callable(value) and not isinstance(value, type):
        tool = Tool(value, name=name)
        meaning = "functions are called in this process, not in the kernel: plain data (JSON) goes in and out."
    else:
        _check_plain(name, value)
        tool = Tool(_returning(value), name=name)
        meaning = f"{name} is a value, and becomes a function that returns it: the model calls {name}()."
    say_once(f"custom_tools: {meaning}")
    if said:
        tool.spec["doc"] = str(said)
    return tool


def _check_plain(name: str, value: Any) -> None:
    """Refuse a value that no call could return."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        to_jsonable_python(value)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError):
        raise ConfigurationError(
            f"custom_tools: {name} is of type {type(value).__name__}, which is no plain data (JSON), so the kernel "
            "can't have it. Give functions that do with it what is wanted."
        ) from None


def _returning(value: Any) -> Any:
    def value_of() -> Any:
        """Return this value."""
        return value

    return value_of


def question_of(prompt: Any, root_prompt: str | None) -> tuple[str, Any]:
    """Return the question and the context of a prompt, which is both where there is no `root_prompt`."""
    if root_prompt is not None:
        return root_prompt, prompt
    if prompt is None or (isinstance(prompt, str) and not prompt.strip()):
        raise ConfigurationError("The prompt is empty: ask something.")
    is_short = isinstance(prompt, str) and len(prompt) <= MOST_PROMPT_CHARS
    return (prompt if is_short else _TASK), prompt


def extra_of(custom_system_prompt: Any, user_prologue: Any) -> str:
    """Return what is added to the system message.

    Raises
    ------
    ConfigurationError
        One of them is no text.
    """
    for argument, text in (("custom_system_prompt", custom_system_prompt), ("user_prologue", user_prologue)):
        if not isinstance(text, str | None):
            raise ConfigurationError(f"{argument} is a text, not {quoted(text)}.")
    if custom_system_prompt:
        say_once("custom_system_prompt is added to the system message, and does not replace it: that says how this "
                 "kernel works.")  # fmt: skip
    if user_prologue:
        say_once("user_prologue is added to the system message.")
    return "\n\n".join(filter(None, [custom_system_prompt, user_prologue]))


def check_options(options: Mapping[str, Any], own: Iterable[str]) -> None:
    """Refuse options of `rlm_jupyter.RLM` that an argument of the reference's stands for here, and those of nobody.

    Parameters
    ----------
    own
        What it takes as the reference does; one of these may be meant, too.

    Raises
    ------
    ConfigurationError
        Says which argument is meant.
    """
    for name, instead in _INSTEAD.items():
        if name in options:
            raise ConfigurationError(f"{name}= is not taken here: use {instead}.")
    known = signature(RLM).parameters
    for name in options:
        if name not in known:
            meant = did_you_mean(closest(name, [*own, *sorted(known.keys() - _INSTEAD.keys())]))
            raise ConfigurationError(f"RLM takes no argument {name!r}.{meant}")
