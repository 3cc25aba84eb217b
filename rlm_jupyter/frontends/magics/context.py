"""`context_of`: what is named with `-c`: variables of the notebook, and files behind an @."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from IPython.core.autocall import IPyAutocall

from rlm_jupyter.run.files.blank import is_blank
from rlm_jupyter.run.files.load import STDIN
from rlm_jupyter.run.files.paths import read_paths
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

_AT = "@"
"""Stands before a path."""


def context_of(shell: Any, named: list[str]) -> object:
    """Return what the named variables and files hold.

    Parameters
    ----------
    shell
        Has the variables. What was read, and what was left out, is printed.
    named
        What stands behind each -c: names of variables with commas between them, or an @ and one path (a file, a folder
        or a pattern, from the working directory).

    Returns
    -------
    object
        Of one variable, its value; of paths alone, what `load` gives for them; else a dict by name and by path as
        written. A variable that holds a `Path` counts as what is there. `None` where nothing is named.

    Raises
    ------
    ConfigurationError
        There is no such variable or file, or nothing in it that can be a context.
    """
    names = [name.strip() for item in named for name in ([item] if item.startswith(_AT) else item.split(","))]
    names = list(filter(None, names))
    if not all(item.strip(" ,") for item in named):
        raise ConfigurationError("-c names nothing here: the name of a variable, or @ and a path, stands behind it.")
    if names and all(name.startswith(_AT) for name in names):
        return read_paths([_path(name) for name in names], note=print)
    held = {name: _path(name) if name.startswith(_AT) else _variable(shell, name) for name in names}
    values = {name.removeprefix(_AT): read_paths(value, note=print) for name, value in held.items()}
    return values[names[0]] if len(names) == 1 else values or None


def _path(name: str) -> Path:
    path = name.removeprefix(_AT)
    if path in {"", STDIN}:
        raise ConfigurationError(f"-c {name} names no file: a path stands behind the @, as in -c @reports/.")
    return Path(path)


def _variable(shell: Any, name: str) -> object:
    """Return what a variable of the user's holds, if that can be a context."""
    if not name.isidentifier():
        file = f"a file is named by -c @{name}" if Path(name).exists() else "assign it to a variable first"
        raise ConfigurationError(f"-c takes names of variables, not {quoted(name)}: {file}.")
    if name not in shell.user_ns:
        meant = did_you_mean(closest(name, names_of_data(shell)))
        raise ConfigurationError(f"There is no variable {quoted(name)} for the context.{meant}")
    value: object = shell.user_ns[name]
    if value is None:
        raise ConfigurationError(f"The variable {quoted(name)} is None: there is nothing in it to read.")
    if isinstance(value, str) and is_blank(value):
        raise ConfigurationError(f"The variable {quoted(name)} is empty: there is nothing in it to read.")
    if (kind := _code(value)) is not None:
        raise ConfigurationError(
            f"{name} is a {kind}, not data, so it can't be the context: name a variable that holds data."
        )
    return value


def names_of_data(shell: Any) -> list[str]:
    """Return the names of the user's variables that can be a context."""
    hidden = shell.user_ns_hidden
    return [
        name
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and hidden.get(name, shell) is not value and _code(value) is None
    ]


def _code(value: object) -> str | None:
    """Return what kind of code a value is; `None` for data."""
    if inspect.isroutine(value):
        return "function"
    if isinstance(value, IPyAutocall):
        return "command"
    return "module" if inspect.ismodule(value) else "class" if inspect.isclass(value) else None
