"""`read_paths`: a context that is given as paths, or as text that only looks like one."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rlm_jupyter.run.files.unreadable import Note, on_stderr
from rlm_jupyter.types.errors import ConfigurationError

_MOST_NAMES = 3
_MOST_LOOKED_UP = 100
_MOST_PATH_CHARS = 1_024


def read_paths(context: object, *, note: Note | None = None) -> object:
    """Read a context that is given as a `Path`, or as a list of them; anything else comes back as it is.

    Parameters
    ----------
    note
        As for `load`; also told what was read, and what was not: paths beside other things, texts that all name files.

    Raises
    ------
    ConfigurationError
        As for `load`; or it is a `str` that only names an existing file: a run over those few characters would cost
        and could not answer.
    """
    given = context if isinstance(context, list | tuple) else (context,)
    if given and all(isinstance(path, Path) for path in given):
        return _read(given, given is context, note or on_stderr)
    if isinstance(context, str) and names_file(context):
        raise ConfigurationError(
            f"The context is the text {context!r}, the name of a file: to read the file, pass Path({context!r}), from "
            f"pathlib; to ask about the name itself, pass [{context!r}]."
        )
    held = context.values() if isinstance(context, dict) else given
    if any(isinstance(one, Path) for one in islice(held, _MOST_LOOKED_UP)):
        (note or on_stderr)(
            "context: the paths in it are not read, and its kernel may not read them either. rlm_jupyter.load(path) "
            "gives what a file holds."
        )
    if len(given) > 1 and all(isinstance(text, str) and names_file(text) for text in given[:_MOST_LOOKED_UP]):
        (note or on_stderr)(
            f"context: a list of {len(given):,} texts that name files; the names are asked about, not what the files "
            "hold. To read them, pass rlm_jupyter.load(names)."
        )
    return context


def _read(paths: Sequence[Path], are_listed: bool, note: Note) -> object:
    from rlm_jupyter.prompts.description import describe
    from rlm_jupyter.run.files.load import load  # here: few runs read files, and it brings all their formats

    value = load(paths if are_listed else paths[0], note=note)
    named = ", ".join(map(str, paths[:_MOST_NAMES])) + (", …" if len(paths) > _MOST_NAMES else "")
    note(f"context: read from {named}: {type(value).__name__}, {describe(value)[0]}.")
    return value


def names_file(text: str) -> bool:
    """Return whether a text is the path of a file or folder that is there, or a pattern of some."""
    if len(text) > _MOST_PATH_CHARS or not text.strip() or not text.isprintable():  # to strip a long one takes a copy
        return False
    path = os.path.expanduser(text)  # noqa: PTH111  as `load` takes it
    try:
        return os.path.exists(path) or bool(glob.has_magic(path) and next(glob.iglob(path), None))  # noqa: PTH110, PTH207
    except (OSError, ValueError):  # no path at all
        return False
