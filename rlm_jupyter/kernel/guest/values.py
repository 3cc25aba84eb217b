"""Values in and out of the kernel: contexts as raw buffers, answers as the text they stand for."""

from __future__ import annotations

import contextlib
import inspect
import json
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rlm_jupyter.kernel.guest.codec import to_text

_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Text:
    """A value as text and, where it is plain data, as JSON."""

    text: str
    json: str | None
    type_name: str


def load(kind: str, buffers: Sequence[memoryview]) -> Any:
    """A context, from the buffers that the host sent (`PackedContext.kind`)."""
    if kind == "str":
        return to_text(buffers[0])
    if kind == "bytes":
        return bytes(buffers[0])
    if kind == "pickle":
        # bytearray: a frame built on a read-only buffer could not be written to
        return pickle.loads(buffers[0], buffers=[bytearray(b) for b in buffers[1:]])
    return None


def as_text(value: object) -> Text:
    """What `value` reads as when it is the answer: whole, never with an ellipsis.

    Raises
    ------
    TypeError
        The value can't become text, or has no content of its own (`None`, a function, a generator).
    """
    name = type_name(value)
    if isinstance(value, str):
        text = str.__str__(value)
        return Text(text, json.dumps(text), name)
    if value is None:
        raise TypeError("the value is None (did a function return nothing?); pass the answer itself")
    if (
        inspect.isgenerator(value)
        or inspect.isawaitable(value)
        or inspect.isasyncgen(value)
        or isinstance(value, ModuleType | type)
        or inspect.isroutine(value)
    ):
        raise TypeError(f"a {name} is no answer; pass the value it stands for")
    if type(value) in (int, float, bool):
        return Text(str(value), json.dumps(value), name)
    try:
        text = _whole(value)
    except Exception as error:
        raise TypeError(f"the {name} can't be turned into text: {type(error).__name__}: {error}") from error
    return Text(text, _json(value), name)


def type_name(value: object) -> str:
    """The name of a value's type, without running any of its code."""
    kind = type(value)
    return str(type.__dict__["__name__"].__get__(kind))


def size(value: object) -> str:
    """Length or shape of the well-known kinds, without running any code of others; else empty."""
    kind = type(value)
    if kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset):
        return f"{len(value):,}"  # type: ignore[arg-type]
    module = type.__dict__["__module__"].__get__(kind) if kind.__class__ is type else ""
    if isinstance(module, str) and module.partition(".")[0] in {"numpy", "pandas", "polars"}:
        shape = getattr(value, "shape", None)
        if type(shape) is tuple:
            return str(shape)
    return ""


def _whole(value: object) -> str:
    """`str(value)`, with frames and arrays written out in full."""
    kind = type_name(value)
    pandas, polars, numpy = (sys.modules.get(name) for name in ("pandas", "polars", "numpy"))
    if pandas is not None and isinstance(value, pandas.DataFrame | pandas.Series):
        with pandas.option_context("display.max_colwidth", None):
            return str(value.to_string())
    if polars is not None and kind in {"DataFrame", "Series"} and isinstance(value, polars.DataFrame | polars.Series):
        with polars.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=1_000_000, fmt_table_cell_list_len=-1):
            return str(value)
    with contextlib.ExitStack() as stack:
        if numpy is not None:
            stack.enter_context(numpy.printoptions(threshold=sys.maxsize))
        return str(value)


def _json(value: object) -> str | None:
    """The value as JSON when it is plain data through and through, and comes back equal."""
    try:
        if not _is_plain(value):
            return None
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return None


def _is_plain(value: object) -> bool:
    if type(value) in _PLAIN:
        return True
    if type(value) is list:
        return all(_is_plain(item) for item in value)
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return False
