"""`SharedTexts`: large texts that kernels are given, each in memory once, however many kernels have it.

A text is written into a file in memory that nobody can write to any more, in the form that CPython keeps it in. A
kernel is passed the file's descriptor, and maps it (`guest/mapped_text.py`): nothing is copied, and it takes no time.
This is for Linux.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from rlm_jupyter.types.detached import in_thread
from rlm_jupyter.types.utf8 import is_ascii, utf8
from rlm_jupyter.types.values import PackedContext, PacksContext, is_same

log = logging.getLogger(__name__)
LARGE_TEXT = 4_000_000
"""Bytes of a text from which on it is shared; a smaller one is sent."""
_PIECE_BYTES = 1 << 26
"""That are written at once: between two pieces it is looked whether anybody still wants the text."""
_PIECE = 1 << 17
"""Characters, or bytes, that are encoded at once, and stay in the processor's cache until they are written."""
_CODECS = {1: "latin-1", 2: f"utf-16-{sys.byteorder[0]}e", 4: f"utf-32-{sys.byteorder[0]}e"}
"""By the width of a character in bytes, what is encoded as CPython keeps it."""


@dataclass(frozen=True, slots=True)
class _Written:
    file: int
    length: int
    width: int
    is_ascii: bool


class SharedText:
    """A text that is being written, or is there."""

    def __init__(self, context: PacksContext) -> None:
        self.context = context
        self.users = 0
        self._stop = threading.Event()
        self._written = in_thread(lambda: _write(context, self._stop), "rlm_text")

    def is_of(self, context: PacksContext) -> bool:
        """Return whether it is this one; nobody waits until both are read through, and then they are two."""
        known = context.is_described and self.context.is_described
        return context is self.context or (known and is_same(self.context, context))

    async def pass_to(self, send: Callable[[int], int | None]) -> dict[str, Any] | None:
        """Pass the file on, once it is there.

        Parameters
        ----------
        send
            Is given a descriptor of it, and returns the number by which it was sent.

        Returns
        -------
        dict or None
            What a kernel is told of it (`SelfFork.text`); `None`: it can't be shared.
        """
        written = await asyncio.shield(asyncio.wrap_future(self._written))  # others wait for it, too
        if written is None or self._stop.is_set():  # the number of its descriptor may be another's by now
            return None
        form = asdict(written)
        # opened anew: a place in the file, and locks, are nobody else's
        try:
            file = os.open(f"/proc/self/fd/{form.pop('file')}", os.O_RDONLY)
        except OSError as error:  # too many are open
            log.info("A text is sent to a kernel: %s", error)
            return None
        try:
            passed = send(file)
        finally:
            os.close(file)
        return None if passed is None else form | {"passed": passed}

    def close(self) -> None:
        """Close the file; who has mapped it keeps it."""
        self._stop.set()

        def close(made: Future[_Written | None]) -> None:
            if (written := made.result()) is not None:
                os.close(written.file)

        self._written.add_done_callback(close)


class SharedTexts:
    """Those that kernels of one run have, its children and its samples; used on one event loop."""

    def __init__(self) -> None:
        self._texts: list[SharedText] = []

    def take(self, context: PacksContext) -> SharedText | None:
        """Return what shares this text, to be given to `leave`; `None`: none can, or need."""
        if context.kind != "str" or context.nbytes < LARGE_TEXT or not hasattr(os, "memfd_create"):
            return None
        text = next((text for text in self._texts if text.is_of(context)), None)
        if text is None:
            text = SharedText(context)
            self._texts.append(text)
        text.users += 1
        return text

    def leave(self, text: SharedText) -> None:
        """Need it no more; with its last user its file is closed."""
        text.users -= 1
        if not text.users:
            self._texts.remove(text)
            text.close()


def _write(context: PacksContext, stop: threading.Event) -> _Written | None:
    """Write a text into a file in memory, and seal that; return `None` where that can't be, or nobody wants it."""
    try:
        return _sealed(context, stop)
    except (OSError, MemoryError, ValueError) as error:  # as where its bytes are no UTF-8, which its kernel will say
        log.info("A text is sent to each kernel: %s", error)
        return None


def _sealed(context: PacksContext, stop: threading.Event) -> _Written:
    import fcntl  # not on Windows

    file = os.memfd_create("rlm_text", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        written = _encoded(context, file, stop)
        os.ftruncate(file, (written.length + 1) * written.width)  # a character 0 ends it
        fcntl.fcntl(
            file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        )
    except BaseException:
        os.close(file)
        raise
    return written


def _encoded(context: PacksContext, file: int, stop: threading.Event) -> _Written:
    # what is there as a `str` is not encoded to find out
    text = context.buffers[0] if isinstance(context, PackedContext) else context.text()
    assert text is not None
    if text.isascii() if isinstance(text, str) else is_ascii(text):
        view = memoryview(utf8(text) if isinstance(text, str) else text)
        pieces = (view[at : at + _PIECE_BYTES] for at in range(0, len(view), _PIECE_BYTES))
        return _Written(file, _put(file, pieces, stop), 1, is_ascii=True)
    for width in (1, 2):
        try:
            return _Written(file, _put(file, _pieces(text, width), stop) // width, width, is_ascii=False)
        except UnicodeEncodeError:  # one of its characters is wider
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
    return _Written(file, _put(file, _pieces(text, 4), stop) // 4, 4, is_ascii=False)


def _pieces(text: str | bytes | memoryview, width: int) -> Iterator[bytes]:
    """Yield a text, or its UTF-8, as it is kept in such characters."""
    errors = "strict" if width == 1 else "surrogatepass"
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for at in range(0, len(text), _PIECE):
        part = text[at : at + _PIECE]
        piece = part if isinstance(part, str) else decoder.decode(part, final=at + _PIECE >= len(text))
        encoded = piece.encode(_CODECS[width], errors)
        if len(encoded) != width * len(piece):
            raise UnicodeEncodeError(_CODECS[width], piece, 0, len(piece), "a character is wider")
        yield encoded


def _put(file: int, pieces: Iterable[bytes | memoryview], stop: threading.Event) -> int:
    """Write; return how many bytes."""
    nbytes = 0
    for piece in pieces:
        view = memoryview(piece)
        nbytes += len(view)
        while view:
            if stop.is_set():
                raise InterruptedError("nobody wants it any more")
            view = view[os.write(file, view) :]
    return nbytes
