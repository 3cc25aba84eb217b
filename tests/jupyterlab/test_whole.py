"""Cells are whole at the end of a run, though the server has dropped most of what told of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.jupyterlab.conftest import Open, Waiting, check_ready
from tests.jupyterlab.lab import Lab, NotebookPage, Window, running_lab, texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
STEPS = [
    f"Step {place}.\n```repl\nimport time\n"
    f"for n in range(8):\n    print('step {place}', n, flush=True)\n    time.sleep(0.07)\n"
    f"answers = llm_query_batched(['a{place}?', 'b{place}?'])\n```"
    for place in range(5)
]
FINAL = "It is known.\n```repl\nprint('the last of it')\nFINAL('do' + 'ne')\n```"


@contextlib.contextmanager
def strict_lab(model: Waiting, paths: pytest.TempPathFactory, per_second: int) -> Iterator[Lab]:
    """One whose server lets so many messages a second through, and drops the rest."""
    check_ready()
    config = paths.mktemp("strict")
    limits = {"ZMQChannelsWebsocketConnection": {"iopub_msg_rate_limit": per_second}}
    (config / "jupyter_server_config.json").write_text(json.dumps(limits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_PATH", str(config))
        with running_lab(paths.mktemp("lab"), model.openai_url) as lab:
            yield lab


@pytest.fixture(scope="module")
def lab(model: Waiting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with strict_lab(model, tmp_path_factory, 2) as lab:
        yield lab


@pytest.fixture(scope="module")
def window(browser: Browser, lab: Lab, pictures: Path) -> Iterator[Window]:
    with contextlib.closing(Window(browser, lab, pictures)) as window:
        yield window


def watch(page: NotebookPage) -> None:
    """Note which messages of runs reach the page, and when it knows of the end."""
    page.page.evaluate(
        """() => { window.numbers = [];
        window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.iopubMessage.connect((_, message) => {
          const seq = message.content.data?.seq;
          if (message.header.msg_type === 'comm_msg' && seq !== undefined) { window.numbers.push(seq); }
        }); }"""
    )


def note_what_stands_there(page: NotebookPage) -> None:
    """Note which live cells the notebook has when the page first says what the run came to."""
    page.page.evaluate(
        """() => { window.stood = null;
        const {content, node} = window.jupyterapp.shell.currentWidget;
        new MutationObserver(() => {
          if (window.stood === null && node.querySelector('.rlm-bar')?.dataset.rlmOutcome === 'answered') {
            window.stood = Array.from(content.model.cells, cell => cell.getMetadata('rlm')).filter(Boolean)
              .map(({role, status}) => `${role} ${status}`);
          }
        }).observe(node, {subtree: true, childList: true, attributes: true, attributeFilter: ['data-rlm-outcome']});
        }"""
    )


def of_the_run(lab: Lab) -> list[tuple[str, str]]:
    """Source and text of each code cell in the notebook of the newest run."""
    path = max((lab.folder / "rlm_runs").glob("*.ipynb"), key=lambda path: path.stat().st_mtime_ns)
    cells = nbformat.read(path, as_version=4).cells
    return [
        (cell.source, texts(cell)) for cell in cells if cell.cell_type == "code" and "iteration" in cell.metadata.rlm
    ]


def in_the_page(page: NotebookPage) -> list[tuple[str, str]]:
    return [(cell["source"], texts(cell)) for cell in page.live("code")]


@pytest.mark.parametrize("how", ["", pytest.param(" --background", marks=pytest.mark.soak)])
def test_every_cell_is_whole_though_most_messages_are_dropped(opened: Open, model: Waiting, lab: Lab, how: str) -> None:
    model.play([*STEPS, FINAL])
    page = opened("text = 'x' * 10", ASK.replace(" --rerun", f" --rerun{how}"))
    page.run("user-1")
    page.run("user-2")
    watch(page)
    note_what_stands_there(page)
    model.let(len(STEPS) + 1)
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: bar.get_attribute("data-rlm-outcome") == "answered", "the page knows of the end")
    page.until(lambda: page.live("answer"), "the answer")
    numbers: list[int] = page.page.evaluate("window.numbers")
    assert max(numbers) + 1 > 2 * len(set(numbers)), "nothing was dropped, so nothing is shown by this"

    run: Any = of_the_run(lab)
    assert len(run) == len(STEPS) + 1
    page.until(lambda: in_the_page(page) == run, "the cells are those of the run")
    assert [cell["metadata"]["rlm"]["status"] for cell in page.live()] == ["ok"] * len(page.live())
    assert all(cell["metadata"]["rlm"].get("count") for cell in page.live("code"))
    asked = [len(cell["metadata"]["rlm"]["calls"]) for cell in page.live("subcalls")]
    assert asked == [2] * len(STEPS)
    roles = [cell["metadata"]["rlm"]["role"] for cell in page.live()]
    roles = [role for role in roles if role != "notice"]
    assert roles == ["prose", "code", "subcalls"] * len(STEPS) + ["prose", "code", "answer"]
    # nobody reads of an answer while cells that led to it are missing
    marks = [cell["metadata"]["rlm"] for cell in page.cells() if "rlm" in cell["metadata"]]
    stood = [f"{mark['role']} {mark['status']}" for mark in marks]
    assert page.page.evaluate("window.stood") == stood
    assert not page.errors
