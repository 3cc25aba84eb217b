"""The folders that an agent may name files in: those of its client, within those of the owner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from rlm_jupyter.types.errors import ConfigurationError


def owners(named: Sequence[str]) -> tuple[Path, ...] | None:
    """Return the folders that the owner has named; `None`: they named none.

    Raises
    ------
    ConfigurationError
        One is no folder.
    """
    folders = tuple(Path(name).expanduser().resolve() for name in named)
    for folder in folders:
        if not folder.is_dir():
            raise ConfigurationError(f"--root {folder}: there is no such folder.")
    return folders or None


def of_uris(uris: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders of a client's roots: of `file://` addresses; others are left out."""
    parts = (urlsplit(uri) for uri in uris)
    return tuple(Path(url2pathname(unquote(part.path))).resolve() for part in parts if part.scheme == "file")


def allowed(owner: tuple[Path, ...] | None, client: tuple[Path, ...] | None) -> tuple[Path, ...]:
    """Return the folders in which files may be named.

    Parameters
    ----------
    owner, client
        `None`: they name none. Where neither does, it is the working directory, unless that is the home directory or
        the root of the disk, where a client may have started this for want of another.
    """
    if owner is None and client is None:
        here = Path.cwd().resolve()
        return () if here in {Path.home().resolve(), Path(here.anchor)} else (here,)
    if owner is None or client is None:
        return (owner or ()) + (client or ())
    both = [(one, other) for one in owner for other in client]
    inner = [one if one.is_relative_to(other) else other for one, other in both if _nested(one, other)]
    return tuple(dict.fromkeys(inner))


def _nested(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def absolute(paths: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return paths as they are read: relative ones begin in the first folder in which there is such a thing."""
    found = []
    for path in paths:
        if Path(path).expanduser().is_absolute() or path == "-":
            found.append(path)
            continue
        places = [folder for folder in folders if (folder / path).exists()] or [*folders]
        found.append(str(places[0] / path) if places else path)
    return found
