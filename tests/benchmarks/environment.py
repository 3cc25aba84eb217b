"""Virtual environments for what this project is compared with: it must not be a dependency, and shares import names."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from platformdirs import user_cache_path

VERSION = "0.1.3"
REQUIREMENTS = (f"rlms[ipython]=={VERSION}", "psutil")
SMOLAGENTS = "1.26.0"
DSPY = "3.4.1"


def reference_python() -> Path:
    """The interpreter of an environment with the reference, which is made when it is not there yet.

    Raises
    ------
    subprocess.CalledProcessError
        It could not be installed: no network, say.
    """
    return _python(f"rlms-{VERSION}", REQUIREMENTS)


def smolagents_python() -> Path:
    """The same for smolagents."""
    return _python(f"smolagents-{SMOLAGENTS}", (f"smolagents[openai]=={SMOLAGENTS}",))


def dspy_python() -> Path:
    """The same for DSPy."""
    return _python(f"dspy-{DSPY}", (f"dspy=={DSPY}",))


def _python(name: str, requirements: tuple[str, ...]) -> Path:
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = user_cache_path("rlm_jupyter") / f"{name}-py{tag}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        venv.create(folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *requirements], check=True)
    (folder / "complete").touch()
    return python
