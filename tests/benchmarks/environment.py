"""A virtual environment for the reference: it must not be a dependency, and shares its import name with others."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from platformdirs import user_cache_path

VERSION = "0.1.3"
REQUIREMENTS = (f"rlms[ipython]=={VERSION}", "psutil")


def reference_python() -> Path:
    """The interpreter of that environment, which is made when it is not there yet.

    Raises
    ------
    subprocess.CalledProcessError
        It could not be installed: no network, say.
    """
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = user_cache_path("rlm_jupyter") / f"rlms-{VERSION}-py{tag}"
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
    subprocess.run([*install, *REQUIREMENTS], check=True)
    (folder / "complete").touch()
    return python
