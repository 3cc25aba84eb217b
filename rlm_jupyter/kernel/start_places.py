"""Places for kernels that come up at the same time.

To come up is work for a processor. While one waits, as for its host, others use that; with more than a few, each takes
longer, and so do all. So the kernels of one run, or of one batch, take places.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any


def places() -> asyncio.Semaphore:
    """Return places for as many kernels as this machine brings up at once; used on one event loop."""
    return asyncio.Semaphore((os.cpu_count() or 1) + 1)


def place_of(launch: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
    """Return what a kernel waits for before it comes up.

    Parameters
    ----------
    launch
        The arguments of `KernelProcess.launch`. Without `templates`, or in a container, which others do not slow down,
        it waits for nothing.
    """
    sandbox, templates = launch.get("sandbox"), launch.get("templates")
    if templates is None or (sandbox is not None and sandbox.is_container):
        return contextlib.nullcontext()
    chosen: asyncio.Semaphore = templates.places
    return chosen
