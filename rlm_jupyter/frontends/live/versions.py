"""What is known, in a kernel, of the page that it is worked in: whether it is too old to show live cells."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

NEEDED = (4, 2)
"""JupyterLab's, from which on it takes our extension."""


@cache
def too_old() -> str:
    """Say that JupyterLab here is older than live cells need; empty, where it is not, or is elsewhere.

    A kernel is not told which page it serves. Where JupyterLab is installed beside it, that is most likely the one;
    Notebook 7 is made of the same parts, and counted with it.
    """
    try:
        installed = version("jupyterlab")
    except PackageNotFoundError:
        return ""
    found = re.match(r"(\d+)\.(\d+)", installed)
    if found is None or (int(found[1]), int(found[2])) >= NEEDED:
        return ""
    needed = ".".join(map(str, NEEDED))
    return (
        f"JupyterLab {installed} is too old to show the model's cells below this one, with Stop and the other buttons: "
        f"that takes {needed} or newer (pip install -U jupyterlab). Here the run shows itself in this cell; "
        "interrupting the cell stops it."
    )
