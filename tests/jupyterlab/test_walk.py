"""A newcomer's first hour: the wheel in an environment of its own, and all that the quick start leads to.

Started by hand, since it installs: `RLM_PICTURES=DIR pytest -m soak tests/jupyterlab/test_walk.py`; then every picture is to
be looked at. `RLM_LAB_PYTHON` names an environment that has the wheel already.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator

from tests.jupyterlab.conftest import Waiting, check_ready
from tests.jupyterlab.lab import Lab, NotebookPage, Window, running_lab, texts

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

CHECKOUT = Path(__file__).parents[2]
SLOW = """I read all of it, page by page.
```repl
import time

answer["content"] = "It is long."
for page in range(1, 400):
    print("page", page, flush=True)
    time.sleep(0.1)
```"""
LOOK = "I look at the beginning.\n```repl\nprint(len(context), context[:60])\n```"
AGAIN = "I look at the end.\n```repl\nprint(context[-60:])\n```"
WRONG = "I throw all of it away.\n```repl\nimport shutil\nshutil.rmtree('.')\n```"
FINAL = "It is known.\n```repl\nFINAL(f'{len(context):,} characters')\n```"
CHANGE = """I sort your list, as it is in this notebook.
```repl
basket.sort()
basket.append('plum')
basket
```"""
CHANGED = "```repl\nFINAL(basket)\n```"
EARLY = """() => { window.early = {}; const content = window.jupyterapp.shell.currentWidget.content;
    content.model.cells.changed.connect(cells => { for (const cell of cells) {
        const parent = cell.getMetadata('rlm')?.parent;
        if (parent && !(parent in window.early)) {
            const asked = Array.from(cells).find(other => other.id === parent);
            window.early[parent] = asked.sharedModel.executionState === 'running';
        } } }); }"""
"""Note of each cell that asks whether it was still running when the first of its live cells was there."""


def build(folder: Path) -> Path:
    """An environment outside of the checkout, with JupyterLab and the wheel; its Python."""
    options = ["--wheel", "--no-isolation", "-o", str(folder), str(CHECKOUT)]
    subprocess.run([sys.executable, "-m", "build", *options], check=True)
    [wheel] = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", "jupyterlab", str(wheel)], check=True)
    return python


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("RLM_LAB_PYTHON")
    return Path(named) if named else build(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def walked(python: Path, model: Waiting, tmp_path: Path) -> Iterator[Lab]:
    check_ready()
    with running_lab(tmp_path / "lab", model.openai_url, installed=python) as lab:
        shutil.copy(CHECKOUT / "notebooks" / "quickstart.ipynb", lab.folder)
        yield lab


class Walk(NotebookPage):
    """What a person does with mouse and keys, and a picture of each step."""

    def __init__(self, window: Window, path: Path) -> None:
        super().__init__(window, path)
        self._steps = 0

    def step(self, name: str) -> None:
        self._steps += 1
        self.picture(f"walk-{self._steps:02d}-{name}", 500)

    @property
    def panel(self) -> Locator:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    @property
    def bar(self) -> Locator:
        """That of the newest run."""
        return self.panel.locator(".rlm-bar").last

    @property
    def proposal(self) -> Locator:
        """Below the cell that waits for approval."""
        return self.panel.locator(".rlm-proposal")

    def in_front(self) -> str:
        """The path of what is in front."""
        return str(self.page.evaluate("window.jupyterapp.shell.currentWidget?.context?.path ?? ''"))

    def turn_to(self, title: str) -> None:
        """Click on a tab."""
        self.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=title).first.click()

    def show(self, cell_id: str) -> None:
        """Scroll to a cell."""
        self.page.evaluate(
            """id => { const notebook = window.jupyterapp.shell.currentWidget.content;
            return notebook.scrollToItem(notebook.widgets.findIndex(w => w.model.id === id), 'start'); }""",
            cell_id,
        )

    def write(self, source: str) -> str:
        """A new cell at the end, typed and run with Shift+Enter; its id."""
        self.page.evaluate(
            """() => { const notebook = window.jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = notebook.widgets.length - 1; notebook.mode = 'command'; notebook.node.focus(); }"""
        )
        last = self.cells()[-1]
        if last["source"] or last["cell_type"] != "code":
            self.command("notebook:insert-cell-below")
        cell_id = str(self.cells()[-1]["id"])
        self.show(cell_id)
        self.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.mode = 'edit'; }")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Shift+Enter")
        return cell_id

    def one(self, cell_id: str) -> dict[str, Any]:
        [cell] = [cell for cell in self.cells() if cell["id"] == cell_id]
        return cell

    def done(self, cell_id: str) -> dict[str, Any]:
        """The cell, once it was executed."""
        self.until(lambda: self.one(cell_id)["execution_count"], f"the end of {cell_id}", 120)
        return self.one(cell_id)

    def of(self, cell_id: str, role: str) -> list[dict[str, Any]]:
        """The live cells below a cell that asks."""
        return [cell for cell in self.live(role) if cell["metadata"]["rlm"]["parent"] == cell_id]

    def proposed(self, cell_id: str, count: int) -> dict[str, Any]:
        """The n-th cell of the model, once it waits for approval."""
        waits = lambda: self.of(cell_id, "code")[count - 1]["metadata"]["rlm"]["status"] == "proposed"  # noqa: E731
        self.until(lambda: waits() and self.proposal.count(), f"cell {count} waits")
        return self.of(cell_id, "code")[count - 1]

    def theme(self, name: str) -> None:
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        self.until(lambda: self.page.locator(f"body[data-jp-theme-name='{name}']").count(), f"the theme {name}")
        self.until(lambda: not self.page.locator("#jupyterlab-splash").count(), "the splash screen is gone")


def test_a_newcomers_walk(walked: Lab, browser: Browser, model: Waiting, pictures: Path, python: Path) -> None:
    with contextlib.closing(Window(browser, walked, pictures)) as window:
        walk = Walk(window, walked.folder / "quickstart.ipynb")
        walk.page.set_viewport_size({"width": 1280, "height": 960})
        walk.page.get_by_text("RLM (Python)").first.wait_for()
        walk.step("launcher")
        walk.page.locator(".jp-DirListing-item[title*='quickstart']").dblclick()
        walk.until_ready()
        walk.step("quickstart-opened")
        quick_start(walk)
        stop(walk, model)
        approve(walk, model)
        run_here(walk, model)
        export(walk, python)
        reopen(walk)
        prompts(walk)
        assert not walk.errors
        assert not walk.complaints


def quick_start(walk: Walk) -> None:
    """Its cells, one after another."""
    walk.page.evaluate(EARLY)
    walk.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    asking = []
    for cell in walk.cells():
        walk.page.keyboard.press("Shift+Enter")
        if cell["cell_type"] != "code":
            continue
        if "rlm_result.ask" in cell["source"] or "%%rlm" in cell["source"]:
            asking.append(cell["id"])
            walk.until(lambda: walk.of(asking[-1], "code"), "a live cell")
            walk.step(f"quickstart-under-way-{len(asking)}")
        ran = walk.done(cell["id"])
        assert not [output for output in ran["outputs"] if output["output_type"] == "error"]
    assert walk.page.evaluate("window.early") == dict.fromkeys(asking, True)
    walk.show(asking[0])
    walk.step("quickstart-answered")
    walk.show("quickstart-13")
    walk.step("quickstart-end")


def stop(walk: Walk, model: Waiting) -> None:
    """A run that takes too long is stopped, and what it had is there."""
    model.play([SLOW], opened=1)
    asked = walk.write("%%rlm -m openai/any -c reference\nHow long is all of it?")
    walk.until(lambda: "page 5" in texts(walk.of(asked, "code")[0]), "it is under way")
    walk.show(asked)
    walk.step("stop-under-way")
    walk.bar.get_by_role("button", name="Stop").click()
    walk.until(lambda: walk.bar.get_attribute("data-rlm-outcome") == "cancelled", "it is stopped")
    said = texts(walk.done(asked))
    assert said.startswith("Stopped")
    assert said.endswith("It is long.")
    walk.show(asked)
    walk.step("stopped")


def approve(walk: Walk, model: Waiting) -> None:
    """Of the model's cells, one is approved, one edited, and one refused."""
    model.play([LOOK, AGAIN, WRONG, FINAL], opened=4)
    asked = walk.write("%%rlm -m openai/any -c reference --approve\nHow long is it?")
    walk.proposed(asked, 1)
    walk.show(asked)
    walk.step("approve-asks")
    walk.theme("JupyterLab Dark")
    walk.step("approve-asks-dark")
    walk.bar.get_by_role("button", name="Run:").click()
    second = walk.proposed(asked, 2)
    walk.cell(second["id"]).locator(".cm-content").click()
    walk.page.keyboard.press("Control+Home")
    walk.page.keyboard.type("print('mine first')\n")
    walk.step("approve-edited-dark")
    walk.proposal.get_by_role("button", name="Run:").click()
    third = walk.proposed(asked, 3)
    assert "mine first" in texts(walk.of(asked, "code")[1])
    walk.bar.get_by_title("Go to the cell that waits").click()
    walk.until(lambda: walk.proposal.is_visible(), "the cell that waits")
    walk.proposal.get_by_role("button", name="Refuse").click()
    dialog = walk.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("Delete nothing, only count.")
    walk.step("approve-refuse-dark")
    dialog.get_by_role("button", name="Refuse").click()
    walk.proposed(asked, 4)
    assert walk.one(third["id"])["metadata"]["rlm"]["status"] == "skipped"
    assert "Delete nothing, only count." in json.dumps(model.requests[-1].body)
    walk.show(walk.of(asked, "code")[3]["id"])
    walk.step("approve-refused-dark")
    walk.proposal.get_by_role("button", name="Run:").click()
    walk.done(asked)
    walk.until(lambda: walk.proposal.count() == 0, "nothing waits any more")
    walk.show(asked)
    walk.step("approved-dark")
    walk.theme("JupyterLab Light")


def run_here(walk: Walk, model: Waiting) -> None:
    """The model changes a variable of the notebook's."""
    model.play([CHANGE, CHANGED], opened=2)
    walk.done(walk.write("basket = ['pear', 'apple', 'fig']"))
    asked = walk.write("%%rlm -m openai/any --here\nSort my basket, and add a plum.")
    walk.done(asked)
    looked = walk.write("basket")
    assert texts(walk.done(looked)) == "['apple', 'fig', 'pear', 'plum']"
    walk.show(asked)
    walk.step("here")


def export(walk: Walk, python: Path) -> None:
    """A run as a file that can be sent, by the side panel and by the command line."""
    walk.command("rlm:runs")
    runs = walk.page.locator("#rlm-runs")
    walk.until(lambda: runs.get_by_role("button", name="Export HTML").count(), "the runs")
    walk.step("runs")
    for form in ("ipynb", "HTML", "JSONL"):
        runs.get_by_role("button", name=f"Export {form}").first.click()
        ends = f"plum{'-export' if form == 'ipynb' else ''}.{form.lower()}"
        walk.until(lambda ends=ends: walk.in_front().endswith(ends), f"the run as {form} is opened", 90)  # type: ignore[misc]
        walk.step(f"export-{form}")
        walk.turn_to("quickstart.ipynb")
    page = next(walk.path.parent.glob("*plum.html"))
    with contextlib.closing(walk.page.context.new_page()) as reader:
        reader.goto(page.as_uri())
        assert "Sort my basket" in reader.inner_text("body")
        if "RLM_PICTURES" in os.environ:
            reader.screenshot(path=walk.window.pictures / "walk-export-page.png")
    [record] = (walk.path.parent / "rlm_runs").glob("*how-long-is-it.ipynb")
    options = ["rlm", "export", str(record), "--to", "html", "--output", "sent.html"]
    subprocess.run([str(python.parent / "jupyter"), *options], cwd=walk.path.parent, check=True)
    assert "465,126 characters" in (walk.path.parent / "sent.html").read_text("utf-8")


def reopen(walk: Walk) -> None:
    """It is saved, closed with its kernel, and opened again: the runs are there, and can be exported."""
    before = len(walk.live())
    walk.command("docmanager:save")
    walk.until(
        lambda: not walk.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty"), "it is saved"
    )
    walk.close()
    walk.page.locator(".jp-DirListing-item[title*='quickstart']").dblclick()
    walk.until_ready()
    runs = walk.page.locator("#rlm-runs")
    walk.until(lambda: "Answered · 2 iterations" in runs.inner_text(), "the saved runs")
    walk.step("reopened")
    assert len(walk.live()) == before
    [old] = walk.path.parent.glob("*plum.jsonl")
    old.unlink()
    runs.get_by_role("button", name="Export JSONL").first.click()
    walk.until(lambda: walk.in_front().endswith("plum.jsonl"), "the saved run is exported")
    walk.step("reopened-exported")
    walk.page.evaluate("window.jupyterapp.shell.collapseRight()")


def prompts(walk: Walk) -> None:
    """The kernel of prompts, from the Launcher."""
    walk.page.evaluate("window.jupyterapp.commands.execute('launcher:create').then(() => 0)")
    walk.page.locator(".jp-LauncherCard:visible", has_text="RLM (Python)").first.click()
    walk.page.wait_for_function(
        "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000
    )
    says = {
        "What is here?": "There is no context to look into.",
        "%%python\nbasket = ['pear', 'apple']\nlen(basket)": "2",
        "%context sent.html": "context: str",
        "Which characters?": "Picked by word matching",
        "%%python\ntype(context).__name__, basket": "('str', ['pear', 'apple'])",
        "%model": "model extractive/bm25",
        "%limits max_cost=0.5": "max_cost=0.5",
        "%model openai/any --price openai/any=1,2": "model openai/any",
        "%help": "%context PATH",
    }
    for source, expected in says.items():
        cell_id = walk.write(source)
        assert expected in texts(walk.done(cell_id)), source
        if source.startswith(("What", "Which", "%help")):
            walk.step("prompts-" + re.sub("[^a-z]+", "", source.lower()))
