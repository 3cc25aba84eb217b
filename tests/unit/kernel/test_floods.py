"""What a cell may put out and hold is bounded; the model is told, and the run goes on."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.kernel.iopub import FLOOD_ERRORS, FLOOD_OUTPUTS, MOST_CHARS, MOST_OUTPUTS, CellOutputs
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models.scripted import ScriptedModel
from tests.support.examples import one_in

pytestmark = pytest.mark.slow

MIB = 2**20
FLOODS = {
    "print": "while True: print('x' * 100_000)",
    "one line": "print('x' * 200_000_000)",
    "display": "from IPython.display import HTML\nwhile True: display(HTML('x' * 1_000_000))",
    "update": "h = display('', display_id=True)\nwhile True: h.update({'text/plain': 'x' * 1_000_000}, raw=True)",
}


BELOW = {
    "a process": "import subprocess; subprocess.run(['yes', 'x' * 10_000])",
    "standard error": "import os\nwhile True: os.write(2, b'x' * 100_000)",
}
"""Floods that do not go through Python's streams."""
SMALL = {
    "tracebacks": (
        "while True:\n    try: 1 / 0\n    except ZeroDivisionError: get_ipython().showtraceback()",
        60.0,
        "OutputFloodError: this cell has shown a traceback more than 500 times",
    ),
    "displays": ("while True: display(1)", 60.0, "OutputFloodError: this cell has displayed more than 10,000 times"),
    "the shell": ("!yes", 2.0, "\ny\ny\n"),
}
"""Endless small ones; after how many seconds they are interrupted, and what is seen of them."""


async def played(source: str, sandbox: Sandbox | str = "auto", cell_seconds: float = 90.0) -> tuple[str, str, str]:
    """What became of the cell, what the model was told of it, and the answer of the next, which is a variable of it."""
    model = ScriptedModel([f"I work.\n```repl\nkept = 42\n{source}\n```", "I end.\n```repl\nFINAL(kept)\n```"])
    limits = Limits(cell_seconds=cell_seconds)
    result = await RLM(model, limits=limits, save=False, sandbox=sandbox).acompletion("What?", "text")
    assert result.stop_reason == "answered"
    first = result.trajectory.iterations[0]
    return first.cells[0].status, first.shown, str(result.answer)


@pytest.mark.parametrize("flood", one_in(2, FLOODS))
async def test_a_flood_of_outputs_is_cut_off_and_told(flood: str) -> None:
    started, before = time.monotonic(), psutil.Process().memory_info().rss
    status, told, answer = await played(FLOODS[flood])
    printed = flood in {"print", "one line"}
    assert (status, answer) == ("error" if printed else "interrupted", "42")
    if printed:
        assert "OutputFloodError: this cell has printed more than 67,108,864 characters" in told
    elif flood != "update":  # each takes the place of the one before
        assert "of output were left out: a cell keeps 67,108,864 characters" in told
        assert "the cell was interrupted because it put out so much" in told
    assert psutil.Process().memory_info().rss - before < 1024 * MIB
    assert time.monotonic() - started < 90  # before its time was up


async def test_each_cell_may_print_as_much_as_any_other(kernel: Kernel) -> None:
    for _ in range(2):
        run = await kernel.execute(f"print('x' * {40 * MIB})")
        assert (run.status, len(run.outputs[0]["text"])) == ("ok", 40 * MIB + 1)
    flood = await kernel.execute("while True: print('x' * 100_000)")
    assert flood.outputs[-1]["ename"] == "OutputFloodError"
    after = await kernel.execute("print('after')")
    assert (after.status, after.outputs[0]["text"]) == ("ok", "after\n")


async def test_the_kernel_keeps_nothing_of_what_was_printed(kernel: Kernel) -> None:
    await kernel.execute("import sys\nprint('kept', sys)\nprint('this, too', file=sys.stderr)")
    await kernel.execute("found = [*getattr(get_ipython().history_manager, 'outputs', ())]")  # IPython 8 has none
    assert (await kernel.get("found")).text == "[]"


async def test_prints_of_threads_and_of_forked_processes_are_seen(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import os, threading\n"
        "print('one')\n"
        "thread = threading.Thread(target=lambda: [print(i, end=' ') for i in range(500)])\n"
        "thread.start(); thread.join()\n"
        "print('two', flush=True)\n"
        "if not (child := os.fork()):\n"
        "    print('three', flush=True); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print('four')"
    )
    printed = "".join(str(output["text"]) for output in run.outputs).split()
    assert printed[:501] == ["one", *map(str, range(500))]
    assert sorted(printed[501:]) == ["four", "three", "two"]


@pytest.mark.parametrize("flood", one_in(2, BELOW))
async def test_a_flood_from_below_is_bounded_and_does_not_come_out_of_the_host(
    flood: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = psutil.Process().memory_info().rss
    status, told, answer = await played(BELOW[flood], "none", cell_seconds=4.0)
    assert (status, answer) == ("interrupted", "42")
    assert "xxxx" in told
    said = capfd.readouterr()
    assert "xxxx" not in said.out + said.err
    assert psutil.Process().memory_info().rss - before < 512 * MIB


@pytest.mark.parametrize("flood", one_in(3, SMALL))
async def test_endless_small_outputs_cost_no_variable(flood: str) -> None:
    source, cell_seconds, seen = SMALL[flood]
    status, told, answer = await played(source, cell_seconds=cell_seconds)
    assert (status, answer) == ("interrupted" if flood == "the shell" else "error", "42"), told[-1000:]
    assert seen in told


async def test_more_memory_than_it_may_have_is_an_error_of_the_cell() -> None:
    hog = "held = []\nwhile True: held.append(bytearray(50_000_000))"
    status, told, answer = await played(hog, Sandbox("none", memory=600 * MIB))
    assert (status, answer) == ("error", "42")
    assert "MemoryError" in told


def test_what_is_kept_of_a_cell_is_bounded_and_begins_at_the_beginning() -> None:
    outputs = CellOutputs()
    outputs.add("stream", {"name": "stdout", "text": "a" * (MOST_CHARS - 10)})
    outputs.add("stream", {"name": "stdout", "text": "b" * 30})
    outputs.add("display_data", {"data": {"text/plain": "c"}})
    kept, note = outputs.snapshot()
    assert kept["text"][-11:] == "a" + "b" * 10
    assert "[20 more characters and 1 more displays of output were left out" in note["text"]
    assert not outputs.is_flood
    outputs.add("clear_output", {})
    outputs.add("stream", {"name": "stdout", "text": "again"})
    assert [output["text"] for output in outputs.snapshot()] == ["again"]


@pytest.mark.parametrize(
    ("most", "kind", "content"),
    [
        (FLOOD_OUTPUTS, "display_data", {"data": {"text/plain": "x"}}),
        (FLOOD_OUTPUTS, "update_display_data", {"data": {"text/plain": "x"}, "transient": {"display_id": "h"}}),
        (FLOOD_ERRORS, "error", {"ename": "KeyError", "evalue": "", "traceback": []}),
    ],
)
def test_many_small_messages_are_a_flood_too(most: int, kind: str, content: dict[str, Any]) -> None:
    outputs = CellOutputs()
    for _ in range(most):
        outputs.add(kind, content)
    assert not outputs.is_flood
    outputs.add(kind, content)
    assert outputs.is_flood


def test_many_small_displays_are_bounded_too_and_the_error_is_seen() -> None:
    outputs = CellOutputs()
    for _ in range(MOST_OUTPUTS + 5):
        outputs.add("display_data", {"data": {"text/plain": "x"}})
    outputs.add("error", {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []})
    shown = outputs.snapshot()
    assert [output["output_type"] for output in shown[-2:]] == ["error", "stream"]
    assert "[5 more displays of output were left out" in shown[-1]["text"]


def test_outputs_that_the_channel_lost_are_named() -> None:
    outputs = CellOutputs()
    outputs.add("stream", {"name": "stdout", "text": "first\n"})
    outputs.is_incomplete = True
    first, note = outputs.snapshot()
    assert (first["text"], note["name"]) == ("first\n", "stderr")
    assert "were lost" in note["text"]
