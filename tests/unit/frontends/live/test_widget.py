"""The widget view: bars against the limits, and buttons that steer; in a real kernel too."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import ipywidgets
import nbformat
import pytest
from nbclient import NotebookClient

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.live.widget import Steering
from rlm_jupyter.kernel.supervisor import can_fork_live
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.run_handle import RunHandle

SLOW = "I wait.\n```repl\nimport time\nanswer['content'] = 'a draft'\ntime.sleep(0.3)\n```"
END = "```repl\nFINAL('the end')\n```"


def start(replies: list[Any], *, approve: bool = False, **limits: Any) -> tuple[RunHandle, Steering]:
    steering = Steering()
    rlm = RLM(ScriptedModel(replies), save=False, limits=Limits(**limits))
    return rlm.start("What?", "a text", on_event=steering, approve=approve), steering


def button(box: Any, description: str) -> Any:
    return next(child for child in box.children[0].children if getattr(child, "description", "") == description)


def until(holds: Any) -> None:
    deadline = time.monotonic() + 40
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not can_fork_live(), reason="kernels are forked on Linux")
def test_the_last_cell_is_undone_by_a_button() -> None:
    replies = ["```repl\nx = 1\n```", "```repl\ny = 2\n```", "```repl\nFINAL(globals().get('x', 'none'))\n```"]
    running, steering = start(replies, approve=True)
    box = steering.widget(running.control)
    approve, undo = button(box, "Run the cell"), button(box, "Undo the last cell")
    until(lambda: approve.layout.display is None and steering.proposed == (1, 0))
    assert undo.layout.display == "none"
    # a click counts for the cell that the panel shows: until it shows the one that waits, nothing
    until(lambda: steering.proposed == (2, 0) or approve.click())
    until(lambda: undo.layout.display is None)
    until(lambda: steering.proposed == (3, 0) or undo.click())
    until(lambda: approve.click() or running.done)
    assert running.result(60).answer == "none"


def test_bars_show_what_is_used_of_the_limits_that_are_set() -> None:
    running, steering = start([SLOW, END], max_iterations=4, max_tokens=100_000, max_subcalls=None)
    box = steering.widget(running.control)
    assert running.result(60).answer == "the end"
    until(lambda: box.children[0].layout.display == "none")
    bars = {row.children[0].description: row for row in box.children[1:-1] if row.layout.display is None}
    assert set(bars) == {"Iterations", "Tokens"}
    assert bars["Iterations"].children[0].value == pytest.approx(0.5)
    assert bars["Iterations"].children[1].value == "2 of 4"
    assert "Answered" in box.children[-1].value
    assert "<p>the end</p>" in box.children[-1].value


def test_stop_ends_the_run_with_what_it_has() -> None:
    running, steering = start([SLOW] * 50, max_iterations=50, max_errors=None)
    box = steering.widget(running.control)
    until(lambda: "a draft" in steering.drawn())
    button(box, "Stop").click()
    result = running.result(60)
    assert (result.stop_reason, result.answer) == ("cancelled", "a draft")


def test_a_run_is_paused_and_resumed_by_the_same_button() -> None:
    replies = [SLOW.replace("a draft", str(n)) for n in range(3)]
    running, steering = start([*replies, END])
    box = steering.widget(running.control)
    button(box, "Pause").click()
    until(lambda: steering.phase() == "paused")
    until(lambda: any(getattr(child, "description", "") == "Resume" for child in box.children[0].children))
    button(box, "Resume").click()
    assert running.result(60).answer == "the end"


def test_a_cell_that_waits_is_run_or_refused_with_a_note() -> None:
    running, steering = start(["```repl\nx = 1\n```", "```repl\nFINAL(globals().get('x', 'none'))\n```"], approve=True)
    box = steering.widget(running.control)
    refuse, approve = button(box, "Refuse"), button(box, "Run the cell")
    until(lambda: refuse.layout.display is None)
    note = next(child for child in box.children[0].children if isinstance(child, ipywidgets.Text))
    note.value = "not yet"
    refuse.click()
    until(lambda: running.control.is_asking and note.value == "")
    # a click counts for the cell that the panel shows: until it shows the next one, nothing
    until(lambda: approve.click() or running.done)
    result = running.result(60)
    assert result.answer == "none"
    assert "Their message: not yet" in result.trajectory.iterations[0].notices[0]


def test_a_background_run_shows_itself_as_a_widget_in_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "slow.json").write_text(json.dumps({"replies": [SLOW, END]}))
    cells = [
        "%load_ext rlm_jupyter",
        "%rlm --background -m scripted/slow.json What?",
        "rlm_result",
        "rlm_result.result().answer",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = notebook.cells[2].outputs[0].data
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert notebook.cells[3].outputs[-1].data["text/plain"] == "'the end'"
