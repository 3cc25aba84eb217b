"""`mapped`: a `str` whose characters lie in a file in memory, which other processes have mapped, too.

CPython keeps a `str` as a header and, right behind it, its characters in one, two or four bytes each
(https://docs.python.org/3/c-api/unicode.html; PEP 393). So the header is put at the end of a page of this process's
own, and the file is mapped from the next page on. Nobody writes to the characters of a `str`, and here nobody can.

Nothing of CPython's layout is written down here: the header is copied from a `str` of the same form, and where its
length is not found at its place, there is none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

from rlm_jupyter.kernel.guest.libc import LIBC

_WIDEST = {1: 0xFF, 2: 0xFFFF, 4: 0x10FFFF}
"""The last character of each width in bytes."""
_LAST_ASCII = 0x7F
_WORD = ctypes.sizeof(ctypes.c_ssize_t)
_LENGTH = 2
"""The word of a header that has the length."""
_SAMPLE = 4_099
"""Characters of the `str` that the header is copied from: as many as nothing else in it is."""
_REFERENCES = 1 << 28
"""That the header counts from the beginning: it is never freed, nor changed in its place."""
_NO_ACCESS, _FIXED = 0, 0x10
"""`PROT_NONE` and `MAP_FIXED`, which `mmap` does not name."""
_FAILED = ctypes.c_void_p(-1).value


def mapped(file: int, length: int, width: int, *, is_ascii: bool) -> str:
    """Return the text in a file, which may be closed then; the mapping stays as long as this process.

    Parameters
    ----------
    file
        A descriptor of `(length + 1) * width` bytes or more, the last of these characters 0.
    length
        In characters.
    width
        Bytes of each, as few as its widest character takes.
    is_ascii
        Whether all of it is ASCII.

    Raises
    ------
    NotImplementedError
        This interpreter is none that it is known of.
    OSError
        It can't be mapped: there is not so much address space, say.
    ValueError
        The file is shorter.
    """
    nbytes, page = (length + 1) * width, mmap.PAGESIZE
    if os.fstat(file).st_size < nbytes:
        raise ValueError("the file is shorter than the text")
    header = _header(length, _LAST_ASCII if is_ascii else _WIDEST[width], width)
    place = _map(None, page + nbytes, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    _map(place, page, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED, -1)
    _map(place + page, nbytes, mmap.PROT_READ, mmap.MAP_PRIVATE | _FIXED, file)
    characters = place + page
    words = (ctypes.c_ssize_t * len(header))(*(characters if word is None else word for word in header))
    address = characters - ctypes.sizeof(words)
    ctypes.memmove(address, words, ctypes.sizeof(words))
    made: str = ctypes.cast(address, ctypes.py_object).value
    return made


def _header(length: int, widest: int, width: int) -> list[int | None]:
    """Return the words before the characters of a `str` of this form; `None`: the address of the characters."""
    is_known = sys.implementation.name == "cpython" and object.__basicsize__ == _LENGTH * _WORD
    if not is_known or "t" in sys.abiflags:  # free threading counts references in another way
        raise NotImplementedError("not with this build of Python")
    new: Any = ctypes.pythonapi.PyUnicode_New
    new.argtypes, new.restype = [ctypes.c_ssize_t, ctypes.c_uint32], ctypes.py_object
    sample = new(_SAMPLE, widest)
    nbytes = sys.getsizeof(sample) - (_SAMPLE + 1) * width
    characters = id(sample) + nbytes
    words = list((ctypes.c_ssize_t * (nbytes // _WORD)).from_address(id(sample)))
    if words[_LENGTH : _LENGTH + 2] != [_SAMPLE, -1]:  # its length, and a hash that nobody has asked for
        raise NotImplementedError("not with this release of Python")
    words[0] = _REFERENCES
    # Python 3.11 has both of them a second time, where a character is as wide as one of C's
    return [{_SAMPLE: length, characters: None}.get(word, word) for word in words]


def _map(place: int | None, nbytes: int, protection: int, flags: int, file: int) -> int:
    call: Any = LIBC.mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = call(place, nbytes, protection, flags, file, 0)
    if found in {None, _FAILED}:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(found)
