"""Live cells in Notebook 7, which has one notebook in a page and fewer parts than JupyterLab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.jupyterlab.conftest import Waiting, check_ready
from tests.jupyterlab.lab import Lab, NotebookPage, Window, running_lab, texts

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("notebook") is None, reason="Notebook is not installed")]

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
LOOK = "I look.\n```repl\nprint(len(context))\n```"
SLOW = "Now I wait.\n```repl\nimport time\nfor i in range(400):\n    print('tick', i)\n    time.sleep(0.1)\n```"


@pytest.fixture
def notebook7(model: Waiting, tmp_path: Path) -> Iterator[Lab]:
    check_ready()
    with running_lab(tmp_path / "notebook", model.openai_url, "notebook") as running:
        yield running


def test_cells_appear_and_can_be_stopped(notebook7: Lab, browser: Browser, model: Waiting, pictures: Path) -> None:
    path = notebook7.write("x.ipynb", ["%load_ext rlm_jupyter", "text = 'x' * 12", ASK])
    with contextlib.closing(Window(browser, notebook7, pictures, f"notebooks/{path.name}")) as window:
        page = NotebookPage(window, path)
        page.until_ready()
        model.play([LOOK, SLOW], opened=1)
        for cell_id in ("user-0", "user-1", "user-2"):
            page.run(cell_id)
        code = page.until(
            lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "an executed cell"
        )[0]
        assert "12" in texts(code)
        assert page.cells()[2]["execution_count"] is None  # the run goes on
        bar = page.page.locator(".rlm-bar")
        page.until(lambda: "iteration 2 / 30" in bar.inner_text(), "the next iteration")
        page.command("rlm:runs")
        runs = page.page.locator("#rlm-runs")
        page.until(lambda: "Iteration 1" in (runs.text_content() or "") and runs.is_visible(), "the side panel")
        model.let()
        page.until(lambda: "tick 3" in texts(page.live("code")[1]), "a growing output")
        page.picture("notebook7")
        bar.get_by_role("button", name="Stop").click()
        page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cancelled']").count(), "the end of the run")
        assert page.live("code")[1]["metadata"]["rlm"]["status"] == "interrupted"
        page.command("docmanager:save")
        assert not page.errors, page.errors
