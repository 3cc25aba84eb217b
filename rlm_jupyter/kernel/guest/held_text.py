"""A text that kernels have in common: a template reads it, and each of its forks has it, in the same memory."""

from __future__ import annotations

import codecs
import ctypes
import os
from typing import Any

_PIECE = 1 << 18
_MOST_ASCII = 127

text: str | None = None
"""The text of this process, where it is such a template or the fork of one."""


def read(source: int, nbytes: int, *, is_ascii: bool) -> str:
    """Read a text, as UTF-8 with lone surrogates, from a descriptor, which is closed.

    Parameters
    ----------
    nbytes
        How many bytes it has.
    is_ascii
        Whether all of it is ASCII. Such a text is read into its place, and is at no time in memory twice.

    Raises
    ------
    EOFError
        Whoever writes it has stopped before its end.
    MemoryError
        It is larger than what is left.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    filling, come = _Filling(nbytes) if is_ascii else _Joining(), 0
    try:
        while piece := os.read(source, _PIECE):
            come += len(piece)
            if come > nbytes:
                break
            filling.add(decoder.decode(piece))
    finally:
        os.close(source)
    if come != nbytes:
        raise EOFError(f"{come:,} bytes have come of {nbytes:,}")
    filling.add(decoder.decode(b"", final=True))
    return filling.text()


class _Joining:
    """A text of any characters: which of CPython's forms it gets is known when all of it is there."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        self._parts.append(part)

    def text(self) -> str:
        return "".join(self._parts)


class _Filling:
    """A text of known length, made by CPython's own functions for it, and seen by nobody before it is whole."""

    def __init__(self, chars: int) -> None:
        new = ctypes.pythonapi.PyUnicode_New
        new.argtypes, new.restype = [ctypes.c_ssize_t, ctypes.c_uint32], ctypes.py_object
        self._copy: Any = ctypes.pythonapi.PyUnicode_CopyCharacters
        # where to, as a number: while it is filled, there must be one reference to it
        number: Any = ctypes.c_ssize_t
        self._copy.argtypes = [ctypes.c_void_p, number, ctypes.py_object, number, number]
        self._copy.restype = number
        self._text: list[str] = [new(chars, _MOST_ASCII)]
        self._chars = 0

    def add(self, part: str) -> None:
        if part:
            self._copy(id(self._text[0]), self._chars, part, 0, len(part))
            self._chars += len(part)

    def text(self) -> str:
        return self._text.pop()
