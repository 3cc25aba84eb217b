"""`tool_functions`: the functions that stand for the host's tools in this kernel."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.namespace import Listing
from rlm_jupyter.kernel.guest.subcall_client import SubcallError, SubcallFailure
from rlm_jupyter.kernel.guest.subcall_functions import MakesCalls
from rlm_jupyter.types import call_text
from rlm_jupyter.types.tool_lines import forms, line

_ABOUT_MODULE = "Functions of the user's, which run elsewhere. help(module.function) describes one.\n\n"


class _ServerModule(types.ModuleType):
    """Holds the functions that a server has."""


class _Shown:
    """Stands for a default or an annotation that only the host has."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def tool_functions(calls: MakesCalls, specs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a function for each tool, by name, and `SHOW_TOOLS`; nothing where there are none.

    Parameters
    ----------
    specs
        As `Tool.spec` has them.
    """
    if not specs:
        return {}

    def show_tools(word: str = "") -> Listing:
        """List the tools, a line each; with a word, those that mention it."""
        found = [text for text in map(line, specs) if word.lower() in text.lower()]
        return Listing("\n".join(found) or f"No tool mentions {word!r}.")

    show_tools.__name__ = show_tools.__qualname__ = "SHOW_TOOLS"
    found: dict[str, Any] = {"SHOW_TOOLS": show_tools}
    for spec in specs:
        module, _, name = spec["name"].rpartition(".")
        function = _function(calls, spec)
        if module:
            package = found.setdefault(module, _ServerModule(module, _ABOUT_MODULE))
            function.__module__ = module
            setattr(package, name, function)
            # `help(module)` leaves out functions that no file of the module's defines; its description has them
            package.__doc__ += f"{line(spec)}\n"
        else:
            found[name] = function
    for module, package in found.items():
        if isinstance(package, _ServerModule):
            _make_importable(module, package)
    return found


def _make_importable(name: str, module: _ServerModule) -> None:
    """Have `import NAME` find it, which models write by habit; a library that is called so goes on being found."""
    known = sys.modules.get(name)
    if isinstance(known, _ServerModule) or (known is None and importlib.util.find_spec(name) is None):
        sys.modules[name] = module


def _function(calls: MakesCalls, spec: dict[str, Any]) -> Callable[..., Any]:
    name, signature = spec["name"], _signature(spec)

    def tool(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}. {line(spec)}") from None
            args, kwargs = bound.args, bound.kwargs
        [answer] = calls.call("tool", [_text(name, args, kwargs)], name)
        if isinstance(answer, SubcallFailure):
            raise SubcallError(answer.reason)
        return json.loads(answer)

    tool.__name__ = tool.__qualname__ = name.rpartition(".")[2]
    tool.__doc__ = "\n\n".join(filter(None, [spec["doc"], forms(spec)])) or None
    if signature is not None:
        tool.__signature__ = signature  # type: ignore[attr-defined]
    return tool


def _text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        return call_text.write(name, args, kwargs, _plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} takes plain data (text, numbers, lists, dicts): {error}") from None


def _plain(value: Any) -> Any:
    """Return plain data for what JSON has no form for: numpy's numbers and arrays, sets, paths, dates."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    for method in ("tolist", "isoformat", "__fspath__"):
        if callable(found := getattr(value, method, None)):
            return found()
    raise TypeError(f"{type(value).__name__} is none")


def _signature(spec: dict[str, Any]) -> inspect.Signature | None:
    if spec["parameters"] is None:
        return None
    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name,
            inspect._ParameterKind[kind],
            default=empty if default is None else _Shown(default),
            annotation=_Shown(annotation) if annotation else empty,
        )
        for name, kind, default, annotation in spec["parameters"]
    ]
    returns = _Shown(spec["returns"]) if spec["returns"] else inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=returns)
