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
    sources = json.dumps(_sources()).encode()
    packed = base64.b85encode(zlib.compress(sources, 9)).decode()
    return _BOOTSTRAP.replace("@SOURCES@", packed).replace("@FIRST@", _FIRST).replace("@ROOT@", _ROOT)


def _sources() -> dict[str, str]:
    """Return the guest's modules by name, with all of ours that they import; packages are empty there."""
    found: dict[str, str] = {}
    waiting = [_FIRST]
    while waiting:
        name = waiting.pop()
        if name in found or (path := _file(name)) is None:
            continue
        is_package = path.name == "__init__.py"
        found[name] = "" if is_package else path.read_text("utf-8")
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        for module, names in _IMPORTS.findall(found[name]):
            waiting += [module, *(f"{module}.{one.split()[0]}" for one in names.split(",") if one.strip())]
    return found


def _file(name: str) -> Path | None:
    path = Path(__file__).parents[2].joinpath(*name.split(".")[1:])
    return next((one for one in (path / "__init__.py", path.with_suffix(".py")) if one.is_file()), None)
