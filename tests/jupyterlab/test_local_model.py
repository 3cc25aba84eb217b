"""Live cells of a real model, by hand: `LLAMACPP_BASE_URL=http://127.0.0.1:8080 pytest -m local_model`."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.jupyterlab.lab import NotebookPage, Window, running_lab

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(1200)]


def test_cells_come_while_it_thinks(local_model: str, browser: Browser, pictures: Path, tmp_path: Path) -> None:
    ask = f"%%rlm -m {local_model} -c text --max-iterations 6\nHow many lines have the word ERROR in them?"
    with running_lab(tmp_path / "lab", "http://127.0.0.1:9/v1") as lab:
        window = Window(browser, lab, pictures)
        page = NotebookPage(
            window, lab.write("real.ipynb", ["%load_ext rlm_jupyter", "text = 'fine\\nERROR\\n' * 900", ask])
        )
        page.open()
        page.run("user-0")
        page.until(lambda: page.cells()[0]["execution_count"], "the extension is loaded")
        page.run("user-1")
        page.run("user-2")
        page.until(lambda: page.live("code") or page.live("prose"), "the first of its cells", 900)
        assert page.cells()[2]["execution_count"] is None  # the cell that asked has not ended
        page.picture("while", 500)
        page.until(lambda: page.cells()[2]["execution_count"], "the end of the run", 900)
        page.picture("after", 500)
        assert page.live()
        assert page.page.locator(".rlm-bar:not([data-rlm-outcome=''])").count()
        assert not page.errors
        page.command("docmanager:save")
        nbformat.validate(nbformat.read(page.path, as_version=4))
        page.close()
        window.close()
