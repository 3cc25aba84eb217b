"""`%llm_query` in the user's own notebook."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter import RLM
from rlm_jupyter.frontends.magics.llm_query import QuestionMagics
from rlm_jupyter.frontends.magics.rlm import load
from rlm_jupyter.kernel.guest.magics import SubcallMagics
from rlm_jupyter.models.scripted import ScriptedModel
from tests.runs.test_magics import in_folder as in_folder
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.support.loopback import KEY, Fault, Loopback, Said


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C as it is in a kernel, whatever handler the tests before have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def configure(shell: InteractiveShell, server: Loopback) -> None:
    magics = shell.magics_manager.registry["RLMMagics"]
    magics.model, magics.base_url = "openai/gpt-5", server.openai_url
    magics.sub_model = "openai/gpt-5-mini"


@pytest.mark.usefixtures("_key")
def test_the_configured_model_answers_and_the_spending_is_counted(shell: InteractiveShell) -> None:
    with Loopback([Said("four"), Said("Paris"), Said("two lines")]) as server:
        configure(shell, server)
        shell.user_ns["place"] = "France"
        shown, error = run_cell(shell, "x = 4\n%llm_query -o capital What is the capital of {place}?")
        assert error is None, shown
        assert shell.user_ns["capital"] == "four"
        assert re.search(r"openai/gpt-5-mini: 110 tokens, \$\d\.\d{4}; in this session 110 tokens", shown)
        shown, _ = run_cell(shell, "answer = %llm_query -m openai/gpt-5 Say where it is.")
        assert shell.user_ns["answer"] == "Paris"
        assert re.search(r"openai/gpt-5: 110 tokens, \$\d\.\d{4}; in this session 220 tokens", shown)
        shell.run_cell("%%llm_query -o both\nfirst {line}\n  second\n")
        assert shell.user_ns["both"] == "two lines"
    prompts = [request.messages for request in server.requests]
    assert [len(messages) for messages in prompts] == [1, 1, 1]
    assert [messages[0]["content"] for messages in prompts] == [
        "What is the capital of France?",
        "Say where it is.",
        "first {line}\n  second",
    ]
    assert [request.body["model"] for request in server.requests] == ["gpt-5-mini", "gpt-5", "gpt-5-mini"]
    assert shell.magics_manager.registry["QuestionMagics"].bill.usage.input_tokens == 300
    assert not Path("rlm_runs").exists()


def test_the_value_is_that_of_the_line(shell: InteractiveShell) -> None:
    shown, error = run_cell(shell, "%llm_query -m scripted/two.json who?")
    assert error is None
    assert "'nobody'" in shown


@pytest.mark.usefixtures("_key")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("%llm_query", "What is the prompt"),
        ("%%llm_query -o x\n\n", "What is the prompt"),
        ("%llm_query --base-url x who", "there is no --base-url. %llm_query takes -m MODEL and -o VARIABLE; %config"),
        ("%llm_query -m", "-m needs a value. %llm_query takes"),
        ("%llm_query -o a-b who", "takes the name of a variable"),
        ("%llm_query -m mistake/x who", "No provider 'mistake'"),
        ("%llm_query -m anthropic/x who", "%rlm_key anthropic"),
        ("%llm_query who", "refused"),
    ],
)
def test_what_is_wrong_is_one_line(shell: InteractiveShell, source: str, said: str) -> None:
    with Loopback([Fault.status(400)]) as server:
        configure(shell, server)
        shown, error = run_cell(shell, source)
    assert error is not None
    assert said in str(error)
    assert "Traceback" not in shown


@pytest.mark.usefixtures("_key")
def test_a_limit_in_dollars_holds(shell: InteractiveShell) -> None:
    with Loopback() as server:
        configure(shell, server)
        shell.magics_manager.registry["RLMMagics"].max_cost = 0.000001
        _, error = run_cell(shell, "%llm_query who?")
    assert type(error).__name__ == "LimitReached"
    assert server.requests == []


@pytest.mark.usefixtures("_key", "_ctrl_c")
def test_an_interrupt_ends_the_request(shell: InteractiveShell) -> None:
    asked = threading.Event()

    def slow(_: object) -> Said:
        asked.set()
        return Said("a reply of several words", delay=60)

    def interrupt() -> None:
        assert asked.wait(60)
        signal.raise_signal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else (
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        )

    with Loopback([slow]) as server:
        configure(shell, server)
        thread = threading.Thread(target=interrupt)
        thread.start()
        _, error = run_cell(shell, "%llm_query who?")
        thread.join()
    assert isinstance(error, KeyboardInterrupt)
    assert server.abandoned == 1


def test_in_a_runs_kernel_they_stay_as_they_are(shell: InteractiveShell) -> None:
    cell = "```repl\nget_ipython().run_line_magic('load_ext', 'rlm_jupyter')\n%llm_query -o said who?\nFINAL(said)\n```"
    result = asyncio.run(RLM(ScriptedModel([cell], sub=lambda prompt: f"sub {prompt}")).acompletion("What?", "text"))
    assert result.answer == "sub who?"
    assert len(result.trajectory.subcalls) == 1


def test_another_s_are_not_replaced() -> None:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    try:
        shell.register_magics(SubcallMagics)
        load(shell)
        assert QuestionMagics.__name__ not in shell.magics_manager.registry
    finally:
        shell.magics_manager.registry["RLMMagics"].close()
        InteractiveShell.clear_instance()


@pytest.mark.usefixtures("_key")
def test_what_is_configured_for_one_provider_is_not_sent_to_another(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key")
    with Loopback(["one", "two"]) as server, Loopback(["theirs"]) as other:
        configure(shell, server)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.url)
        shell.magics_manager.registry["RLMMagics"].model_options = {"seed": 5}
        assert "'one'" in run_cell(shell, "%llm_query -m openai/gpt-4.1 who")[0]
        assert "'theirs'" in run_cell(shell, "%llm_query -m anthropic/claude-sonnet-5 who")[0]
    assert len(server.requests) == 1
    assert "another-key" not in str(server.requests)
    assert "seed" not in other.requests[0].body
