"""`TextFile`: a file of items that is text, perhaps compressed, and read as it comes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar, cast

from rlm_jupyter.run.files.archive import COMPRESSED
from rlm_jupyter.run.files.encodings import decoded
from rlm_jupyter.run.files.layout import HEAD
from rlm_jupyter.run.files.unreadable import Note

Read = TypeVar("Read")


class TextFile:
    """A file of text.

    Parameters
    ----------
    path
        Its name may end in that of a compression: `items.csv.gz`.
    note
        Told where its encoding is a guess.
    """

    def __init__(self, path: Path, note: Note) -> None:
        self.path = path
        self._note = note
        suffix = path.suffix.lower()
        self._library = COMPRESSED.get(suffix, "io")
        self.kind = Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix
        """The suffix that says what is in it."""

    def read(self, parse: Callable[[TextIO], Read]) -> Read:
        """Return what a function makes of the text, line ends as they are; where it is not UTF-8, it is called again.

        Only then are all bytes in memory at once, to tell the encoding by.

        Raises
        ------
        Unreadable
            It is no text, or its encoding can't be told.
        """
        with self._open("rb") as file:
            is_utf8 = b"\0" not in file.read(HEAD)  # ASCII in UTF-16 is UTF-8, too
        if is_utf8:
            try:
                return self._parsed(parse, "utf-8-sig")
            except UnicodeDecodeError:
                pass
        with self._open("rb") as file:
            _, encoding = decoded(file.read(), self._note)
        return self._parsed(parse, encoding, errors="replace")

    def _parsed(self, parse: Callable[[TextIO], Read], encoding: str, **how: str) -> Read:
        with self._open("rt", encoding=encoding, newline="", **how) as file:
            return parse(cast(TextIO, file))

    def _open(self, mode: str, **how: Any) -> IO[Any]:
        return cast(IO[Any], importlib.import_module(self._library).open(self.path, mode, **how))
