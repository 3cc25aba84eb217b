"""Several runs of a question in a real JupyterLab: one as live cells, the others folded above them."""

from __future__ import annotations

import re

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun --samples 3\nHow does it begin?"
LOOK = "A look.\n```repl\nprint('it has', len(context), 'characters')\n```"
FINAL = "```repl\nFINAL(context[:4])\n```"


def roles(page: NotebookPage) -> list[tuple[str, int]]:
    """Role and depth of the live cells, in order."""
    marks = [cell["metadata"]["rlm"] for cell in page.live()]
    return [(mark["role"], mark.get("depth", 0)) for mark in marks]


def test_the_other_samples_stand_folded_above_the_cells_of_the_first(opened: Open, model: Waiting) -> None:
    model.play_turns([LOOK, FINAL])
    page = opened("text = 'long text ' * 10", ASK, "'own'")
    page.run("user-1")
    page.run("user-2")
    asked = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-asked")
    second = asked.get_by_role("button", name="Sample 2")
    page.until(second.count, "the second sample")
    page.until(lambda: ("code", 0) in roles(page), "the first one's cell")
    assert roles(page)[0] == ("subcalls", 0)
    page.until(lambda: asked.get_by_role("button", name="Sample 3").count(), "the third")
    page.until(lambda: "iteration 2" in second.inner_text(), "what it is at")
    assert re.match(r"Sample 2: iteration 2 · running", second.inner_text())
    assert [button.inner_text()[:8] for button in asked.get_by_role("button").all()] == ["Sample 2", "Sample 3"]
    page.picture("samples-running")

    second.click()
    page.until(lambda: ("code", 1) in roles(page), "its own cells")
    assert roles(page)[:3] == [("subcalls", 0), ("prose", 1), ("code", 1)]
    page.picture("samples-open", 400)

    model.let(3)
    page.until(lambda: ("answer", 0) in roles(page), "the answer")
    assert "other sample" in str(page.live()[0]["source"])
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    assert "samples agree" in texts(page.cells()[2])
    page.picture("samples-answered", 400)
    assert page.errors == []
