"""What a live cell offers: its context menu, and long code that shows its first lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
LOOK = "I look.\n```repl\nseen = len(context)\nprint(seen)\n```"
LONG = "\n".join(f"line_{number} = {number}" for number in range(45))


def choose(page: NotebookPage, cell: str, label: str) -> None:
    """Choose an entry of a cell's context menu."""
    page.cell(cell).locator(".cm-content, .jp-MarkdownOutput").first.click(button="right")
    entry = page.page.locator(".lm-Menu-item", has_text=label)
    entry.wait_for()
    if label == "Copy to My Cells":
        page.picture("cell-menu")
    entry.click()


def test_the_context_menu_acts_on_the_cell_that_was_clicked(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "```repl\nprint('second')\n```", "```repl\nFINAL(seen)\n```"], opened=3)
    page = opened("text = 'x' * 1234", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the answer")
    first, second = page.live("code")[:2]

    choose(page, first["id"], "Run in the Run's Kernel")
    page.until(lambda: page.live("code")[0]["metadata"]["rlm"].get("by_hand"), "that it ran there")
    assert "1234" in texts(page.live("code")[0])

    choose(page, second["id"], "Copy to My Cells")
    page.until(lambda: page.cells()[-1]["source"].endswith("\nprint('second')"), "the copy")
    # it says what it needs to run there
    assert page.cells()[-1]["source"].startswith("# From a run. ")
    assert "rlm" not in page.cells()[-1]["metadata"]

    # a copy that is pasted is the person's own as soon as it is run
    page.command("notebook:copy-cell", on=second["id"])
    page.select(page.cells()[-1]["id"])
    page.command("notebook:paste-cell-below")
    pasted = page.until(lambda: [c for c in page.cells() if c["source"] == "print('second')"][1:], "the pasted copy")[0]
    page.run(pasted["id"])
    pasted = page.until(
        lambda: [c for c in page.cells() if c["id"] == pasted["id"] and "second" in texts(c) and c["execution_count"]],
        "its output",
    )[0]
    assert not {"rlm", "tags"} & set(pasted["metadata"])

    choose(page, second["id"], "RLM: Branch from Here")
    page.until(lambda: "RLM.fork(" in "".join(cell["source"] for cell in page.cells()), "the cell that branches")
    branch = next(cell for cell in page.cells() if "RLM.fork(" in cell["source"])
    assert branch["source"].splitlines()[-2].endswith(", at=2)")
    assert branch["execution_count"] is None  # nothing is spent before the person runs it
    model.play(["```repl\nFINAL(seen + 1)\n```"], opened=1)
    page.run(branch["id"])
    page.until(lambda: "1235" in texts(next(c for c in page.cells() if c["id"] == branch["id"])), "the branch's answer")
    html = json.dumps(next(c for c in page.cells() if c["id"] == branch["id"])["outputs"])
    assert "from the record: 2 cells are executed again (a cell of yours was executed in its kernel)" in html

    choose(page, first["id"], "Open the Run's Own Notebook")
    page.until(
        lambda: (
            Path(page.page.evaluate("window.jupyterapp.shell.currentWidget.context?.path ?? ''")).parent.name
            == "rlm_runs"
        ),
        "the run's own notebook",
    )
    assert not page.errors


def test_a_branch_that_is_chosen_in_mid_run_begins_later_with_the_kernel_of_that_moment(
    opened: Open, model: Waiting
) -> None:
    model.play([LOOK, "```repl\nseen = 0\n```", "```repl\nFINAL(seen)\n```"], opened=1)
    page = opened("text = 'x' * 1234", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"]["status"] == "ok"], "the first cell's end")
    choose(page, page.live("code")[0]["id"], "RLM: Branch from Here")
    toast = page.page.locator(".Toastify__toast")
    page.until(lambda: "a branch from there begins at once" in " ".join(toast.all_inner_texts()), "what was kept")
    page.picture("branch-kept", 500)
    model.let(2)
    page.until(lambda: page.live("answer"), "the answer")
    branch = next(cell for cell in page.cells() if "RLM.fork(" in cell["source"])
    model.play(["```repl\nFINAL(seen + 1)\n```"], opened=1)
    page.run(branch["id"])
    page.until(lambda: "1235" in texts(next(c for c in page.cells() if c["id"] == branch["id"])), "the branch's answer")
    html = json.dumps(next(c for c in page.cells() if c["id"] == branch["id"])["outputs"])
    assert "living kernel: no cell was executed again" in html
    page.picture("branched", 700)
    assert not page.errors


def test_long_code_shows_its_first_lines(opened: Open, model: Waiting) -> None:
    model.play([f"```repl\n{LONG}\nprint(line_44)\n```", "```repl\nFINAL('done')\n```"], opened=2)
    page = opened("text = 'x'", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the answer")
    code = page.live("code")[0]
    cell = page.cell(code["id"])
    button = cell.locator(".rlm-fold-code-button")
    page.until(lambda: button.inner_text() == "Show 26 more lines", "that it is folded")
    editor = cell.locator(".jp-InputArea-editor")

    def height() -> float:
        return (editor.bounding_box() or {"height": 0.0})["height"]

    folded = height()
    page.picture("long-code")
    assert code["source"].startswith(LONG)  # what is saved is whole
    assert page.cell(page.live("code")[1]["id"]).locator(".rlm-fold-code-button").count() == 0
    button.click()
    page.until(lambda: height() > 2 * folded, "all of it")
    assert button.inner_text() == "Show less"
    button.click()
    page.until(lambda: height() == folded, "the first lines again")
    # who edits it sees all of it
    cell.locator(".cm-line").first.click()
    page.until(lambda: height() > 2 * folded, "all of it")
    assert not page.errors


def test_a_run_that_is_cut_and_pasted_stays_one_and_a_copy_is_a_copy(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "```repl\nFINAL(seen)\n```"], opened=2)
    page = opened("text = 'x' * 1234", ASK, "own = 1")
    page.run("user-1")
    page.run("user-2")
    bar = page.page.locator(".rlm-bar[data-rlm-outcome='answered']")
    page.until(lambda: page.live("answer") and bar.count(), "the answer")
    before = page.until_still(lambda: page.live() + page.live("boundary"))
    order = [cell["id"] for cell in page.cells()]

    page.select("user-2")
    page.page.evaluate(
        "count => { const notebook = window.jupyterapp.shell.currentWidget.content;"
        " notebook.extendContiguousSelectionTo(notebook.activeCellIndex + count); }",
        len(before),
    )
    page.command("notebook:cut-cell")
    page.until(lambda: not bar.count() and not page.live(), "that it is gone")
    page.command("notebook:paste-cell-below", on="user-3")
    moved = page.until_still(lambda: page.live() + page.live("boundary"))
    assert moved == before
    assert [cell["id"] for cell in page.cells()] == ["user-0", "user-1", "user-3", *order[2:-1]]
    page.until(lambda: bar.count() == 1, "the bar")
    assert page.page.locator(".jp-MarkdownCell.rlm-live .jp-MarkdownOutput:visible").count() >= 3
    page.picture("cut-and-pasted", 300)

    # once more, it is a copy; all of it can be undone
    page.command("notebook:paste-cell-below", on="user-1")
    page.until(lambda: len(page.cells()) > len(order), "the copy")
    assert page.until_still(lambda: page.live() + page.live("boundary")) == before
    page.command("notebook:undo-cell-action")
    page.until(lambda: len(page.cells()) == len(order), "that the copy is gone")
    page.command("notebook:undo-cell-action")
    if len(page.cells()) < len(order):  # the cut is a step of its own, unless it came right before
        page.command("notebook:undo-cell-action")
    page.until(lambda: [cell["id"] for cell in page.cells()] == order, "all in its place")
    page.until(lambda: bar.count() == 1, "the bar")
    assert not page.errors
