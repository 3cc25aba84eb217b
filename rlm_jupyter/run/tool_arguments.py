"""`converting`: a tool whose arguments are made what its annotations say, each by its own; `checking`: they alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

Function = Callable[..., Any]


def converting(function: Function) -> Function:
    """Return the function with its arguments checked and converted by pydantic.

    An annotation that can't be used, such as a name that is defined nowhere, leaves its own argument as it is given.
    """
    from pydantic import PydanticUserError

    cant = (PydanticUserError, NameError, TypeError, ValueError, SyntaxError, AttributeError)
    try:
        return _validated(function)
    except cant:
        pass

    def is_usable(parameter: inspect.Parameter) -> bool:
        try:
            _validated(_stand_in(function, [parameter]))
        except cant:
            return False
        return True

    try:
        parameters = inspect.signature(function).parameters.values()
        return _validated(_stand_in(function, [one if is_usable(one) else _bare(one) for one in parameters]))
    except cant:
        return function


def checking(function: Function) -> Function:
    """Return what takes the arguments of a function as `converting` does, and does nothing with them."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # some of those that are written in C tell none
        return _nothing
    return converting(_stand_in(_nothing, parameters, function))


def _nothing(*_: Any, **__: Any) -> None:
    """Take any arguments."""


def _validated(function: Function) -> Function:
    from pydantic import ConfigDict, validate_call

    return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)


def _stand_in(
    function: Function, parameters: Sequence[inspect.Parameter], named_by: Function | None = None
) -> Function:
    """Return a function that calls this one, and has these parameters alone, annotated in the module of `named_by`."""

    def stand_in(*positional: Any, **named: Any) -> Any:
        return function(*positional, **named)

    annotations = {one.name: one.annotation for one in parameters if one.annotation is not inspect.Parameter.empty}
    stand_in.__module__ = getattr(named_by or function, "__module__", None) or __name__
    stand_in.__annotations__ = annotations
    stand_in.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return stand_in


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=inspect.Parameter.empty)
