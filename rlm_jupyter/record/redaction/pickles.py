"""A pickle with other texts in it, made without loading it: loading runs whatever a pickle says."""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections.abc import Callable

_TEXTS = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_BYTES = frozenset({"SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"})
_LARGE = 1 << 32


def rewritten(stream: bytes, text: Callable[[str], str], data: Callable[[bytes], bytes]) -> bytes:
    """Return the pickle with each of its texts, and each of its byte strings, replaced.

    Parameters
    ----------
    stream
        A pickle of any protocol.
    text
        Given each text.
    data
        Given each byte string; what it returns has the same length, because it may be an array's.

    Raises
    ------
    ValueError
        It is no pickle.
    """
    pieces: list[bytes] = []
    view = memoryview(stream)
    pending: tuple[str, object, int] | None = None
    for opcode, argument, position in pickletools.genops(stream):
        if pending is not None:
            pieces.append(_piece(*pending, view[pending[2] : position], text, data))
        pending = (opcode.name, argument, position or 0)
    if pending is not None:
        pieces.append(_piece(*pending, view[pending[2] : pending[2] + 1], text, data))
    return b"".join(pieces)


def _piece(
    name: str,
    argument: object,
    _position: int,
    raw: memoryview,
    text: Callable[[str], str],
    data: Callable[[bytes], bytes],
) -> bytes:
    if name == "FRAME":
        return b""  # it counts the bytes that follow, which may be others now; a pickle needs none
    if name in _TEXTS and isinstance(argument, str) and (new := text(argument)) != argument:
        content = new.encode("utf-8", "surrogatepass")
        if len(content) < _LARGE:
            return pickle.BINUNICODE + struct.pack("<I", len(content)) + content
        return pickle.BINUNICODE8 + struct.pack("<Q", len(content)) + content
    if name in _BYTES and isinstance(argument, bytes | bytearray):
        return bytes(raw[: len(raw) - len(argument)]) + data(bytes(argument))
    return bytes(raw)
