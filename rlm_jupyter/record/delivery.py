"""Deliver a file to the user: a new one, or in place of one that the user has agreed to lose."""

from __future__ import annotations

import os
from pathlib import Path

from rlm_jupyter.record import atomic, notebook
from rlm_jupyter.types.errors import ConfigurationError


def deliver(path: Path, content: bytes, *, replace: bool, consent: str = "pass replace=True") -> None:
    """Write a file under a name that the user gave.

    An existing file that holds exactly this already is left as it is, so that the same cell or command can run twice.

    Parameters
    ----------
    replace
        The user agrees that an existing file is replaced. A notebook that is no run, and all that belongs to a
        kept run, stay even so.
    consent
        How the user agrees, for the message.

    Raises
    ------
    ConfigurationError
        Something else is there.
    OSError
        The folder or the disk refuses.
    """
    try:
        atomic.create(path, content)
    except FileExistsError:
        if atomic.holds(path, content):
            return
        # a link may lead to a run
        _check_replaceable(path, Path(os.path.realpath(path)))
        if not replace:
            raise ConfigurationError(
                f"{path} exists and holds something else, so it is not replaced. Name another path, or {consent}."
            ) from None
        atomic.replace(path, [content], sync=False)


def _check_replaceable(path: Path, real: Path) -> None:
    if not real.is_file():
        raise ConfigurationError(f"{path} is not a regular file, so it is not replaced. Name another path.")
    if any(folder.suffix == ".rlm" for folder in real.parents) or (
        real.suffix == ".ipynb" and real.with_suffix(".rlm").is_dir()
    ):
        raise ConfigurationError(f"{path} is a run that is kept, so it is not replaced. Name another path.")
    if real.suffix == ".ipynb" and not notebook.is_run(real):
        raise ConfigurationError(f"{path} is not the notebook of a run, so it is not replaced. Name another path.")
