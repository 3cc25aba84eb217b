"""What goes wrong by a user's or a server's doing is said in one line: no traceback of ours in anybody's notebook."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from rlm_jupyter.frontends.magics.rlm import load
from tests.support.loopback import Fault, Loopback

_DEAD = "http://127.0.0.1:9"
"""An address where no server is: the discard port is never bound."""
_PROGRESS = re.compile(r"(Failed|Waiting for .*) · ")
"""The run's own line, above the error."""
MISTAKES = {
    "no question": "%rlm",
    "no question after an option": "%rlm -c book",
    "an empty cell": "%%rlm -c book\n",
    "a question twice": "%%rlm What?\nWhat?",
    "an unknown option": "%rlm --max-cots 1 What?",
    "an option without a value": "%rlm --model",
    "a word for a number": "%rlm --max-iterations many What?",
    "a negative limit": "%rlm --max-cost -1 What?",
    "no such variable": "%rlm -m scripted/ok.json -c boook What?",
    "no name of a variable": "%rlm -m scripted/ok.json -c 'a b' What?",
    "a variable that is None": "%rlm -m scripted/ok.json -c nothing What?",
    "a context that can't be pickled": "%rlm -m scripted/ok.json -c lock What?",
    "no name for the result": "%rlm -m scripted/ok.json -o 1x What?",
    "a model without a provider": "%rlm -m gpt-5 What?",
    "an unknown provider": "%rlm -m opnai/gpt-5 What?",
    "an unknown sub-model": "%rlm -m scripted/ok.json --sub-model opnai/gpt-5 What?",
    "no key of OpenAI's": "%rlm -m openai/gpt-5 What?",
    "no key of Anthropic's": "%rlm -m anthropic/claude-sonnet-5 What?",
    "no Ollama": f"%rlm -m ollama/qwen --base-url {_DEAD} What?",
    "no llama.cpp": f"%rlm -m llamacpp/local --base-url {_DEAD} What?",
    "no LM Studio": f"%rlm -m lmstudio/qwen --base-url {_DEAD} What?",
    "no vLLM": f"%rlm -m vllm/qwen --base-url {_DEAD} What?",
    "no address": "%rlm -m llamacpp/local --base-url gpu.lan:8080 What?",
    "a window that is too small": "%rlm -m scripted/ok.json --window -5 What?",
    "no script": "%rlm -m scripted/none.json What?",
    "a script that is no JSON": "%rlm -m scripted/broken.json What?",
    "a script that is over": "%rlm -m scripted/empty.json What?",
    "no price": "%rlm -m scripted/ok.json --sub-model llamacpp/x --max-cost nan What?",
    "an unknown sandbox": "%rlm -m scripted/ok.json --sandbox vault What?",
    "a folder that is not there": "%rlm -m scripted/ok.json --sandbox bwrap --read nowhere What?",
    "a place that can't be written": "%rlm -m scripted/ok.json --save ok.json/run.ipynb What?",
    "somebody's notebook": "%rlm -m scripted/ok.json --save mine.ipynb What?",
    "an unknown policy": "%rlm -m scripted/ok.json --termination never What?",
    "an unknown reward": "%rlm -m scripted/ok.json --reward gold What?",
    "approval in the background": "%rlm -m scripted/ok.json --approve --background What?",
    "this notebook's kernel in a terminal": "%rlm -m scripted/ok.json --here What?",
    "a provider without a key": "%rlm_key extractive",
    "nothing to restore": "%rlm_restore",
    "an unknown run to restore": "%rlm_restore 20250101-000000-none",
    "an unknown run to resume": "%rlm_resume 20250101-000000-none",
    "no run to resume": "%rlm_resume mine.ipynb",
}
REFUSALS: dict[str, Fault] = {
    "unauthorized": Fault.status(401, "bad key"),
    "no such model": Fault.status(404, "no such model"),
    "a bad request": Fault.status(400, "what is this?"),
    "a proxy's page": Fault.status(502, "<html>Bad Gateway</html>"),
    "cut off": Fault.dropped("stream"),
}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.chdir(tmp_path)
    Path("ok.json").write_text(json.dumps({"replies": ["```repl\nprint(1)\n```", "```repl\nFINAL('ok')\n```"]}))
    Path("empty.json").write_text(json.dumps({"replies": []}))
    Path("broken.json").write_text("{")
    Path("mine.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    load(made)
    made.run_cell("import threading; book, nothing, lock = 'some text', None, threading.Lock()")
    yield made
    made.magics_manager.registry["RLMMagics"].close()
    InteractiveShell.clear_instance()


def lines_of(shell: InteractiveShell, source: str) -> tuple[list[str], Any]:
    """What a failing cell prints, and its error."""
    with capture_output() as captured:
        result = shell.run_cell(source)
    text = captured.stdout + captured.stderr
    shown = [line for line in text.splitlines() if line.strip() and not _PROGRESS.match(line)]
    return shown, result.error_in_exec or result.error_before_exec


@pytest.mark.parametrize("cell", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(shell: InteractiveShell, cell: str) -> None:
    lines, error = lines_of(shell, cell)
    assert error is not None
    assert len(lines) <= 1, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
def test_what_a_server_does_is_one_line(shell: InteractiveShell, monkeypatch: Any, fault: Fault) -> None:
    with Loopback([fault] * 50) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "x" * 20)
        lines, error = lines_of(shell, f"%rlm -m openai/gpt-5 --base-url {server.openai_url} -c book What?")
    assert error is not None
    assert len(lines) <= 1, "\n".join(lines)
    assert os.environ["OPENAI_API_KEY"] not in "".join(lines)
