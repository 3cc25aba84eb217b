"""The guest's source, as it is sent to a kernel that has ipykernel and nothing of ours."""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from pathlib import Path

_ROOT = "rlm_jupyter"
_FIRST = f"{_ROOT}.kernel.guest.remote_guest"
_IMPORTS = re.compile(rf"^\s*from ({_ROOT}[\w.]*) import ([\w ,]+)", re.MULTILINE)
_BOOTSTRAP = """
def _come_in():
    import base64, importlib.abc, importlib.util, json, sys, zlib

    if sys.version_info < (3, 11):
        raise RuntimeError("its Python is %d.%d; it needs 3.11 or newer" % sys.version_info[:2])
    sources = json.loads(zlib.decompress(base64.b85decode("@SOURCES@")))

    class Sources(importlib.abc.Loader, importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name not in sources:
                return None
            is_package = any(other.startswith(name + ".") for other in sources)
            return importlib.util.spec_from_loader(name, self, is_package=is_package)

        def exec_module(self, module):
            name = module.__name__
            exec(compile(sources[name], name.replace(".", "/") + ".py", "exec"), vars(module))

    if "@FIRST@" not in sys.modules:
        for name in [name for name in sys.modules if name.partition(".")[0] == "@ROOT@"]:
            del sys.modules[name]
        sys.meta_path.insert(0, Sources())
    import @FIRST@ as first

    first.come_in(get_ipython().kernel)

try:
    _come_in()
finally:
    del _come_in
"""


@functools.cache
def bootstrap() -> str:
    """Return the code that makes a stock kernel one of ours; a second time it does nothing there."""
    found = {name: text for name, (_, text) in _found((_FIRST,)).items()}
    sources = json.dumps(found).encode()
    packed = base64.b85encode(zlib.compress(sources, 9)).decode()
    return _BOOTSTRAP.replace("@SOURCES@", packed).replace("@FIRST@", _FIRST).replace("@ROOT@", _ROOT)


@functools.cache
def sources(first: tuple[str, ...]) -> dict[str, str]:
    """Return these modules, and all of ours that they import, by their paths; packages are empty there."""
    return dict(_found(first).values())


def _found(first: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return path and source of these modules and of all of ours that they import, by their names."""
    found: dict[str, tuple[str, str]] = {}
    waiting = [*first]
    while waiting:
        name = waiting.pop()
        if name in found or (path := _file(name)) is None:
            continue
        is_package = path.name == "__init__.py"
        text = "" if is_package else path.read_text("utf-8")
        found[name] = path.relative_to(Path(__file__).parents[3]).as_posix(), text
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        for module, names in _IMPORTS.findall(text):
            waiting += [module, *(f"{module}.{one.split()[0]}" for one in names.split(",") if one.strip())]
    return found


def _file(name: str) -> Path | None:
    path = Path(__file__).parents[2].joinpath(*name.split(".")[1:])
    return next((one for one in (path / "__init__.py", path.with_suffix(".py")) if one.is_file()), None)
