"""`adapted`: a type of the user's, or of the model's, as pydantic checks and describes it."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened

_GIVE = "give a pydantic model, a dataclass, int, list[str], Literal['a', 'b'] and the like, or a JSON schema as a dict"
_REASON_CHARS = 200
_COMPOUND = {"tuple", "list", "set", "frozenset", "dict", "model", "dataclass", "typed-dict", "named-tuple"}
"""What pydantic calls a type of keys that JSON has no text for."""
_UNKNOWN = re.compile(r"Unable to generate pydantic-core schema for (?P<what>.+?)\. Set `")


def adapted(wanted: Any) -> tuple[Any, dict[str, Any]]:
    """Return pydantic's `TypeAdapter` of a type, and the type's JSON schema.

    Raises
    ------
    ImportError
        There is no pydantic.
    TypeError
        It is no type, or one that JSON has no form for; the text says so in a line, and what can be given.
    """
    from pydantic import TypeAdapter
    from pydantic_core import to_json

    # pydantic takes a function, and describes its arguments
    if isinstance(wanted, str) or inspect.isroutine(wanted) or isinstance(wanted, functools.partial):
        kind = "a text" if isinstance(wanted, str) else "a function"
        raise TypeError(f"{_name(wanted)} is {kind}, and no type: {_GIVE}")
    try:
        adapter: Any = TypeAdapter(wanted)
        if any(_has_compound_keys(node) for node in _nodes(adapter.core_schema)):
            raise TypeError("the keys of an object are texts in JSON, and no lists or objects")
        # a default may be NaN, which is no JSON, and what a class adds to its schema anything
        return adapter, json.loads(to_json(adapter.json_schema(), inf_nan_mode="null"))
    except Exception as error:  # noqa: BLE001  a type may have code of the user's, which describes it
        raise TypeError(
            f"{_name(wanted)} is no type that can be described as JSON{_why(error, wanted)}: {_GIVE}"
        ) from None


def has_validators(adapter: Any) -> bool:
    """Return whether functions of the user's judge what is of a type: its JSON schema doesn't tell of them."""
    return any(_is_validator(node) for node in _nodes(adapter.core_schema))


def _is_validator(node: Mapping[str, Any]) -> bool:
    if post_init := node.get("post_init"):  # of a dataclass `True`, of a model its name; pydantic has one, too
        called = getattr(node.get("cls"), str(post_init), None)
        return getattr(called, "__name__", "") != "init_private_attributes"
    function = node.get("function")
    called = function.get("function") if isinstance(function, Mapping) else None
    is_pydantics = (getattr(called, "__module__", None) or "").partition(".")[0] in {"pydantic", "pydantic_core"}
    return called is not None and str(node.get("type")).startswith("function-") and not is_pydantics


def _nodes(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of pydantic's own description of a type, itself included."""
    if isinstance(schema, Mapping):
        yield schema
    parts = schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ()
    for part in parts:
        yield from _nodes(part)


def _has_compound_keys(node: Mapping[str, Any]) -> bool:
    keys = node.get("keys_schema") if node.get("type") == "dict" else None
    return isinstance(keys, Mapping) and keys.get("type") in _COMPOUND


def _name(wanted: object) -> str:
    name = getattr(wanted, "__qualname__", None)
    return name if isinstance(name, str) and isinstance(wanted, type) else quoted(wanted)


def _why(error: Exception, wanted: object) -> str:
    """Return what of a type is the reason, where that is more than that it is none; without pydantic's advice."""
    said = " ".join(str(error).split())
    if found := _UNKNOWN.match(said):
        what = found["what"]
        return "" if what == repr(wanted) else f" (for {shortened(what, _REASON_CHARS)} there is no form)"
    return f" ({shortened(said.partition(' For further information')[0].rstrip('.'), _REASON_CHARS)})"
