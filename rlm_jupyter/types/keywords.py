"""`names_keywords`: a class or a function that says what a misspelt keyword argument was meant to be.

Python does so by itself from 3.13 on, of the function's own parameters alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import FunctionType
from typing import Any, TypeVar

from rlm_jupyter.types.cell_traceback import shown_in_short
from rlm_jupyter.types.suggestion import closest, did_you_mean

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def names_keywords(
    elsewhere: Mapping[str, str] | None = None, /, **groups: type[Any]
) -> Callable[[_Decorated], _Decorated]:
    """Decorate a function, or a class: its constructor and public methods.

    A keyword that they don't take is answered with the one meant. It is looked for among the function's own and the
    constructor's. The error is a TypeError, as Python's own. Async generators keep Python's.

    Parameters
    ----------
    elsewhere
        What is to be given otherwise, by the name that one may try, and how.
    groups
        Dataclasses whose fields may be meant, too, by the argument of the constructor that takes one: `limits=Limits`.
    """

    def decorate(decorated: _Decorated) -> _Decorated:
        if not isinstance(decorated, type):
            return _checked(None, decorated, elsewhere or {}, groups)  # type: ignore[return-value]
        _name_inherited(decorated)
        for name, function in inspect.getmembers(decorated, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                setattr(decorated, name, _checked(decorated, function, elsewhere or {}, groups))
        return decorated

    return decorate


def _name_inherited(cls: type[Any]) -> None:
    """Name what a class inherits as its own: Python's errors say it so, and nobody knows the base by its name.

    What several inherit of a private base keeps its name.
    """
    for name, member in inspect.getmembers(cls, inspect.isroutine):
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not (name.startswith("_") or function.__qualname__.startswith("_")):
            function.__qualname__ = f"{cls.__name__}.{name}"


def _checked(
    cls: type[Any] | None, function: Callable[..., Any], elsewhere: Mapping[str, str], groups: Mapping[str, type[Any]]
) -> Callable[..., Any]:
    known = frozenset(inspect.signature(function).parameters)
    if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values()):
        return function

    def check(given: dict[str, Any]) -> None:
        if not known.issuperset(given):
            unknown = next(name for name in given if name not in known)
            raise shown_in_short(TypeError(_unknown(cls, function, elsewhere, groups, unknown)))

    if inspect.isasyncgenfunction(function):
        return function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            check(kwargs)
            return await function(*args, **kwargs)

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        check(kwargs)
        return function(*args, **kwargs)

    return called


def _unknown(
    cls: type[Any] | None,
    function: Callable[..., Any],
    elsewhere: Mapping[str, str],
    groups: Mapping[str, type[Any]],
    name: str,
) -> str:
    """Return the error's text."""
    title, call = function.__name__, "{}={}"
    own, options = [*inspect.signature(function).parameters], []
    if cls is not None:
        own, options = own[1:], [*inspect.signature(cls.__init__).parameters][1:]
        is_constructor = function.__name__ == "__init__"
        title = cls.__name__ if is_constructor else f"{cls.__name__}.{function.__name__}"
        call = call if is_constructor else f"{cls.__name__}(…, {{}}={{}})"
    said = f"{title}() got an unexpected keyword argument {name!r}."
    given_as = dict(elsewhere)
    given_as |= {
        one.name: call.format(argument, f"{group.__name__}({one.name}=…)")
        for argument, group in groups.items()
        for one in fields(group)
    }
    given_as |= {one: call.format(one, "…") for one in options} | {one: one for one in own}
    meant = closest(name, given_as)
    return f"{said}{did_you_mean(meant and given_as[meant])}"
