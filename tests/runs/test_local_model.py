"""Whole runs with a real model, by hand: `LLAMACPP_BASE_URL=http://127.0.0.1:8080 pytest -m local_model`.

A small model is often wrong, so nothing is asserted of what it answers: a run ends for a reason that it names, its
notebook is one, and what a person may do to it takes effect on the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, get_args

import nbformat
import pytest
from nbclient import NotebookClient

from rlm_jupyter import RLM
from rlm_jupyter.models import load_model
from rlm_jupyter.types.events import Event, ReplyStreamed
from rlm_jupyter.types.values import Message, StopReason

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(1200)]

QUESTION = "How many lines have the word ERROR in them?"
TEXT = "".join(f"line {number}: {'ERROR' if number % 7 == 0 else 'fine'}\n" for number in range(3_000))
ENDS = set(get_args(StopReason)) - {"failed", "kernel_died"}
_PIECES = 8
"""Of a reply, before it is stopped."""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check_notebook(path: Path, iterations: int) -> None:
    document = nbformat.read(path, as_version=4)
    nbformat.validate(document)
    assert QUESTION in json.dumps(document)
    assert iterations >= 1


def test_a_run_on_the_command_line(local_model: str) -> None:
    Path("app.log").write_text(TEXT)
    asked = ["run", QUESTION, "-c", "app.log", "-m", local_model, "--max-iterations", "6", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", *asked], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    facts = json.loads(done.stdout)
    assert facts["stop_reason"] in ENDS
    assert (done.returncode == 0) == (facts["answer"] is not None)
    assert facts["cost"] == 0
    assert facts["usage"]["input_tokens"] > facts["usage"]["output_tokens"] > 0
    check_notebook(Path(facts["notebook"]), facts["iterations"])


def test_a_run_in_a_notebook(local_model: str) -> None:
    sources = [
        f"%load_ext rlm_jupyter\nbook = {TEXT!r}",
        f"%%rlm -c book -m {local_model} --max-iterations 6\n{QUESTION}",
        "print(rlm_result.stop_reason, len(rlm_result.trajectory.iterations), rlm_result.path)",
    ]
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(document, timeout=1100, extra_arguments=["--log-level=ERROR"]).execute()
    nbformat.validate(document)
    stop_reason, iterations, path = document.cells[2].outputs[0]["text"].split(maxsplit=2)
    assert stop_reason in ENDS
    check_notebook(Path(path.strip()), int(iterations))


def test_stop_ends_the_reply_on_the_server_within_half_a_second(local_model: str) -> None:
    pieces: list[float] = []
    written = threading.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ReplyStreamed):
            pieces.append(time.monotonic())
            if len(pieces) == _PIECES:
                written.set()

    prompt = "Write a very long program that prints all you know of prime numbers."
    running = RLM(local_model, save=False).start(prompt, on_event=hear)
    assert written.wait(900)
    assert working()
    running.stop()
    began = time.monotonic()
    while working() and time.monotonic() - began < 60:
        time.sleep(0.02)
    took = time.monotonic() - began
    # between two tokens it looks at nothing: on a machine that is busy otherwise, that may be longer
    assert took < max(0.5, 3 * (pieces[-1] - pieces[0]) / (len(pieces) - 1))
    assert running.result(60).stop_reason == "cancelled"


def working() -> bool:
    """Whether the server writes, or reads, in any of its slots."""
    root = os.environ["LLAMACPP_BASE_URL"].removesuffix("/v1")
    with urllib.request.urlopen(f"{root}/slots", timeout=60) as response:
        slots: list[dict[str, Any]] = json.load(response)
    return any(slot["is_processing"] for slot in slots)


async def test_what_it_knows_is_more_probable_to_it_than_what_it_makes_up(local_model: str) -> None:
    """The mean probability of its tokens, which the policy `confidence` reads where an answer states none."""
    model = load_model(local_model)
    sure, made_up = [
        (await model.complete([Message("user", asked)], max_output_tokens=24, logprobs=True)).token_confidence  # type: ignore[call-arg]
        for asked in ("2+2=? Only the number.", "What is the telephone number of the baker in Quorndale? Invent one.")
    ]
    assert sure is not None
    assert made_up is not None
    assert 0 < made_up < sure <= 1
    assert sure > 0.8
