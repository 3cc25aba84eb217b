"""A child's own cells in a real JupyterLab: on demand, while it runs and when it is over."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun --max-depth 2\nHow long is it?"
ROOT = "I ask.\n```repl\npart = rlm_query('Read the part')\nprint(part)\n```"
LOOK = "A child looks.\n```repl\nprint('child sees', context)\n```"
CHILD = "```repl\nFINAL('it says ' + context)\n```"
FINAL = "```repl\nFINAL(part)\n```"


def shown(page: NotebookPage) -> list[tuple[str, int]]:
    """Role and depth of the live cells, in order."""
    marks: list[dict[str, Any]] = [cell["metadata"]["rlm"] for cell in page.live()]
    return [(mark["role"], mark.get("depth", 0)) for mark in marks]


def test_a_childs_cells_open_on_demand(opened: Open, model: Waiting) -> None:
    model.play([ROOT, LOOK, CHILD, FINAL], opened=2)
    page = opened("text = 'x' * 10", ASK, "'own'")
    page.run("user-1")
    page.run("user-2")
    # the child's second reply is held back
    asked = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-asked")
    child = asked.get_by_role("button", name="Child 1")
    page.until(lambda: child.count() and "iteration 2" in child.inner_text(), "the child's first iteration")
    assert re.fullmatch(r"Child 1: iteration 2 · running · 110 tokens — show cells", child.inner_text())
    assert shown(page) == [("prose", 0), ("code", 0), ("subcalls", 0)]
    assert asked.locator("summary").inner_text() == "1 sub-call in flight"
    asked.locator("summary").click()
    assert re.fullmatch(r"rlm_query: Read the part · \d+ s", asked.locator("details > div").inner_text())
    page.picture("child-closed")

    # by keyboard: the focus stays on the button
    child.focus()
    page.page.keyboard.press("Enter")
    page.until(lambda: len(page.live()) == 5, "the child's cells")
    assert shown(page) == [("prose", 0), ("code", 0), ("subcalls", 0), ("prose", 1), ("code", 1)]
    page.until(lambda: "child sees Read the part" in texts(page.live("code")[1]), "what the child's cell shows")
    assert page.cells()[2]["execution_count"] is None
    page.until(lambda: child.get_attribute("aria-expanded") == "true", "the button says so")
    assert page.page.evaluate("document.activeElement.textContent").startswith("Child 1")
    assert page.cell(page.live("code")[1]["id"]).get_attribute("aria-label") == (
        "The model’s code, iteration 1, of a child at depth 1"
    )
    page.picture("child-open", 400)
    first = [cell["id"] for cell in page.live()]

    # closed, and open again
    page.page.keyboard.press("Enter")
    page.until(lambda: len(page.live()) == 3, "they are gone")
    child.click()
    page.until(lambda: [cell["id"] for cell in page.live()] == first, "they are back")

    # more of it while it is open, and the root goes on below it
    model.let()
    page.until(lambda: ("answer", 1) in shown(page), "the child's answer")
    model.let()
    page.until(lambda: ("answer", 0) in shown(page), "the answer")
    whole = [("prose", 0), ("code", 0), ("subcalls", 0), ("prose", 1), ("code", 1), ("code", 1), ("answer", 1)]
    assert shown(page) == [*whole, ("code", 0), ("answer", 0)]
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    assert not asked.locator("details").is_visible()
    page.until(lambda: "Answered" in child.inner_text(), "the child is over")

    # hidden and shown with the run; closed; then opened from the side panel, of a child that is over
    page.command("rlm:fold", on="user-2")
    assert page.page.locator(".rlm-live:visible").count() == 0
    page.command("rlm:fold")
    assert page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-live:visible").count() == 13
    child.click()
    page.until(lambda: len(page.live()) == 5, "they are gone again")
    page.command("rlm:runs")
    runs = page.page.locator("#rlm-runs")
    page.until(lambda: runs.get_by_text("Iteration 1").count(), "the run in the side panel")
    runs.get_by_text("Iteration 1").click()
    panel = runs.get_by_role("button", name="Child 1")
    page.until(lambda: panel.count() and "show cells" in panel.inner_text(), "the child in the side panel")
    panel.focus()
    page.page.keyboard.press("Enter")
    page.until(lambda: shown(page) == [*whole, ("code", 0), ("answer", 0)], "the cells of a child that is over")
    assert "child sees Read the part" in texts(page.live("code")[1])
    page.picture("child-over", 400)
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")

    # they are the run's cells: they go with it, and come back with it
    page.command("rlm:remove", on="user-2")
    page.until(lambda: not page.live(), "no live cell")
    page.command("notebook:undo-cell-action")
    page.until(lambda: shown(page) == [*whole, ("code", 0), ("answer", 0)], "all of them again")
    assert not page.errors
