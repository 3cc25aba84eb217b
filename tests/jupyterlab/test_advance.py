"""A person who goes through a notebook with Shift+Enter, past cells that have live cells from the last time."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage

pytestmark = pytest.mark.slow

LOOK = "I look.\n```repl\nprint(len(context))\n```"
FINAL = "It is known.\n```repl\nFINAL('ten')\n```"


def active(page: NotebookPage) -> str:
    """The id of the active cell."""
    return str(page.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCell.model.id"))


def is_focused(page: NotebookPage) -> bool:
    """Whether what is typed goes to the notebook."""
    return bool(
        page.page.evaluate("window.jupyterapp.shell.currentWidget.content.node.contains(document.activeElement)")
    )


@pytest.mark.parametrize("options", ["", "--rerun", "--here"])
def test_shift_enter_goes_on_to_a_persons_next_cell_also_when_the_question_is_asked_again(
    opened: Open, model: Waiting, options: str
) -> None:
    model.play([LOOK, FINAL] * 2, opened=4)
    page = opened("context = 'x' * 10", f"%%rlm -m openai/any {options}\nHow long, by {options}?", "mine = 1", "'last'")
    page.run("user-1")
    page.until(lambda: page.cells()[1]["execution_count"], "the text")
    for _ in range(2):
        before, asked, own = [cell["id"] for cell in page.live()], _number(page, "user-2"), _number(page, "user-3")
        page.cell("user-2").locator(".cm-content").click()
        page.page.keyboard.press("Shift+Enter")
        page.page.wait_for_timeout(50)
        assert active(page) == "user-3"
        page.until(lambda: page.live("answer"), "the answer")
        page.until(lambda: [cell["id"] for cell in page.live()] != before, "its cells")  # noqa: B023
        page.until(lambda: _number(page, "user-2") > asked, "the end of it")  # noqa: B023
        page.until_still(lambda: page.cells())
        assert active(page) == "user-3"
        assert is_focused(page)
        page.page.keyboard.press("Shift+Enter")
        page.until(lambda: _number(page, "user-3") > own, "the next cell")  # noqa: B023
        assert active(page) == "user-4"
    assert len(page.live("answer")) == 1
    assert not page.errors


def test_shift_enter_at_the_end_of_a_notebook_adds_a_cell_below_the_live_ones(opened: Open, model: Waiting) -> None:
    model.play([LOOK, FINAL] * 2, opened=4)
    page = opened("context = 'x' * 10", "%%rlm -m openai/any --rerun -c context\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    page.cell("user-2").locator(".cm-content").click()
    page.page.keyboard.press("Shift+Enter")
    page.until(lambda: _number(page, "user-2") > 3 and page.live("answer"), "the end of it")
    page.until_still(lambda: page.cells())
    assert not page.cells()[-1]["source"]
    assert active(page) == page.cells()[-1]["id"]
    page.page.keyboard.type("1 + 1")
    page.until(lambda: page.cells()[-1]["source"] == "1 + 1", "what is typed")
    assert not page.errors


def test_shift_enter_on_a_cell_that_waits_goes_on_to_the_next_that_does(opened: Open, model: Waiting) -> None:
    steps = [f"Step {step}.\n```repl\nprint('step {step}')\n```" for step in range(2)]
    model.play([*steps, FINAL], opened=3)
    page = opened("context = 'x' * 10", "%%rlm --approve -m openai/any --rerun -c context\nDo it.", "mine = 1")
    page.run("user-1")
    page.run("user-2")
    strip = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-proposal")
    page.until(lambda: strip.count(), "a cell that waits")
    page.cell(page.live("code")[0]["id"]).locator(".cm-content").click()
    for step in range(3):
        page.until(lambda: strip.count() and active(page) == page.live("code")[step]["id"], "the next one")  # noqa: B023
        page.page.keyboard.press("Shift+Enter")
        page.until(lambda: page.live("code")[step]["metadata"]["rlm"].get("count"), "it ran")  # noqa: B023
    page.until(lambda: page.live("answer") and _number(page, "user-2"), "the answer")
    assert not _number(page, "user-3")
    assert is_focused(page)
    assert not page.errors


def _number(page: NotebookPage, cell_id: str) -> int:
    """The number of a cell; 0 while it has none."""
    [cell] = [cell for cell in page.cells() if cell["id"] == cell_id]
    return int(cell["execution_count"] or 0)
