"""`load`: a context from files, folders, patterns and standard input."""

from __future__ import annotations

import errno
import glob
import io
import math
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from rlm_jupyter.run.files.blank import EmptyContextError, is_blank
from rlm_jupyter.run.files.encodings import decode
from rlm_jupyter.run.files.formats import read
from rlm_jupyter.run.files.found import matches, walk, why
from rlm_jupyter.run.files.image import SUFFIXES
from rlm_jupyter.run.files.left_out import LeftOut
from rlm_jupyter.run.files.unreadable import Note, Unreadable, on_stderr
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.quoted import quoted

STDIN = "-"
"""Stands for standard input."""
MOST_BYTES = 20 * 1024 * 1024
"""Larger files in a folder are left out; a file that is named is read whatever its size."""

_MOST_NAMES = 3
_ADDRESS = re.compile(r"\w+://")
_OUTSIDE = "outside of the folders that may be read."
_IMAGE_LEFT_OUT = "images beside other files (name them, or a pattern, to read them)."


@names_keywords()
def load(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    note: Note | None = None,
    within: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> object:
    """Read a context from files.

    A pattern (`*`, `?`, `[…]`, `**` for folders at any depth) stands for the files that it matches, a folder
    for all that it holds, at any depth, and `-` for standard input. What git ignores (with pathspec), hidden
    files, earlier runs, files that can't be read, those above 20 MB, and images beside other files are left out of a
    folder; notes say how many, and why.

    Parameters
    ----------
    paths
        One, or several; relative ones start at the working directory, `~` is the home directory.
    note
        Told, in one line each, what was left out or taken for something else. Default: standard error.
    within
        A folder, or several. What is in none of them, links followed, is refused where it is named, and left out of
        folders and patterns. Default: any file may be read.

    Returns
    -------
    object
        For one file, what it holds:

        - `pandas.DataFrame`: csv, tsv, parquet; xlsx with one filled sheet; json and jsonl of rows that are alike.
        - `dict[str, pandas.DataFrame]`, by sheet: xlsx with several.
        - `list[str]`, a text for each page or slide: pdf, pptx; `PdfPages`, images: a pdf without text.
        - `bytes`: png, jpg, gif, webp, bmp, tif.
        - `dict[str, object]`, by name, of what each file in it holds: zip.
        - plain data: other json and jsonl.
        - `str`: docx, html and ipynb in Markdown; any other text, in any encoding, line ends as they are.

        Each also with `.gz`, `.bz2` or `.xz` behind it. For a folder, a pattern or several paths: a dict of all that
        by path, in their order, each file once.

    Raises
    ------
    ConfigurationError
        A file is missing, unreadable, malformed, encrypted, of no type that can be read, or too large to unpack; a
        pattern matches nothing, a folder is empty, a library is missing, or there is nothing in any of the files. One
        line that names it and says what to do.

    Examples
    --------
    >>> load("report.docx")  # doctest: +SKIP
    >>> load(["src", "docs/**/*.md", "notes.txt"])  # doctest: +SKIP
    """
    given = _given(paths)
    if note is not None and not callable(note):
        raise ConfigurationError(f"note is a function that takes a line, as notes.append, not {quoted(note)}.")
    folders = None if within is None else _folders(within)
    loading = _Loading(on_stderr if note is None else note, folders)
    for path in given:
        loading.add(path)
    loading.refuse_blank(given)
    return loading.only() if len(given) == 1 and loading.single else loading.contents


def _folders(within: object) -> tuple[Path, ...]:
    """Return the folders that may be read; where none is, nothing may."""
    named = _paths(within)
    if named is None or not all(named):  # an empty path would be the working directory
        raise ConfigurationError(f"within takes a folder, or a list of folders, not {quoted(within)}.")
    return tuple(Path(folder).resolve() for folder in named)


def _paths(named: object) -> list[str] | None:
    """Return a path, or several, as texts; `None`: something else is there."""
    is_several = isinstance(named, Iterable) and not isinstance(named, str | bytes | Mapping | io.IOBase)
    listed = [*named] if is_several else [named]  # type: ignore[misc]
    paths = [os.fspath(path) for path in listed if isinstance(path, str | os.PathLike)]
    return [path for path in paths if isinstance(path, str)] if len(paths) == len(listed) else None


def _given(paths: object) -> list[str]:
    """Return what was named, as texts."""
    given = _paths(paths)
    if given is None:
        raise ConfigurationError(f"load takes a path, or a list of paths, not {quoted(paths)}.")
    for path in given:
        try:
            os.lstat(path)
        except (OSError, ValueError) as error:  # what no file can be called: a text, say
            if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
                raise ConfigurationError(
                    f"load takes a path, or a list of paths, not the text {quoted(path)}."
                ) from None
    if not all(given) or not given:  # an empty path would be the working directory
        raise ConfigurationError("No file is named for the context.")
    return given


@dataclass
class _Loading:
    """What was read so far."""

    note: Note
    within: tuple[Path, ...] | None = None
    contents: dict[str, object] = field(default_factory=dict)
    single: bool = True
    """Only files that were named came in; one of them is then no collection."""
    _seen: set[str] = field(default_factory=set)

    def only(self) -> object:
        """Return the one content there is."""
        return next(iter(self.contents.values()))

    def add(self, given: str) -> None:
        """Read what one path stands for."""
        self._refuse_outside(given)
        if given == STDIN:
            if STDIN not in self.contents:
                self.contents[STDIN] = self._stdin()
            return
        path = os.path.expanduser(given)  # noqa: PTH111 — a Path would lose `./`, by which people name `./-`
        if not os.path.lexists(path) and glob.has_magic(path):
            self._collect(given, matches(path), f"No file matches {given!r}.")
        elif (folder := Path(path)).is_dir():
            nothing = f"{folder}: no file in this folder can be read."
            self._collect(str(folder), walk(folder, self.note), nothing, is_folder=True)
        elif self._is_new(path):
            try:
                self.contents[_key(path)] = self._read(path)
            except (Unreadable, OSError) as error:
                hint = " Download it first, and name the file." if _ADDRESS.match(given) else ""
                raise ConfigurationError(f"{given}: {why(error)}{hint}") from None

    def refuse_blank(self, given: list[str]) -> None:
        """Refuse files that hold nothing, and tell of those among others that were named.

        Raises
        ------
        EmptyContextError
            Nothing is in any of them.
        """
        blank = [name for name, content in self.contents.items() if is_blank(content)]
        if len(blank) == len(self.contents):
            named = ["Standard input" if path == STDIN else path for path in given]
            some = ", ".join(named[:_MOST_NAMES]) + (", …" if len(named) > _MOST_NAMES else "")
            what = (
                f"{some} {'is' if len(named) == 1 else 'are'} empty" if self.single else f"{some}: all files are empty"
            )
            raise EmptyContextError(f"{what}: there is nothing to answer from.")
        of_given = {STDIN if path == STDIN else _key(os.path.expanduser(path)) for path in given}  # noqa: PTH111
        for name in blank:
            if name in of_given:  # in a folder there often are some
                self.note(f"{'Standard input' if name == STDIN else name} is empty.")

    def _collect(self, given: str, found: Iterator[str], nothing: str, *, is_folder: bool = False) -> None:
        """Read files that were not named one by one; what can't be read is left out."""
        self.single = False
        before = len(self.contents)
        most_bytes = MOST_BYTES if is_folder else math.inf
        left_out = LeftOut()
        known = 0
        images: list[str] = []

        def take(path: str) -> None:
            try:
                if Path(path).stat().st_size > most_bytes:
                    raise Unreadable(f"larger than {MOST_BYTES // 1024**2} MB (name it to read it).")
                if not self._is_within(path):
                    raise Unreadable(_OUTSIDE)
                self.contents[_key(path)] = self._read(path)
            except (Unreadable, OSError) as error:
                left_out.add(_key(path), error.brief if isinstance(error, Unreadable) else why(error))

        for path in found:
            if not self._is_new(path):
                known += 1
            elif is_folder and Path(path).suffix.lower() in SUFFIXES:
                images.append(path)
            else:
                take(path)
        # between texts, images are a page's icons and logos more often than what is asked about
        has_others = len(self.contents) > before
        for path in images:
            if has_others:
                left_out.add(_key(path), _IMAGE_LEFT_OUT)
            else:
                take(path)
        if len(self.contents) == before and not known:
            raise ConfigurationError(" ".join([nothing, *(f"L{line[1:]}" for line in left_out.lines())]))
        for line in left_out.lines():
            self.note(f"{given}: {line}")

    def _refuse_outside(self, given: str) -> None:
        """Refuse what may not be read, before anybody looks whether it is there."""
        if self.within is None:
            return
        path = os.path.expanduser(given)  # noqa: PTH111
        if glob.has_magic(path) and not os.path.lexists(path):
            # what stands before the first wildcard says where a pattern looks, if it does not go up again
            parts = Path(path).parts
            fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
            path = os.fspath(Path(*parts[:fixed])) if ".." not in parts[fixed:] else ""
        if given == STDIN or not path or not self._is_within(path):
            folders = (
                ", ".join(f"{one}{'' if one.exists() else ', which is not there'}" for one in self.within) or "none"
            )
            raise ConfigurationError(f"{given}: {_OUTSIDE[:-1]} ({folders}).")

    def _is_within(self, path: str) -> bool:
        real = Path(os.path.realpath(path))
        return self.within is None or any(real.is_relative_to(folder) for folder in self.within)

    def _is_new(self, path: str) -> bool:
        real = os.path.realpath(path)
        new = real not in self._seen
        self._seen.add(real)
        return new

    def _read(self, path: str) -> object:
        mode = Path(path).stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # some have no end
            raise Unreadable(f"a device, not a file: name a file, or {STDIN} for standard input.")
        data = Path(path).read_bytes()
        return read(Path(path).suffixes, data, lambda text: self.note(f"{_key(path)}: {text}"))

    def _stdin(self) -> str:
        stream: Any = getattr(sys.stdin, "buffer", None)  # there is none in a notebook
        if stream is None:
            raise ConfigurationError("-: there is no standard input here; name a file.")
        if stream.isatty():
            self.note("Reading the context from the terminal; end it with Ctrl-D.")
        try:
            return decode(stream.read(), lambda text: self.note(f"standard input: {text}"))
        except (Unreadable, OSError) as error:
            raise ConfigurationError(f"standard input: {why(error)}") from None


def _key(path: str) -> str:
    """Return how a file is called in the context: from the working directory where it is below it, else as given."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 — without following links, which have names of their own
    here = Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else PurePath(path).as_posix()
