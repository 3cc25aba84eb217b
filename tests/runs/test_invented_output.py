"""A model that plays the kernel: its reply is closed where it begins to, and nothing of the rest counts anywhere."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import nbformat
import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.record import notebook
from rlm_jupyter.record.trajectory import Trajectory
from tests.support.loopback import Loopback, Said

CODE = "I count.\n```repl\nprint(len(context))\n```\n"
MADE_UP = "\n**Output:**\n```\n777\n```\nFINAL(777)\n\n" + "There are 777 of them, as the output shows. " * 60
END = "I end.\n```repl\nFINAL(len(context))\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model_at(server: Loopback, wire: str) -> Model:
    if wire == "openai":
        return load_model("openai/any", base_url=server.openai_url, api_key="k")
    return load_model("anthropic/claude-sonnet-5", base_url=server.url, api_key="k")


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_the_request_is_closed_where_the_model_begins_to_play_the_kernel(wire: str) -> None:
    with Loopback([Said(CODE + MADE_UP, pieces=40, delay=0.1), Said(END, input_tokens=300)]) as server:
        started = time.monotonic()
        result = await RLM(model_at(server, wire)).acompletion("How long?", "abc")
        while not server.abandoned and time.monotonic() - started < 15:
            await asyncio.sleep(0.02)  # it notices with the next piece that it writes
        assert server.abandoned == 1
    assert result.answer == "3"
    first = result.trajectory.iterations[0].reply
    assert first.estimated
    assert first.text.startswith(CODE)
    assert len(first.text) < len(CODE + MADE_UP) / 2
    assert 0 < first.usage.output_tokens < 100
    assert first.usage.input_tokens > 50
    assert "777" not in str(server.requests[-1].body)
    assert not result.trajectory.iterations[1].reply.estimated


async def test_the_notebook_shows_a_notice_in_place_of_the_invented_figure() -> None:
    with Loopback([CODE + MADE_UP, END]) as server:
        result = await RLM(model_at(server, "openai")).acompletion("How long?", "abc")
    assert result.path is not None
    shown = nbformat.read(result.path, as_version=4)
    sources = [cell.source for cell in shown.cells if cell.metadata.rlm.get("iteration") == 1]
    assert [source.partition("(")[0].strip() for source in sources] == [
        "I count.",
        "print",
        "> Not read: here the model wrote an output of its own, before the kernel gave one.",
    ]
    assert not re.search(r"\b777\b", "".join(cell.source for cell in shown.cells))  # a run's id may have it
    text = result.trajectory.iterations[0].reply.text
    assert "**Output:**" in text
    assert notebook.read(result.path) == list(result.trajectory.records)
    assert Trajectory.load(result.path).iterations[0].reply.text == text


async def test_what_code_prints_in_the_middle_of_a_reply_is_not_cut_off() -> None:
    report = 'I write it.\n```repl\ntext = """\nOutput:\n```\n1\n```\n"""\nFINAL(text.count("`"))\n```\n'
    with Loopback([report]) as server:
        result = await RLM(model_at(server, "openai"), limits=Limits(max_iterations=2)).acompletion("How?", "abc")
        assert server.abandoned == 0
    assert result.answer == "6"
