"""A text that kernels have in common: a template reads it, and each of its forks has it, in the same memory."""

from __future__ import annotations

import codecs
import ctypes
import os

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
    ValueError
        It is no such text.
    """
    try:
        return _filled(source, nbytes) if is_ascii else _joined(source, nbytes)
    finally:
        os.close(source)


def _joined(source: int, nbytes: int) -> str:
    """Read a text of any characters: which of CPython's forms it gets is known when all of it is there."""
    decoder, parts, come = codecs.getincrementaldecoder("utf-8")("surrogatepass"), [], 0
    while come <= nbytes and (piece := os.read(source, _PIECE)):
        come += len(piece)
        parts.append(decoder.decode(piece))
    _check(come, nbytes)
    return "".join([*parts, decoder.decode(b"", final=True)])


def _filled(source: int, nbytes: int) -> str:
    """Read an ASCII text into its place, a new `str` of CPython's own, which nobody sees before it is whole."""
    new, find = ctypes.pythonapi.PyUnicode_New, ctypes.pythonapi.PyUnicode_AsUTF8AndSize
    new.argtypes, new.restype = [ctypes.c_ssize_t, ctypes.c_uint32], ctypes.py_object
    find.argtypes, find.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_void_p
    made: str = new(nbytes, _MOST_ASCII)
    place = memoryview((ctypes.c_char * nbytes).from_address(find(made, None))).cast("B")
    come = 0
    while come < nbytes and (more := os.readv(source, [place[come : come + _PIECE]])):
        if not bytes(place[come : come + more]).isascii():
            raise ValueError("the text is not ASCII, as it was said to be")
        come += more
    _check(come + len(os.read(source, 1)), nbytes)
    return made


def _check(come: int, nbytes: int) -> None:
    if come != nbytes:
        raise EOFError(f"{come:,} bytes have come of {nbytes:,}")
