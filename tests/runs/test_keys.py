"""A key that is passed as `api_key`: it reaches its provider and nothing else, and errors say where to give one."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM, Limits
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.recorded_configuration import configuration
from rlm_jupyter.types.errors import ConfigurationError, ContextError, ModelError
from rlm_jupyter.types.events import Event
from tests.runs.test_cli import cli
from tests.runs.test_cli import here as here
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.loopback import Loopback

SECRET = "sk-passed-by-hand-0123456789"
SPY = """I look at all there is.
```repl
import os, pathlib
seen = [dict(os.environ)]
for process in pathlib.Path('/proc').glob('[0-9]*'):
    for name in ('environ', 'cmdline'):
        try:
            seen.append((process / name).read_bytes())
        except OSError:
            pass
reply = llm_query('one')
print('KEY' if '{part}' in str(seen) else 'no key', reply)
```""".replace("{part}", SECRET.replace("hand", "' 'hand").replace("' '", "' + '"))
END = "```repl\nFINAL(reply)\n```"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_passed_key_reaches_its_provider_and_nothing_else(here: Path, provider: str) -> None:
    events: list[Event] = []
    with Loopback([SPY, "a reply", END], key=SECRET) as server:
        rlm = RLM(
            f"{provider}/some-model",
            sub_model=f"{provider}/smaller",
            base_url=server.openai_url if provider == "openai" else server.url,
            api_key=SECRET,
        )
        result = await rlm.acompletion("What?", "some text", on_event=events.append)
    assert result.answer == "a reply"
    assert "no key a reply" in result.trajectory.iterations[0].shown
    assert len(server.requests) == 3
    shown = repr([rlm, vars(rlm), rlm.settings, rlm.settings.routing.models, result, events])
    assert SECRET not in shown
    files = [path for path in here.rglob("*") if path.is_file()]
    assert any(path.suffix == ".ipynb" for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_what_holds_a_key_is_not_pickled() -> None:
    rlm = RLM("openai/gpt-5-mini", api_key=SECRET)
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(rlm)
    with pytest.raises(ContextError, match="holds a key"):
        RLM("extractive").start("What?", {"made": rlm})


async def test_a_passed_key_that_is_refused_is_not_shown() -> None:
    with Loopback(key="another") as server:
        rlm = RLM("openai/gpt-5-mini", base_url=server.openai_url, api_key=SECRET)
        with pytest.raises(ModelError, match="the api_key that was passed") as caught:
            await rlm.acompletion("What?", "some text")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_key_goes_with_one_provider() -> None:
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        RLM("openai/gpt-5-mini", sub_model="anthropic/claude-sonnet-5", api_key=SECRET)
    with pytest.raises(ConfigurationError, match="neither base_url nor api_key"):
        RLM("extractive", api_key=SECRET)


async def test_a_key_is_given_again_to_go_on(here: Path) -> None:
    with Loopback([SPY, "a reply", END], key=SECRET) as server:
        rlm = RLM("openai/gpt-5-mini", base_url=server.openai_url, api_key=SECRET, limits=Limits(max_iterations=1))
        first = await rlm.acompletion("What?", "some text")
        assert first.path is not None
        assert first.stop_reason == "iterations"
        again: dict[str, Any] = {"base_url": server.openai_url, "max_iterations": 5}
        with pytest.raises(ConfigurationError, match="was asked at"):
            await RLM.aresume(first.path, max_iterations=5)
        found = configuration(SavedRun.load(first.path), {**again, "api_key": SECRET})
        assert SECRET not in repr(found)
        forked = await RLM.afork(first.path, 1, api_key=SECRET, **again)
        resumed = await RLM.aresume(first.path, api_key=SECRET, **again)
    assert (forked.answer, resumed.answer) == ("a reply", "a reply")
    assert [path for path in here.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []


def test_each_front_end_says_where_a_key_can_be_given(shell: InteractiveShell) -> None:
    shown, error = run_cell(shell, "%rlm -m openai/gpt-5-mini What?")
    assert "%rlm_key openai" in shown
    assert "%rlm_key openai" in str(error)
    assert "api_key" not in shown
    done = cli("run", "What?", "-m", "openai/gpt-5-mini")
    assert done.code == 2
    assert "Set OPENAI_API_KEY in the environment;" in done.err
    assert "%rlm_key" not in done.err
    assert "pass api_key" not in done.err


def test_a_server_that_wants_a_key_is_told_of_where_it_is_shown(shell: InteractiveShell) -> None:
    with Loopback(key=SECRET) as server:
        line = f"-m vllm/some --base-url {server.openai_url}"
        shown, _ = run_cell(shell, f"%rlm {line} What?")
        done = cli("run", "What?", *line.split())
    assert "%rlm_key vllm" in shown
    assert "wants a key (401). Set VLLM_API_KEY in the environment." in done.err
