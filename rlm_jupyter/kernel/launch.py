"""How a kernel's process is launched: here or in a container, and in a place of its own, as few come up at once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from rlm_jupyter.kernel.process import KernelProcess


async def launched(launch: Mapping[str, Any]) -> KernelProcess:
    """Launch it; `launch` has the arguments of `KernelProcess.launch`, which says what is raised."""
    sandbox = launch.get("sandbox")
    if sandbox is None or not sandbox.is_container:
        return await KernelProcess.launch(**launch)
    from rlm_jupyter.kernel.container_process import ContainerProcess  # most kernels are in none

    return await ContainerProcess.run(sandbox, launch.get("cwd"), launch.get("environment"))


def place_of(launch: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
    """Return what a kernel waits for before it comes up.

    Parameters
    ----------
    launch
        As for `launched`. Without `templates`, or in a container, which others do not slow down, it waits for nothing.
    """
    sandbox, templates = launch.get("sandbox"), launch.get("templates")
    if templates is None or (sandbox is not None and sandbox.is_container):
        return contextlib.nullcontext()
    place: AbstractAsyncContextManager[None] = templates.places
    return place
