"""`utf8`: a text as bytes, a large one without a copy where that is possible."""

from __future__ import annotations

import sys
from typing import Any

_LARGE = 1_000_000
_PIECE = 1 << 20


def utf8(text: str) -> bytes | memoryview:
    """Return the text as UTF-8, with `surrogatepass`.

    A large ASCII text is not copied: CPython holds it in just these bytes.
    """
    # the plain class's methods: a subclass may mean something else by them
    if str.__len__(text) < _LARGE or not str.isascii(text) or sys.implementation.name != "cpython":
        return str.encode(text, "utf-8", "surrogatepass")
    import ctypes

    find = ctypes.pythonapi.PyUnicode_AsUTF8AndSize
    find.argtypes, find.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_void_p
    held: Any = (ctypes.c_char * str.__len__(text)).from_address(find(text, None))
    held.text = text  # as long as somebody looks at the bytes, the text stays
    return memoryview(held).cast("B").toreadonly()


def is_ascii(buffer: bytes | memoryview) -> bool:
    """Return whether these bytes are ASCII; at once, where they are a text's own."""
    if isinstance(buffer, bytes):
        return buffer.isascii()
    if isinstance(text := getattr(buffer.obj, "text", None), str) and len(text) == buffer.nbytes:
        return str.isascii(text)
    return all(bytes(buffer[at : at + _PIECE]).isascii() for at in range(0, buffer.nbytes, _PIECE))
