"""A client that can start containers here: `docker` or `podman`, with the image `rlm-kernel` (docs/safety.md)."""

from __future__ import annotations

import os

import pytest

from rlm_jupyter.kernel.sandbox import container

CLIENTS = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR", "DOCKER_HOST")
"""Of the environment: what a client needs to find its containers."""


def need_container() -> str:
    """The first that can; without one there is nothing to test, but where everything must be tested."""
    found = {kind: container.why_not(kind, container.IMAGE) for kind in ("podman", "docker")}
    for kind, why in found.items():
        if why is None:
            return kind
    if os.environ.get("RLM_NEEDS_CONTAINERS"):
        pytest.fail(str(found))
    pytest.skip(str(found))
