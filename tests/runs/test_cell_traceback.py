"""What a person sees of an error of the Python API: one line, and the line of their cell. In a real kernel."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.support.loopback import Fault, Loopback

_SECONDS = 60


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "broken.pdf").write_bytes(b"no pdf")
    km, kc = start_new_kernel(startup_timeout=_SECONDS, cwd=str(folder))
    try:
        yield kc
    finally:
        kc.stop_channels()
        km.shutdown_kernel(now=True)


def shown(kernel: BlockingKernelClient, cell: str) -> list[str]:
    """Execute a cell; return the lines of its traceback."""
    found: list[str] = []

    def hear(message: dict) -> None:  # type: ignore[type-arg]
        if message["msg_type"] == "error":
            found.extend("\n".join(message["content"]["traceback"]).splitlines())

    kernel.execute_interactive(cell, timeout=_SECONDS, output_hook=hear)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in found]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('RLM("opnai/x")', "ConfigurationError: No provider 'opnai'. Did you mean openai/x?"),
        (
            'RLM("ollama/x", base_url="http://127.0.0.1:9").completion("?")',
            "ModelUnavailableError: ollama/x: no connection",
        ),
        (
            'await RLM("ollama/x", base_url="http://127.0.0.1:9").acompletion("?")',
            "ModelUnavailableError: ollama/x: no co",
        ),
        (
            'RLM("extractive").completion("?", contxt="text")',
            "TypeError: RLM.completion() got an unexpected keyword argument 'contxt'. Did you mean",
        ),
        ('RLM("extractive").completion()', None),
        ('load("broken.pdf")', "ConfigurationError: broken.pdf: no PDF that can be read"),
        ('RLM.resume("none-such")', "NoRunError: "),
    ],
)
def test_a_mistake_is_one_line_and_the_line_of_the_cell(
    kernel: BlockingKernelClient, line: str, says: str | None
) -> None:
    lines = shown(kernel, f"from rlm_jupyter import RLM, load\n\n{line}")
    if says is None:  # what Python itself refuses is shown as ever
        assert lines[-1].startswith("TypeError: ")
        assert len(lines) > 3
        return
    assert len(lines) == 2, "\n".join(lines)
    assert lines[0].startswith(says)
    assert re.fullmatch(rf"  Cell In\[\d+\], line 3: {re.escape(line)}", lines[1])


STOPPED = """import os, signal, threading
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
def stop(event):
    if type(event).__name__ == "CellStarted":
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
slow = RLM(ScriptedModel(["```repl\\nimport time; time.sleep(60)\\n```"]))
slow.completion("?", "text", on_event=stop)"""


def test_an_interrupt_is_a_line_that_says_how_to_resume_the_run(kernel: BlockingKernelClient) -> None:
    lines = shown(kernel, STOPPED)
    assert len(lines) == 2, "\n".join(lines)
    assert lines[0].startswith("RunInterrupted: the run was stopped, without an answer. The run so far is saved in ")
    assert re.search(r"\. To resume it: jupyter rlm resume \S+$", lines[0])
    assert lines[1].endswith('line 8: slow.completion("?", "text", on_event=stop)')


def test_a_server_that_refuses_the_key(kernel: BlockingKernelClient) -> None:
    with Loopback([Fault.status(401, "wrong key")]) as server:
        make = f"RLM('openai/x', base_url={server.openai_url!r}, api_key='some-key', save=False)"
        lines = shown(kernel, f"from rlm_jupyter import RLM\ndef ask():\n    return {make}.completion('?')\nask()")
    assert len(lines) == 3, "\n".join(lines)
    assert lines[0].startswith("ModelError: openai/x: OpenAI refused the key (401).")
    assert re.fullmatch(r"  Cell In\[\d+\], line 4: ask\(\)", lines[1])
    assert re.match(r"  Cell In\[\d+\], line 3: return RLM", lines[2])


def test_frames_are_shown_where_they_are_asked_for(kernel: BlockingKernelClient) -> None:
    shown(kernel, "%xmode Verbose")
    try:
        lines = shown(kernel, "from rlm_jupyter import RLM\nRLM('opnai/x')")
    finally:
        shown(kernel, "%xmode Context")
    assert len(lines) > 20
    assert any("endpoint.py" in line for line in lines)


def test_a_failing_policy_of_the_users_shows_its_own_frames(kernel: BlockingKernelClient) -> None:
    lines = shown(
        kernel,
        "from rlm_jupyter.types.errors import PolicyError\n"
        "def decide():\n    raise ZeroDivisionError('of mine')\n"
        "try:\n    decide()\nexcept ZeroDivisionError as error:\n    raise PolicyError('failed') from error",
    )
    assert any("of mine" in line for line in lines)
    assert len(lines) > 10


def test_outside_of_ipython_nothing_changes() -> None:
    code = "from rlm_jupyter import RLM\nRLM('opnai/x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "endpoint.py" in done.stderr
