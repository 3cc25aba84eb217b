"""For every test: no key and no address of a real provider, whatever the machine's environment holds."""

from __future__ import annotations

import json
import os
import urllib.request
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import ALL, some

# the same on every machine, for fixtures of whole modules, too; the tests of sandboxes name theirs
os.environ["RLM_SANDBOX"] = "none"
# no test looks for servers that happen to run here, but those that are about it
os.environ["RLM_FIND_SERVERS"] = "0"


_SERVER = os.environ.get("LLAMACPP_BASE_URL", "").rstrip("/")
"""The one server that tests may ask, and only those that are marked with `local_model`."""
_LAB = Path(__file__).with_name("jupyterlab")


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with few examples, and with all of them where the long runs are selected."""
    expression = config.option.markexpr
    if not expression or "soak" in expression.replace("not soak", ""):
        os.environ[ALL] = "1"
    # a busy machine may take any time for an example, and for drawing it
    settings.register_profile(
        "rlm", max_examples=some(200), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("rlm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests in a browser first: the worker that has them steals no others, and nothing waits for it at the end.

    The other files are mixed, always in the same way: those that compute and those that wait come at the same time.
    With `-m soak`, properties are long runs, too.
    """
    items.sort(key=lambda item: (_LAB not in item.path.parents, zlib.crc32(item.path.name.encode())))
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


@pytest.fixture
def local_model(_no_real_provider: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """`llamacpp/…`, as the llama.cpp server calls it that LLAMACPP_BASE_URL names and that runs."""
    if not _SERVER:
        pytest.skip("LLAMACPP_BASE_URL names no server")
    address = _SERVER if _SERVER.endswith("/v1") else f"{_SERVER}/v1"
    try:
        with urllib.request.urlopen(f"{address}/models", timeout=10) as response:
            name = json.load(response)["data"][0]["id"]
    except (OSError, ValueError, LookupError) as error:
        pytest.skip(f"no model is served at {address}: {error}")
    monkeypatch.setenv("LLAMACPP_BASE_URL", address)
    return f"llamacpp/{name}"
