"""For every test: no key and no address of a real provider, whatever the machine's environment holds."""

from __future__ import annotations

import os

import pytest

# the same on every machine, for fixtures of whole modules, too; the tests of sandboxes name theirs
os.environ["RLM_SANDBOX"] = "none"

_PARTS = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_API_TOKEN")


@pytest.fixture(autouse=True)
def _no_real_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(_PARTS) or name in {"RLM_MODEL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"}:
            monkeypatch.delenv(name)
