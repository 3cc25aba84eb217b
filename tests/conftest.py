"""For every test: no key and no address of a real provider, whatever the machine's environment holds."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.examples import ALL, some

# the same on every machine, for fixtures of whole modules, too; the tests of sandboxes name theirs
os.environ["RLM_SANDBOX"] = "none"
# no test looks for servers that happen to run here, but those that are about it
os.environ["RLM_FIND_SERVERS"] = "0"


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with few examples, and with all of them where the long runs are selected."""
    if config.option.markexpr != "not soak":
        os.environ[ALL] = "1"
    settings.register_profile("rlm", max_examples=some(200))
    settings.load_profile("rlm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-m soak`, properties are long runs, too."""
    if ALL in os.environ:
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("soak")


_PARTS = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_API_TOKEN")


@pytest.fixture(autouse=True)
def _no_real_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(_PARTS) or name in {"RLM_MODEL", "OLLAMA_HOST", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"}:
            monkeypatch.delenv(name)
