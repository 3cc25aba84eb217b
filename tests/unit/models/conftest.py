"""No key and no address of the machine reaches a test, so none can ask a paid model."""

import pytest

from rlm_jupyter.models.endpoint import AZURE_VERSION_VARIABLES
from rlm_jupyter.models.providers import PROVIDERS


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for preset in PROVIDERS.values():
        for variable in (*preset.key_variables, *preset.url_variables, *preset.header_variables.values()):
            monkeypatch.delenv(variable, raising=False)
    for variable in AZURE_VERSION_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
