"""`here`: the working directory, which may be gone."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter.types.errors import ConfigurationError


def here() -> Path:
    """Return the working directory.

    Raises
    ------
    ConfigurationError
        It has been removed since.
    """
    try:
        return Path.cwd()
    except OSError:
        raise ConfigurationError("The working directory is gone: change to another.") from None
