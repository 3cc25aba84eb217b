"""What `import rlm_jupyter` gives, and what it must not cost."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import rlm_jupyter

HEAVY = {"openai", "anthropic", "ipywidgets", "pandas", "numpy", "IPython", "zmq", "jupyter_client", "nbformat", "rich"}


def test_every_public_name_is_there() -> None:
    for name in rlm_jupyter.__all__:
        assert getattr(rlm_jupyter, name) is not None
    assert dir(rlm_jupyter) == sorted(rlm_jupyter.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rlm_jupyter.nothing


def test_the_version_is_that_of_the_installed_distribution() -> None:
    assert rlm_jupyter.__version__ == importlib.metadata.version("rlm_jupyter")
    code = "import sys, rlm_jupyter; print('importlib.metadata' in sys.modules, rlm_jupyter.__version__)"
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["False", rlm_jupyter.__version__]


@pytest.mark.parametrize(
    "module",
    # the last starts the first kernel of a process: everything else is imported meanwhile
    ["rlm_jupyter", "rlm_jupyter.models", "rlm_jupyter.frontends.cli.main", "rlm_jupyter.kernel.templates"],
)
def test_importing_brings_in_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & HEAVY


def test_the_guest_imports_nothing_else_of_ours() -> None:
    code = "import sys, rlm_jupyter.kernel.guest.app; print(*[m for m in sys.modules if m.startswith('rlm_jupyter')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {m for m in loaded if not m.startswith("rlm_jupyter.kernel.guest")}
    # what a message shows of a value, what a type or a schema takes, what an image may be, and how a text is sent, is the
    # same on both sides
    names = (
        "images",
        "json_form",
        "json_schema",
        "prompt",
        "quoted",
        "scaling",
        "shortened",
        "suggestion",
        "type_adapter",
        "unfenced",
        "utf8",
    )
    shared = {f"rlm_jupyter.types.{name}" for name in names}
    assert ours == {"rlm_jupyter", "rlm_jupyter.kernel", "rlm_jupyter.types"} | shared
