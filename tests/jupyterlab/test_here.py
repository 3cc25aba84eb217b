"""A model that drives the notebook's own kernel, in a real JupyterLab."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import texts
from tests.jupyterlab.test_looks import approve

pytestmark = pytest.mark.slow


def test_every_cell_is_approved_by_its_buttons_and_nobody_is_asked_elsewhere(opened: Open, model: Waiting) -> None:
    steps = [f"Step {step}.\n```repl\nprint('step {step}')\n```" for step in range(3)]
    # what the run itself goes by when it decides where to ask
    heard = (
        "from rlm_jupyter.frontends.live import open_runs\nprint([run.has_buttons for run in open_runs._runs.values()])"
    )
    model.play([*steps, f"Step 3.\n```repl\n{heard}\n```", "```repl\nFINAL('over')\n```"], opened=5)
    page = opened("own = 1", "%%rlm --here --approve -m openai/any --rerun\nDo it.")
    page.run("user-1")
    page.run("user-2")
    for _ in range(5):
        # as slowly as people do: the page has been heard several times by then
        page.until(lambda: page.page.locator(".rlm-decide-run").count(), "a cell that waits")
        page.page.wait_for_timeout(600)
        assert not page.page.locator(".jp-Stdin").count()
        approve(page)
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    assert [texts(cell).strip() for cell in page.live("code")[:4]] == ["step 0", "step 1", "step 2", "[True]"]
    assert not page.errors


def test_a_server_that_is_not_there_is_said_in_one_line(opened: Open) -> None:
    page = opened("%%rlm --here -m lmstudio/any --rerun\nDo it.")
    page.run("user-1")
    outputs = page.until(
        lambda: [output for output in page.cells()[1]["outputs"] if output["output_type"] == "error"], "the reason"
    )
    assert len(outputs) == 1
    assert "no connection to" in outputs[0]["evalue"]
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: not bar.count(), "that there is nothing to steer")
    assert "Failed" not in page.cell("user-1").inner_text()
    assert not page.page.locator(".rlm-tab-errors").count()
    assert not page.errors


def test_recorded_cells_that_are_executed_again_show_what_they_put_out_now(opened: Open, model: Waiting) -> None:
    stamp = "```repl\nimport uuid\nstamp = str(uuid.uuid4())\nprint(stamp)\n```"
    model.play([stamp, "```repl\ndisplay(stamp[:4])\n```", "```repl\nFINAL('stamped')\n```"], opened=3)
    page = opened("%%rlm --here -m openai/any\nStamp it.", "print(stamp)")
    seen: list[str] = []
    for turn in range(2):
        before = page.cells()[1]["execution_count"]
        page.run("user-1")
        page.until(lambda: page.cells()[1]["execution_count"] not in {None, before}, "the end")  # noqa: B023
        page.until(lambda: page.live("answer"), "the answer")
        page.until_still(lambda: page.cells())
        page.run("user-2")
        page.until(lambda: texts(page.cells()[-1]) not in {"", *seen}, "the variable")
        seen.append(texts(page.cells()[-1]))
        codes, asked = page.live("code"), page.cells()[1]["execution_count"]
        assert texts(codes[0]) == seen[turn]
        assert texts(codes[1]) == repr(seen[turn][:4])
        assert [cell["metadata"]["rlm"]["count"] for cell in codes] == [asked + 1, asked + 2, asked + 3]
    assert len(set(seen)) == 2
    asked = page.cells()[1]

    # a page that never saw it has it from the kernel, as the other had it
    page.page.evaluate("window.sessionStorage.clear()")
    page.window.load()
    page.open()
    page.until(lambda: page.live("answer"), "the answer, in another tab")
    page.until_still(lambda: page.cells())
    assert texts(page.live("code")[0]) == seen[1]
    assert repr(seen[1][:4]) not in texts(page.cells()[1])
    assert page.cells()[1]["execution_count"] in {None, asked["execution_count"]}
    assert not page.errors
