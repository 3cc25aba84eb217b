"""`check_result_name`: what is named with `-o`."""

from __future__ import annotations

import keyword

from IPython.core.error import UsageError

from rlm_jupyter.types.quoted import quoted


def check_result_name(name: str) -> None:
    """Refuse what no variable can be called, before anything is spent: its result could not be had.

    Raises
    ------
    UsageError
        It is no name, or one of Python's words.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"-o takes the name of a variable, not {quoted(name)}.")
