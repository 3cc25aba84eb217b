"""Builds the JupyterLab extension into the wheel, where there is node or it was built before.

An install from a checkout without node works, and has no live cells; what is published is built from an
sdist, and an sdist is never made without the extension.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "labextension"
ASSETS = "rlm_jupyter/labextension"
PLACE = "share/jupyter/labextensions/rlm-jupyter"


class ExtensionHook(BuildHookInterface[Any]):
    """Builds what is not there or not new, and puts it where JupyterLab looks."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before a distribution is made."""
        root = Path(self.root)
        assets = root / ASSETS
        try:
            if (root / SOURCE / "package.json").exists() and not is_from_sdist(root):
                build(root, version)
        except Exception as error:
            if self.target_name == "sdist":
                raise
            warnings.warn(f"The JupyterLab extension is not built, so there are no live cells: {error}", stacklevel=2)
        built = (assets / "package.json").exists()
        if self.target_name == "sdist" and not built:
            raise RuntimeError(f"An sdist holds the built extension, and {ASSETS} is not there.")
        if self.target_name == "wheel" and built:
            build_data["shared_data"][ASSETS] = PLACE
            build_data["shared_data"]["install.json"] = f"{PLACE}/install.json"


def is_from_sdist(root: Path) -> bool:
    """Whether this is an unpacked sdist: it was built then."""
    return (root / "PKG-INFO").exists()


def build(root: Path, version: str) -> None:
    """Build the assets, if a source is newer than they are."""
    from hatch_jupyter_builder.utils import is_stale, npm_builder

    if shutil.which("node") is None:
        raise RuntimeError("node is not installed")
    npm_builder(
        "wheel",
        version,
        path=str(root / SOURCE),
        npm=["jlpm"],
        build_cmd="build:prod",
        build_dir=str(root / ASSETS),
        source_dir=str(root / SOURCE / "src"),
        # a style or a schema is a source, too
        force=any(is_stale(root / ASSETS, root / SOURCE / part) for part in ("style", "schema")),
    )
