"""`is_blank`: whether a context holds nothing that a question could be answered from."""

from __future__ import annotations

from rlm_jupyter.types.errors import ConfigurationError


class EmptyContextError(ConfigurationError):
    """What was named as a context holds nothing: whoever named it expects an answer from it."""


def is_blank(content: object) -> bool:
    """Return whether it is `None`, blanks alone, or has no items; objects of other kinds are taken to hold something.

    Parameters
    ----------
    content
        What a file or a variable holds. The items of a collection are not looked at: an empty text among others may
        be what is asked about.
    """
    if content is None:
        return True
    if isinstance(content, str | bytes | bytearray):
        return not content or content.isspace()  # without a copy, as `strip` makes of half a gigabyte
    try:
        return len(content) == 0  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  a class of the user's: no length, or none that it can tell
        return False
