"""`Unreadable`: a file that can't be read, and the line that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rlm_jupyter.types.errors import ConfigurationError

INSTALL = "pip install 'rlm_jupyter[files]'"
"""What brings every library that files may need."""
Note = Callable[[str], None]
"""Told, in one line, what a reader of files should know."""

_MOST_REASON_CHARS = 200


def on_stderr(text: str) -> None:
    """Tell it on standard error: where nobody else is to be told."""
    sys.stderr.write(f"{text}\n")


class Unreadable(ConfigurationError):
    """A file holds nothing that can be read. Its text says why, and leaves naming the file to the caller.

    Parameters
    ----------
    text
        Why, and what to do.
    brief
        The same without the advice, for one file among many.
    """

    def __init__(self, text: str, brief: str = "") -> None:
        super().__init__(text)
        self.brief = brief or text


def needs(what: str, libraries: str) -> Unreadable:
    """Return the error for a file whose library is not installed.

    Parameters
    ----------
    what
        The file, with its article: `a PDF`.
    libraries
        As they are called on PyPI.
    """
    return Unreadable(f"{what} needs {libraries}: {INSTALL}.")


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """Turn whatever a library raises on a malformed file into one line.

    Parameters
    ----------
    kind
        Of the file, without an article: `PDF`.

    Raises
    ------
    Unreadable
        Reading failed.
    """
    try:
        yield
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 — of a malformed file libraries raise whatever there is
        raise Unreadable(f"no {kind} that can be read: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """Return how an error's text begins, without a stop at its end; without a text, its class."""
    lines = str(error).strip().splitlines()
    return lines[0][:_MOST_REASON_CHARS].rstrip(".") if lines else type(error).__name__
