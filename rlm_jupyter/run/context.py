"""`pack`: a context as bytes that a kernel can load, and what the model is told of it."""

from __future__ import annotations

import asyncio
import inspect
import io
import pickle
import sys
from collections.abc import Iterator, MappingView
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Literal

from rlm_jupyter.prompts.description import describe
from rlm_jupyter.prompts.images import are_images
from rlm_jupyter.prompts.preview import beginning
from rlm_jupyter.record.blobs import digest
from rlm_jupyter.types.detached import in_thread
from rlm_jupyter.types.errors import ContextError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.utf8 import utf8
from rlm_jupyter.types.values import ContextInfo, PackedContext

_LARGE = 1 << 24
_INSTEAD = "Pass a str, bytes, a list, a dict or a DataFrame of plain data"
_ONCE = frozenset({"builtins", "itertools"})
"""Modules whose iterators hold nothing but what is left to read."""


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
        kind, buffers = "str", (utf8(context),)
        name = "str"
    elif isinstance(context, bytes | bytearray | memoryview):
        # a copy only of what could change, or has gaps
        kind, buffers = "bytes", (context if type(context) is bytes else bytes(context),)
        name = "bytes"
    else:
        kind, buffers = "pickle", _pickled(context)
        name = _type_name(context)
    return PackedContext(kind, buffers, _described(context, name, kind, buffers))


def _described(
    context: object, name: str, kind: Literal["str", "bytes", "pickle"], buffers: tuple[bytes | memoryview, ...]
) -> ContextInfo:
    nbytes = sum(len(buffer) for buffer in buffers)
    shown = buffers[0] if kind == "bytes" else context
    if nbytes < _LARGE:
        sha256, (size, details) = digest(buffers), describe(shown)
    else:
        with ThreadPoolExecutor(1) as beside:  # the two have the same bytes to read, and each takes its while
            hashed = beside.submit(digest, buffers)
            size, details = describe(shown)
            sha256 = hashed.result()
    return ContextInfo(name, size, details, beginning(context), sha256, nbytes)


def unpack(packed: PackedContext) -> Any:
    """Return the object that was packed.

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

    A large text is described, which means read through, in a thread: meanwhile a kernel can be given it.

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
        self._buffers: tuple[bytes | memoryview, ...] | None
        self._info: ContextInfo | Future[ContextInfo]
        self.kind: Literal["none", "str", "bytes", "pickle"]
        if isinstance(value, str) and str.__len__(value) >= _LARGE:
            self.kind, self._buffers = "str", (utf8(value),)
            self._info = in_thread(partial(_described, value, "str", "str", self._buffers), "rlm_context")
        else:
            packed = pack(value)
            self.kind, self._buffers, self._info = packed.kind, packed.buffers, packed.info
        self.nbytes = sum(memoryview(buffer).nbytes for buffer in self._buffers)
        self.has_no_text = are_images(value)
        """It is nothing but images."""

    @property
    def info(self) -> ContextInfo:
        """What it is; waits until a large text is read through."""
        if isinstance(self._info, Future):
            self._info = self._info.result()
        return self._info

    @property
    def is_described(self) -> bool:
        """Whether `info` is there already."""
        return not isinstance(self._info, Future) or self._info.done()

    async def described(self) -> None:
        """Wait until `info` is there."""
        if isinstance(self._info, Future):
            await asyncio.shield(asyncio.wrap_future(self._info))  # whoever asks next is to find it

    @property
    def buffers(self) -> tuple[bytes | memoryview, ...]:
        """Its bytes; encoded again when they were released."""
        if self._buffers is None and isinstance(self._value, str):
            return (utf8(self._value),)
        return self._buffers or pack(self._value).buffers

    def packed(self) -> PackedContext:
        """Return the context as bytes, with what it is."""
        return PackedContext(self.kind, self.buffers, self.info)

    def text(self) -> str | None:
        """Return the text, where it is one; never a copy of it."""
        if type(self._value) is str:
            return self._value
        return self.packed().text()

    def release(self) -> None:
        """Let go of the bytes of a text: half a gigabyte need not lie there twice while a run goes on.

        Anything that can change is kept as it was packed.
        """
        if isinstance(self._value, str):
            self._buffers = None


AnyContext = Context | PackedContext


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
    """Say of what people pass by mistake what it is, and what was probably meant."""
    is_once = isinstance(context, Iterator) and type(context).__module__ in _ONCE
    if is_once or isinstance(context, MappingView):
        what = "can be read only once" if is_once else "shows a dict that stays here"
        return f"a {_type_name(context)}, which {what}: pass list(…) of it."
    if inspect.isawaitable(context) or inspect.isasyncgen(context):
        return f"a {_type_name(context)}: await it, and pass what comes of it."
    if isinstance(context, io.IOBase):
        return "an open file: pass what it holds, such as Path(…).read_text()."
    if isinstance(context, ModuleType | type):
        kind = "class" if isinstance(context, type) else "module"
        return f"the {kind} {quoted(context.__name__)}. {_INSTEAD}."
    if inspect.isroutine(context):
        return f"the function {quoted(getattr(context, '__name__', '?'))}: call it, and pass what it returns."
    return None


def _type_name(context: object) -> str:
    name = type(context).__name__
    # only what is packed as such bears the names that tell how to unpack it
    return f"{type(context).__module__}.{name}" if name in {"str", "bytes", "none"} else name
