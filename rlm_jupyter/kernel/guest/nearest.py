"""`nearest`: the plain data that comes closest to a value which JSON has no exact form for.

For answers that must have a form: a tuple is meant where a list was asked for, an instance where its fields were.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, ItemsView, KeysView, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from rlm_jupyter.kernel.guest.subcall_client import SubcallFailure

_PLAIN = (str, int, float, bool, type(None))
_METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("model_dump", {"mode": "json", "by_alias": True}),  # pydantic's models
    ("to_dicts", {}),  # polars' frames
    ("to_pylist", {}),  # pyarrow's
    ("isoformat", {}),  # dates and times
    ("tolist", {}),  # numpy's arrays and numbers, pandas' series
    ("to_list", {}),  # polars' series
)


def nearest(value: Any) -> Any:
    """Return the plain data that comes closest to a value.

    Raises
    ------
    TypeError
        Nothing does. The value's own methods are called, which may raise anything else.
    """
    if type(value) in _PLAIN:
        return value
    for kind, made in _KINDS:
        if isinstance(value, kind):
            return made(value)
    if dataclasses.is_dataclass(value):
        return {field.name: nearest(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if (found := _method(value)) is not None:
        return nearest(found())
    return _refused(value)


def _method(value: Any) -> Callable[[], Any] | None:
    """Return what makes plain data of an object of a library's."""
    if callable(to_dict := getattr(value, "to_dict", None)) and hasattr(value, "columns") and hasattr(value, "iloc"):
        return lambda: to_dict("records")  # a frame of pandas'
    for name, options in _METHODS:
        if callable(method := getattr(value, name, None)):
            return lambda method=method, options=options: method(**options)  # type: ignore[misc]
    return None


def _key(key: Any) -> str:
    """Return a key as JSON has it: `1` and `True` as texts."""
    plain = nearest(key)
    if isinstance(plain, bool) or plain is None:
        return {True: "true", False: "false", None: "null"}[plain]
    if not isinstance(plain, str | int | float):
        raise TypeError(f"a {type(key).__name__} is no key")
    return str(plain)


def _refused(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} is no plain data")


_KINDS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (SubcallFailure, _refused),
    (Enum, lambda value: nearest(value.value)),
    *((kind, kind) for kind in (str, bool, int, float)),  # of a class of its own
    (bytes | bytearray, lambda value: bytes(value).decode()),
    (Decimal | UUID | PurePath, str),
    (Mapping, lambda value: {_key(key): nearest(item) for key, item in value.items()}),
    (KeysView | ItemsView, lambda value: list(map(nearest, value))),
    (Set, lambda value: list(map(nearest, sorted(value, key=repr)))),
    (Sequence | ValuesView, lambda value: list(map(nearest, value))),
)
"""What is made of each kind; the first that fits counts."""
