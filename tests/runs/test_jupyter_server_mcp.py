"""The functions that a Jupyter server's extension finds by its entry point: called as it calls them."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from rlm_jupyter.frontends.cli import jupyter_server_mcp as extension
from rlm_jupyter.types.errors import ConfigurationError
from tests.runs.test_agents import COUNTED, sleepy
from tests.runs.test_cli import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.chdir(tmp_path)
    extension._service.cache_clear()
    yield monkeypatch
    extension._service.cache_clear()


def test_there_are_tools_only_where_the_owner_has_said_what_they_may_spend(options: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [named] = project["entry-points"]["jupyter_server_mcp.tools"].values()
    module, _, name = named.partition(":")
    get_tools = getattr(importlib.import_module(module), name)
    options.delenv(extension.VARIABLE, raising=False)
    assert get_tools() == []
    options.setenv(extension.VARIABLE, "")
    for tool in get_tools():
        module, _, name = tool.partition(":")
        function = getattr(importlib.import_module(module), name)
        assert inspect.iscoroutinefunction(function)
        for parameter in inspect.signature(function).parameters.values():
            assert TypeAdapter(parameter.annotation).json_schema()["description"]


async def test_it_asks_waits_and_lists(options: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options.setenv(extension.VARIABLE, f"-m {script(*COUNTED)} --max-cost 1")
    (tmp_path / "a.txt").write_text("abcd")
    answer = await extension.rlm_ask("How long?", paths=["a.txt"])
    assert answer.startswith("4 in all\n\nSource: run r1, notebook ")
    assert await extension.rlm_result("r1") == await extension.rlm_status("r1") == answer
    assert await extension.rlm_runs() == "r1  answered: How long?"
    with pytest.raises(ConfigurationError, match="max_cost is 1 at most here, not 2"):
        await extension.rlm_ask("How long?", max_cost=2)
    with pytest.raises(ConfigurationError, match="outside of the folders that may be read"):
        await extension.rlm_ask("How long?", paths=["/etc/passwd"])


async def test_a_long_run_is_named_told_something_and_stopped(options: pytest.MonkeyPatch) -> None:
    options.setenv(extension.VARIABLE, f"-m {sleepy(30)}")
    said = await extension.rlm_ask("Rest.", wait_seconds=2)
    assert said.endswith('call rlm_result with run="r1".')
    assert "Run r1" in await extension.rlm_note("r1", "Faster.")
    assert (await extension.rlm_stop("r1")).startswith("No answer: ")


async def test_options_that_are_wrong_do_not_end_the_jupyter_server(options: pytest.MonkeyPatch) -> None:
    options.setenv(extension.VARIABLE, "--nonsense")
    with pytest.raises(ConfigurationError, match="RLM_MCP_OPTIONS: jupyter rlm mcp does not take this"):
        await extension.rlm_runs()
