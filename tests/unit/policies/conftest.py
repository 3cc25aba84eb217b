from collections.abc import Iterator

import pytest

from rlm_jupyter.policies import PolicyRegistry


@pytest.fixture(autouse=True)
def registry_restored() -> Iterator[None]:
    PolicyRegistry.list_all()
    policies = {kind: dict(known) for kind, known in PolicyRegistry._policies.items()}
    defaults = dict(PolicyRegistry._defaults)
    yield
    for kind, known in PolicyRegistry._policies.items():
        known.clear()
        known.update(policies[kind])
    PolicyRegistry._defaults.update(defaults)
