"""The sandboxes that there are here: bubblewrap, and `docker` or `podman` with the image `rlm-kernel`."""

from __future__ import annotations

import os

import pytest

from rlm_jupyter.kernel.sandbox import bwrap, container

CLIENTS = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR", "DOCKER_HOST")
"""Of the environment: what a client needs to find its containers."""


def need_container() -> str:
    """The first client that can start containers; without one there is nothing to test, but where all must be."""
    found = {kind: container.why_not(kind, container.IMAGE) for kind in ("podman", "docker")}
    for kind, why in found.items():
        if why is None:
            return kind
    if os.environ.get("RLM_NEEDS_CONTAINERS"):
        pytest.fail(str(found))
    pytest.skip(str(found))


def need_bwrap() -> None:
    """Without bubblewrap there is nothing to test, but where everything must be tested."""
    why = bwrap.why_not()
    if why is not None and os.environ.get("RLM_NEEDS_BWRAP"):
        pytest.fail(why)
    if why is not None:
        pytest.skip(why)
