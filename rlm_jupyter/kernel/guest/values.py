"""Values in and out of the kernel: contexts as raw buffers, answers as the text they stand for."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import pickle
import re
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlm_jupyter.kernel.guest.codec import to_bytes, to_text
from rlm_jupyter.kernel.guest.in_full import in_full
from rlm_jupyter.kernel.guest.nearest import nearest
from rlm_jupyter.kernel.guest.subcall_client import SubcallFailure

_PLAIN = (str, int, float, bool, type(None))
_MAPPINGS = (dict, Counter, OrderedDict, defaultdict)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_BYTES = (bytes, bytearray, memoryview)
_NO_CONTENT = (
    types.ModuleType,
    type,
    types.GeneratorType,
    types.AsyncGeneratorType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.EllipsisType,
    types.NotImplementedType,
    Awaitable,
    partial,
)
"""What stands for something else, and is no answer itself; `...` is what an example leaves out."""
_ADDRESS = re.compile(r"<[^<>]{1,200} at 0x[0-9A-Fa-f]+>")
"""What Python calls an object that has no text of its own."""


@dataclass(frozen=True, slots=True)
class Text:
    """A value as text and, where it is plain data, as JSON."""

    text: str
    json: str | None
    """`None` for a `str` too: the text is all there is to it."""
    type_name: str
    is_exact: bool = True
    """Whether nothing of the value is lost in `json`; else that is what comes nearest (`nearest.nearest`)."""


def load(kind: str, buffers: Sequence[memoryview]) -> Any:
    """Return a context, from the buffers that the host sent (`PackedContext.kind`)."""
    if kind == "str":
        return to_text(buffers[0])
    if kind == "bytes":
        return bytes(buffers[0])
    if kind == "pickle":
        # bytearray: a frame built on a read-only buffer could not be written to
        return pickle.loads(buffers[0], buffers=[bytearray(b) for b in buffers[1:]])
    return None


def dump(value: object, *, pickles: bool) -> tuple[str, list[bytes]]:
    """Turn a variable into a context for this and other kernels: its kind and buffers, the counterpart of `load`.

    Plain data comes as `json`, which is safe to be read anywhere.

    Raises
    ------
    TypeError
        It can't be one, or only as a pickle and `pickles` is false.
    """
    if isinstance(value, str):
        return "str", [to_bytes(value)]
    if isinstance(value, _BYTES):
        return "bytes", [bytes(value)]
    if (plain := _json(value)) is not None:
        return "json", [plain.encode()]
    if not pickles:
        raise TypeError("from within a sandbox only text, bytes and plain data (lists, dicts, numbers) are taken")
    stream = io.BytesIO()
    try:
        _Lasting(stream, protocol=5).dump(value)
    except Exception as error:
        raise TypeError(f"it can't be pickled: {_said(error)}") from error
    return "pickle", [stream.getvalue()]


class _Lasting(pickle.Pickler):
    """Refuses what a later kernel would not find: classes and functions that cells define."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType) and obj.__module__ == "__main__":
            raise TypeError(f"{obj.__qualname__} is defined in a cell only")
        return NotImplemented


def as_text(value: object) -> Text:
    """Return what `value` reads as when it is the answer: whole, never with an ellipsis.

    Raises
    ------
    TypeError
        The value can't become text, or has no content of its own (`None`, a function, a generator).
    """
    name = type_name(value)
    if issubclass(type(value), str):  # a class may call itself a str and be none
        text = str.__str__(value)
        return Text(text, None if name == "str" else json.dumps(text), name)
    if (problem := _no_content(value)) is not None:
        raise TypeError(problem)
    try:
        with in_full():
            value = _unwrapped(value)
            data = _json(value)
            # plain lists and dicts read as JSON, which is what a question about them asks for
            is_nested = data is not None and isinstance(value, list | dict)
            text = _as_json(value) if is_nested else _whole(value)
            is_exact = data is not None
            data = data if is_exact else _nearest(value)
    except BaseException as error:
        # an interrupt ends the cell; anywhere but in its thread it is the value's own, and would end the kernel's
        interrupts = isinstance(error, KeyboardInterrupt | asyncio.CancelledError)
        if interrupts and threading.current_thread() is threading.main_thread():
            raise
        raise TypeError(f"the {name} can't be turned into text: {_said(error)}") from error
    if _ADDRESS.fullmatch(text):
        raise TypeError(_is_no_answer(name))
    return Text(text, data, name, is_exact)


def type_name(value: object) -> str:
    """Return the name of a value's type, without running any of its code."""
    kind = type(value)
    return str(type.__dict__["__name__"].__get__(kind))


def size(value: object) -> str:
    """Return length or shape of the well-known kinds, without running any code of others; else empty."""
    kind = type(value)
    if kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset):
        return f"{len(value):,}"  # type: ignore[arg-type]
    module = type.__dict__["__module__"].__get__(kind) if kind.__class__ is type else ""
    if isinstance(module, str) and module.partition(".")[0] in {"numpy", "pandas", "polars"}:
        shape = getattr(value, "shape", None)
        if type(shape) is tuple:
            return str(shape)
    return ""


def _no_content(value: object) -> str | None:
    """Return why this can't be an answer; asks the type alone, because a class may claim to be any other."""
    kind, name = type(value), type_name(value)
    if value is None:
        return "the value is None (did a function return nothing?); pass the answer itself"
    if kind is SubcallFailure:
        return f"the value is a sub-call that failed, {value}; ask again, or answer without it"
    if issubclass(kind, BaseException):
        return f"the value is an error ({name}), no answer; if its text is the answer, pass str() of it"
    is_lazy = name == "LazyFrame" and _library(kind) == "polars"
    if issubclass(kind, _NO_CONTENT) or is_lazy:
        return _is_no_answer(name)
    return None


def _is_no_answer(name: str) -> str:
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name} is no answer; pass the value it stands for"


def _said(error: BaseException) -> str:
    try:
        return f"{type_name(error)}: {error}"
    except Exception:  # noqa: BLE001  an error's text is the model's code too
        return type_name(error)


def _unwrapped(value: object) -> object:
    """Return the value without a container that only says how it came to be."""
    kind = type(value)
    library = _library(kind)
    # the text of a Categorical leaves out its middle, whatever the options
    if kind in _VIEWS or (library == "pandas" and type_name(value) == "Categorical"):
        return list(value)  # type: ignore[call-overload]
    if kind is defaultdict:
        return dict(value)  # type: ignore[call-overload]
    if kind in _BYTES:
        data = bytes(value)  # type: ignore[call-overload]
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode()
        return data
    if library == "pyarrow" and hasattr(value, "to_pylist"):
        return value.to_pylist()
    return value


def _library(kind: type) -> str:
    module = type.__dict__["__module__"].__get__(kind) if kind.__class__ is type else ""
    return module.partition(".")[0] if isinstance(module, str) else ""


def _whole(value: object) -> str:
    pandas = sys.modules.get("pandas")
    series: Any = getattr(pandas, "Series", None)
    if isinstance(series, type) and issubclass(type(value), series):
        return str(value.to_string())  # type: ignore[attr-defined]  # without the line that names its type
    return str(value)


def _json(value: object) -> str | None:
    """Return the value as JSON when it is plain data through and through, and nothing of it is lost."""
    try:
        return json.dumps(_data(value), allow_nan=type(value) is float)
    except (ValueError, TypeError, RecursionError):
        return None


def _nearest(value: object) -> str | None:
    """Return the JSON that comes nearest to a value; `NaN` stands in it as such, and is refused with its name."""
    try:
        return json.dumps(nearest(value))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except Exception:  # noqa: BLE001  the value's methods are the model's own code; its text is there all the same
        return None


def _as_json(value: object) -> str:
    """Return plain data as JSON to be read: letters beyond ASCII as they are, where they can be written."""
    text = json.dumps(_data(value), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(_data(value))
    return text


def _data(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_data(item) for item in value]
    if kind in _MAPPINGS and all(type(key) is str for key in value):
        return {key: _data(item) for key, item in value.items()}
    if _library(kind) == "numpy" and hasattr(kind, "item") and hasattr(kind, "dtype"):
        item = value.item() if value.ndim == 0 else value
        if type(item) in _PLAIN:
            return item
    raise TypeError(f"a {type_name(value)} is no plain data")
