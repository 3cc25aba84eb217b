"""Cells are whole at the end of a run, though the server has dropped half of ten thousand messages beside it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.lab.conftest import Open, Waiting, check_ready
from tests.lab.lab import Lab, Window, running_lab, texts
from tests.lab.test_whole import ASK, FINAL, STEPS, in_the_page, of_the_run, watch

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
    """One whose server lets fewer messages through than a flood has: 200 a second."""
    check_ready()
    config = tmp_path_factory.mktemp("strict")
    limits = {"ZMQChannelsWebsocketConnection": {"iopub_msg_rate_limit": 200}}
    (config / "jupyter_server_config.json").write_text(json.dumps(limits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_PATH", str(config))
        with running_lab(tmp_path_factory.mktemp("lab"), model.openai_url) as lab:
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
    page.page.wait_for_timeout(5000)
    shown = sum(
        texts(cell).count("flood ") for cell in page.cells() if cell["cell_type"] == "code" and cell.get("outputs")
    )
    told: list[int] = page.page.evaluate("window.numbers")
    print(
        f"\nof {LINES:,} lines beside the run {shown:,} are shown; of {max(told) + 1} messages of the run {len(set(told))} came"
    )
    assert shown < LINES / 2, "the server has not dropped half of them"
    assert not page.errors
