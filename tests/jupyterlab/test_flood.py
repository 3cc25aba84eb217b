"""Cells are whole at the end of a run, though ten thousand lines beside it have the server drop some of its messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import Lab, Window
from tests.jupyterlab.test_whole import ASK, FINAL, STEPS, in_the_page, of_the_run, strict_lab, watch

pytestmark = pytest.mark.soak

LINES = 10_000
FLOOD = f"""
import threading, time
text = 'x' * 10
def flood():
    time.sleep(2)
    for n in range({LINES}):
        print('flood', n, flush=True)
threading.Thread(target=flood).start()
"""


@pytest.fixture(scope="module")
def lab(model: Waiting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A flood has more messages than that."""
    with strict_lab(model, tmp_path_factory, 200) as lab:
        yield lab


@pytest.fixture(scope="module")
def window(browser: Browser, lab: Lab, pictures: Path) -> Iterator[Window]:
    with contextlib.closing(Window(browser, lab, pictures)) as window:
        yield window


def test_every_cell_is_whole_beside_a_flood(opened: Open, model: Waiting, lab: Lab) -> None:
    model.play([*STEPS, FINAL])
    page = opened(FLOOD, ASK)
    page.run("user-1")
    page.run("user-2")
    watch(page)
    model.let(len(STEPS) + 1)
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: bar.get_attribute("data-rlm-outcome") == "answered", "the page knows of the end", 60)
    page.until(lambda: page.live("answer"), "the answer")
    page.until(lambda: in_the_page(page) == of_the_run(lab), "the cells are those of the run")
    assert len(in_the_page(page)) == len(STEPS) + 1
    assert [cell["metadata"]["rlm"]["status"] for cell in page.live()] == ["ok"] * len(page.live())
    told = set(page.page.evaluate("window.numbers"))
    print(f"\nof {max(told) + 1} messages of the run {len(told)} came")
    assert len(told) <= max(told), "nothing was dropped, so nothing is shown by this"
    assert not page.errors
