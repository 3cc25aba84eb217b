"""What a text of the form `package.module:name` stands for."""

from __future__ import annotations

import importlib
import sys

from rlm_jupyter.types.errors import ConfigurationError


def import_from_working_folder() -> None:
    """Look for modules in the working folder last, in a process of ours that holds keys and imports while it works.

    Were that first, a module called `queue` there would be taken for the standard one.
    """
    if "" not in sys.path:
        sys.path.append("")


def imported(path: str) -> object:
    """Return what `package.module:name` names; the module is imported.

    Raises
    ------
    ConfigurationError
        There is no such module or no such name in it, or the module fails while it is imported.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ConfigurationError(f"{path!r}: package.module:name is needed.")
    try:
        found: object = importlib.import_module(module)
    except Exception as error:
        told = " ".join(f"{module} can't be imported: {type(error).__name__}: {error}".split())
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            told = f"there is no module {error.name!r}"
        raise ConfigurationError(f"{path!r}: {told}.") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(f"{path!r}: {module} has no {name}.") from None
    return found
