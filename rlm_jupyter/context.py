"""`pack`: a context as bytes that a kernel can load, and what the model is told of it."""

from __future__ import annotations

import ctypes
import inspect
import io
import pickle
import sys
from collections import Counter
from collections.abc import Iterable, Sized
from types import FunctionType, ModuleType
from typing import Any, Literal

from rlm_jupyter.beginning import beginning
from rlm_jupyter.errors import ContextError
from rlm_jupyter.objects import digest
from rlm_jupyter.types import ContextInfo, PackedContext

_INSTEAD = "Pass a str, bytes, a list, a dict or a DataFrame of plain data"
_LARGE = 1_000_000
_MOST_KEYS = 20
_MOST_COLUMNS = 50
_MOST_NAME_CHARS = 80


def pack(context: object) -> PackedContext:
    """Turn a context into bytes, and describe it.

    A `str` is encoded once, as UTF-8 with `surrogatepass`; `bytes` and the arrays of a frame are not copied
    (so they must not be changed while the run goes on); anything else is pickled, protocol 5, with its
    large buffers beside the stream.

    Parameters
    ----------
    context
        A `str`, `bytes`, list, dict, pandas or polars frame, or anything else that can be pickled; `None`
        is no context.

    Returns
    -------
    PackedContext
        With `info.sha256` and `info.nbytes` of the buffers.

    Raises
    ------
    ContextError
        The context can't be pickled, or a fresh kernel could not load it; says what to pass instead.
    """
    kind: Literal["str", "bytes", "pickle"]
    buffers: tuple[bytes | memoryview, ...]
    if context is None:
        return PackedContext("none")
    if isinstance(context, str):
        # the plain class's methods: a subclass may mean something else by them
        kind, buffers = "str", (_utf8(context),)
        name, size, details = "str", *_str_info(context)
    elif isinstance(context, bytes | bytearray | memoryview):
        # a copy only of what could change, or has gaps
        kind, buffers = "bytes", (context if type(context) is bytes else bytes(context),)
        name, size, details = "bytes", f"{len(buffers[0]):,} bytes", ()
    else:
        kind, buffers = "pickle", _pickled(context)
        name = _type_name(context)
        size, details = _describe(context)
    nbytes = sum(len(buffer) for buffer in buffers)
    return PackedContext(kind, buffers, ContextInfo(name, size, details, beginning(context), digest(buffers), nbytes))


def unpack(packed: PackedContext) -> Any:
    """The object that was packed.

    A pickled context runs code as it is loaded: unpack what you, or somebody whose notebooks you would
    execute, have packed.
    """
    if packed.kind == "none":
        return None
    first, *others = packed.buffers
    if packed.kind == "str":
        return str(first, "utf-8", "surrogatepass")
    if packed.kind == "bytes":
        return bytes(first)
    # bytearray: a frame built on read-only buffers could not be written to
    return pickle.loads(first, buffers=[bytearray(buffer) for buffer in others])


class Context:
    """The context of a run: described for good, as bytes only while somebody needs them.

    Parameters
    ----------
    value
        As for `pack`.

    Raises
    ------
    ContextError
        As for `pack`.
    """

    def __init__(self, value: object) -> None:
        self._value = value
        self._packed: PackedContext | None = pack(value)
        self.info = self._packed.info
        self.kind = self._packed.kind

    def packed(self) -> PackedContext:
        """The context as bytes; encoded again when they were released."""
        if self._packed is None and isinstance(self._value, str):
            return PackedContext("str", (_utf8(self._value),), self.info)
        return self._packed or pack(self._value)

    def release(self) -> None:
        """Let go of the bytes of a text: half a gigabyte need not lie there twice while a run goes on.

        Anything that can change is kept as it was packed.
        """
        if isinstance(self._value, str):
            self._packed = None


def _utf8(text: str) -> bytes | memoryview:
    """The text as UTF-8. A large ASCII text is not copied: CPython holds it in just these bytes."""
    if len(text) < _LARGE or not str.isascii(text) or sys.implementation.name != "cpython":
        return str.encode(text, "utf-8", "surrogatepass")
    find = ctypes.pythonapi.PyUnicode_AsUTF8AndSize
    find.argtypes, find.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_void_p
    held: Any = (ctypes.c_char * len(text)).from_address(find(text, None))
    held.text = text  # as long as somebody looks at the bytes, the text stays
    return memoryview(held).cast("B").toreadonly()


class _Pickler(pickle.Pickler):
    """Refuses what is pickled by name when a fresh kernel would not find that name."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType):
            # a module that was made by hand has no spec; one inside of a real package comes with that
            package = sys.modules.get((obj.__module__ or "").partition(".")[0])
            if obj.__module__ == "__main__" or (package is not None and package.__spec__ is None):
                what = "class" if isinstance(obj, type) else "function"
                raise ContextError(
                    f"The context holds the {what} {obj.__qualname__!r}, which is defined in {obj.__module__} and "
                    f"unknown in a fresh kernel. {_INSTEAD}, or put the {what} into a module."
                )
        return NotImplemented


def _pickled(context: object) -> tuple[bytes | memoryview, ...]:
    if (refusal := _unpicklable(context)) is not None:
        raise ContextError(f"The context is {refusal}")
    stream = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    try:
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(context)
    except RecursionError:
        raise ContextError(f"The context ({_type_name(context)}) is nested too deeply. {_INSTEAD}.") from None
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, NotImplementedError) as error:
        if isinstance(error, ContextError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ContextError(
            f"The context ({_type_name(context)}) can't be handed to a kernel: {reason}. {_INSTEAD}."
        ) from error
    return stream.getvalue(), *(buffer.raw() for buffer in buffers)


def _unpicklable(context: object) -> str | None:
    """For what people pass by mistake: what it is, and what was probably meant."""
    if inspect.isgenerator(context) or isinstance(context, map | filter | zip):
        return f"a {_type_name(context)}, which can be read only once: pass list(…) of it."
    if inspect.isawaitable(context) or inspect.isasyncgen(context):
        return f"a {_type_name(context)}: await it, and pass what comes of it."
    if isinstance(context, io.IOBase):
        return "an open file: pass what it holds, such as Path(…).read_text()."
    if isinstance(context, ModuleType):
        return f"the module {context.__name__!r}. {_INSTEAD}."
    if inspect.isroutine(context):
        return f"the function {getattr(context, '__name__', '?')!r}: call it, and pass what it returns."
    return None


def _describe(context: object) -> tuple[str, tuple[str, ...]]:
    if isinstance(context, list | tuple):
        return _items_info(context)
    if isinstance(context, dict):
        return _dict_info(context)
    library = _library_of_frame(context)
    if library is not None:
        return _frame_info(context, library)
    shape = getattr(context, "shape", None)
    if isinstance(shape, tuple) and hasattr(context, "dtype"):
        return f"shape {shape}", (f"items: {getattr(context, 'dtype')}",)  # noqa: B009 — `object` has no dtype
    return _size(context) or "size unknown", ()


def _str_info(text: str) -> tuple[str, tuple[str, ...]]:
    lines = str.count(text, "\n") + (str.__len__(text) > 0 and not str.endswith(text, "\n"))
    return f"{str.__len__(text):,} characters", (f"{_count(lines, 'line')}",)


def _items_info(items: list[Any] | tuple[Any, ...]) -> tuple[str, tuple[str, ...]]:
    if not items:
        return "0 items", ()
    kinds = Counter(map(type, items)).most_common(5)
    details = ["items: " + ", ".join(f"{kind.__name__}" + (f" ({n:,})" if len(kinds) > 1 else "") for kind, n in kinds)]
    texts = [len(item) for item in items if isinstance(item, str)]
    if texts:
        first = f"first {len(items[0]):,}, " if isinstance(items[0], str) else ""
        details.append(f"characters: {sum(texts):,} in all; {first}smallest {min(texts):,}, largest {max(texts):,}")
    elif isinstance(items[0], dict):
        details.append(f"keys of the first: {_names(items[0])}")
    return _count(len(items), "item"), tuple(details)


def _dict_info(mapping: dict[Any, Any]) -> tuple[str, tuple[str, ...]]:
    details: list[str] = []
    for key, value in mapping.items():
        if len(details) == _MOST_KEYS:
            details.append(f"and {len(mapping) - _MOST_KEYS:,} more keys")
            break
        size = _size(value)
        details.append(f"{_name(key)}: {type(value).__name__}{', ' + size if size else ''}")
    return _count(len(mapping), "key"), tuple(details)


def _library_of_frame(context: object) -> str | None:
    """`pandas` or `polars`, when it is a frame of theirs; neither is imported to see that."""
    for cls in type(context).__mro__:
        library = cls.__module__.partition(".")[0]
        if cls.__name__ == "DataFrame" and library in {"pandas", "polars"}:
            return library
    return None


def _frame_info(frame: Any, library: str) -> tuple[str, tuple[str, ...]]:
    rows, columns = frame.shape
    dtypes: Iterable[tuple[Any, Any]] = frame.dtypes.items() if library == "pandas" else frame.schema.items()
    details = [f"{_name(name)}: {dtype}" for (name, dtype), _ in zip(dtypes, range(_MOST_COLUMNS), strict=False)]
    if columns > _MOST_COLUMNS:
        details.append(f"and {columns - _MOST_COLUMNS:,} more columns")
    return f"{_count(rows, 'row')}, {_count(columns, 'column')}", tuple(details)


def _size(value: object) -> str:
    """What `len` says, in the unit that fits; empty where it says nothing."""
    if isinstance(value, str):
        return f"{len(value):,} characters"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if not isinstance(value, Sized):
        return ""
    try:
        return _count(len(value), "item")
    except (TypeError, ValueError, NotImplementedError):
        return ""  # it has a `__len__`, which refuses: a 0-d array, a lazy frame


def _names(mapping: dict[Any, Any]) -> str:
    shown = [_name(key) for key, _ in zip(mapping, range(_MOST_KEYS), strict=False)]
    return ", ".join(shown) + (", …" if len(mapping) > _MOST_KEYS else "")


def _name(key: object) -> str:
    """A key or a column's name, on one line of bounded length."""
    text = repr(key[:_MOST_NAME_CHARS] if isinstance(key, str) else key)
    return text if len(text) <= _MOST_NAME_CHARS else text[: _MOST_NAME_CHARS - 1] + "…"


def _type_name(context: object) -> str:
    name = type(context).__name__
    # only what is packed as such bears the names that tell how to unpack it
    return f"{type(context).__module__}.{name}" if name in {"str", "bytes", "none"} else name


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
