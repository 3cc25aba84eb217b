"""Live cells wherever a notebook is used: several views, several runs, other windowing, scrolled, typed in, reopened."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.jupyterlab.conftest import WINDOWING, Open, Waiting
from tests.jupyterlab.lab import NotebookPage, Window, texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
# a reply that only repeats the one before it would not be run
LOOK, AGAIN, ONCE_MORE = (f"I look: {n}.\n```repl\nprint(len(context) + {n})\n```" for n in range(3))
FINAL = "It is known.\n```repl\nFINAL('known')\n```"
SLOW = "Now I wait.\n```repl\nimport time\nfor i in range(400):\n    print('tick', i)\n    time.sleep(0.1)\n```"
TALL = ["A line.\n\n" * 12 + f"```repl\nprint(*range({n}), sep='\\n')\n```" for n in range(12, 15)]

VIEWS = """path => Array.from(window.jupyterapp.shell.widgets('main')).filter(w => w.context?.path === path).map(panel => ({
    live: panel.content.widgets.filter(w => w.node.classList.contains('rlm-live')).map(w => w.model.id),
    cells: panel.content.widgets.map(w => w.model.id),
    unrendered: panel.content.widgets.filter(w => w.model.type === 'markdown' && !w.rendered).length,
    status: panel.content.widgets.map(w => w.node.dataset.rlmStatus).filter(Boolean),
    bars: Array.from(panel.node.querySelectorAll('.rlm-bar'), bar => bar.dataset.rlmPhase),
}))"""


def views(page: NotebookPage) -> list[dict[str, Any]]:
    """What each view of the notebook shows."""
    seen: list[dict[str, Any]] = page.page.evaluate(VIEWS, page.path.name)
    return seen


def roles(page: NotebookPage, parent: str | None = None) -> list[str]:
    marks = [cell["metadata"]["rlm"] for cell in page.live()]
    return [mark["role"] for mark in marks if parent in (None, mark["parent"])]


def ended(page: NotebookPage, cell_id: str) -> bool:
    """Whether a cell has been executed."""
    [cell] = [cell for cell in page.cells() if cell["id"] == cell_id]
    return bool(cell["execution_count"])


def test_all_views_of_a_notebook_show_a_run(opened: Open, model: Waiting) -> None:
    model.play([LOOK, AGAIN, FINAL], opened=1)
    page = opened("text = 'x' * 12", ASK)
    page.run("user-1")
    page.command("docmanager:clone")
    page.until(lambda: len(views(page)) == 2, "two views")
    page.page.locator(".jp-NotebookPanel").last.locator(".jp-Cell .cm-content").nth(2).click()
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "an executed cell")
    first, second = page.until(lambda: both if (both := views(page))[0]["live"] == both[1]["live"] else None, "both")
    assert first == second
    assert len(first["live"]) == 3
    assert first["bars"] == ["writing"]
    assert first["unrendered"] == 0
    # a view that is opened later, and the one that was the first is closed
    page.command("docmanager:clone")
    page.until(lambda: len(views(page)) == 3 and views(page)[2]["bars"], "a third view, with a bar")
    page.page.evaluate(
        "path => Array.from(window.jupyterapp.shell.widgets('main')).find(w => w.context?.path === path).close()",
        page.path.name,
    )
    page.until(lambda: len(views(page)) == 2, "two are left")
    model.let()
    page.until(
        lambda: roles(page) == ["prose", "code"] * 2 and page.live("code")[1]["metadata"]["rlm"].get("count"),
        "more of it",
    )
    page.until(lambda: views(page)[0] == views(page)[1], "both show the same")
    model.let()
    page.until(lambda: page.live("answer") and ended(page, "user-2"), "the end")
    page.until(lambda: views(page)[0] == views(page)[1], "both show the end")
    last = page.until_still(lambda: views(page))
    assert last[0] == last[1]
    assert last[0]["bars"] == ["ended"]
    assert len(last[0]["live"]) == len(set(last[0]["live"])) == 9
    page.page.evaluate(
        "path => Array.from(window.jupyterapp.shell.widgets('main')).find(w => w.context?.path === path).close()",
        page.path.name,
    )
    # what is left still hears the kernel, and is heard
    page.until(lambda: len(views(page)) == 1, "one is left")
    model.play([LOOK, FINAL], opened=1)
    page.run("user-2")
    page.until(lambda: page.live("code") and page.live()[0]["id"] not in last[0]["live"], "cells of another run")
    page.page.locator(".rlm-bar").get_by_role("button", name="Stop").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cancelled']").count(), "it is stopped")
    assert not page.errors
    assert not page.complaints


def test_two_cells_that_ask_have_cells_of_their_own(opened: Open, model: Waiting) -> None:
    model.play([LOOK, FINAL, LOOK, FINAL], opened=1)
    page = opened("text = 'x' * 12", ASK, ASK.replace("How", "Now how"), "own = 'cell'")
    for cell_id in ("user-1", "user-2", "user-3"):
        page.run(cell_id)
    page.until(lambda: roles(page) == ["prose", "code"], "the first run")
    assert not roles(page, "user-3")
    model.let(2)
    page.until(lambda: roles(page, "user-3") == ["prose", "code"], "the second run")
    assert roles(page, "user-2") == ["prose", "code", "prose", "code", "answer"]
    order = [cell["id"] for cell in page.cells()]
    assert order.index("user-3") == 10
    assert order[-1] == "user-4"
    model.let()
    page.until(lambda: ended(page, "user-3") and roles(page, "user-3")[-1:] == ["answer"], "the end of the second")
    others = [cell["id"] for cell in page.live() if cell["metadata"]["rlm"]["parent"] == "user-3"]
    model.play([LOOK, FINAL], opened=2)
    page.run("user-2")
    page.until(
        lambda: roles(page, "user-2") == ["prose", "code"] * 2 + ["answer"] and ended(page, "user-2"),
        "the first asks again",
    )
    assert [cell["id"] for cell in page.live() if cell["metadata"]["rlm"]["parent"] == "user-3"] == others

    # side by side, each below its own cell
    page.page.evaluate(
        """() => { const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
        for (const cell of cells.filter(cell => cell.getId().startsWith('user-') && cell.getSource().startsWith('%%rlm')))
            cell.setSource(cell.getSource().replace('--rerun', `--rerun --background -o ${cell.getId().replace('-', '_')}`)); }"""
    )
    model.play([LOOK, AGAIN, FINAL, FINAL])
    asked = len(model.requests)
    page.run("user-2")
    page.run("user-3")
    page.until(lambda: views(page)[0]["bars"] == ["writing", "writing"], "two runs at a time")
    page.until(lambda: len(model.requests) == asked + 2, "that each waits for a reply")
    model.let(2)
    page.until(lambda: roles(page, "user-2") == roles(page, "user-3") == ["prose", "code"], "cells of both")
    model.let(2)
    page.until(lambda: len(page.live("answer")) == 2, "both answers")
    assert not page.errors


@pytest.fixture(
    params=["full", *(pytest.param(mode, marks=pytest.mark.soak) for mode in ("defer", "none", "contentVisibility"))]
)
def _windowed(window: Window, request: pytest.FixtureRequest) -> Iterator[None]:
    """How Lab leaves out what is not in view, for notebooks that are opened from now on."""
    window.set(*WINDOWING, request.param)
    yield
    window.set(*WINDOWING, None)


@pytest.mark.usefixtures("_windowed")
def test_cells_out_of_view_are_whole(opened: Open, model: Waiting) -> None:
    model.play([LOOK, *TALL[:2], FINAL], opened=1)
    page = opened("text = 'x' * 12", ASK, *(f"own = {place}" for place in range(100)))
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("code") and page.live("code")[0]["metadata"]["rlm"].get("count"), "an executed cell")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.content.scrollToItem(95, 'end')")
    expect(page.cell("user-97")).to_be_in_viewport(timeout=30_000)
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    model.let(2)
    page.until(
        lambda: len([c for c in page.live("code") if c["metadata"]["rlm"].get("count")]) == 3, "cells that nobody sees"
    )
    page.page.evaluate("window.jupyterapp.shell.currentWidget.content.scrollToItem(2, 'start')")
    page.until(lambda: bar.count() == 1 and bar.is_visible(), "the bar is there again")
    below = "bar => bar.previousElementSibling !== null && bar.getBoundingClientRect().top > 0"
    assert bar.evaluate(below)
    for cell in page.live():
        place = [other["id"] for other in page.cells()].index(cell["id"])
        page.page.evaluate("at => window.jupyterapp.shell.currentWidget.content.scrollToItem(at, 'center')", place)
        shown = page.cell(cell["id"])
        what = texts(cell).strip().splitlines()[-1] if cell["cell_type"] == "code" else cell["source"].split("\n")[0]
        expect(shown).to_contain_text(what, timeout=30_000)
    model.let()
    page.until(lambda: page.live("answer"), "the answer")
    assert bar.count() <= 1
    assert not page.errors
    assert not page.complaints


def test_a_reader_is_left_alone_while_cells_land(opened: Open, model: Waiting) -> None:
    model.play([*TALL, FINAL])
    page = opened(
        "text = 'x' * 12", *(f"own = {place}" for place in range(12)), ASK, *(f"own = {place}" for place in range(30))
    )
    page.run("user-1")
    page.run("user-14")
    page.until(lambda: views(page)[0]["bars"], "the run has begun")

    def place_of(cell_id: str) -> float:
        """Where a cell stands in the window, in pixels."""
        top: float = page.page.evaluate(
            """id => window.jupyterapp.shell.currentWidget.content.widgets.find(w => w.model.id === id)
            .node.getBoundingClientRect().top""",
            cell_id,
        )
        return top

    def scroll_to(cell_id: str) -> None:
        page.page.evaluate(
            """id => { const notebook = window.jupyterapp.shell.currentWidget.content;
            return notebook.scrollToItem(notebook.widgets.findIndex(w => w.model.id === id), 'start'); }""",
            cell_id,
        )

    def still_at(cell_id: str) -> float:
        """Where it stands once the page has come to rest."""
        place: float = page.until_still(lambda: place_of(cell_id))
        return place

    def land(count: int) -> None:
        model.let()
        page.until(
            lambda: len([c for c in page.live("code") if c["metadata"]["rlm"].get("count")]) == count, f"{count} cells"
        )

    # above: somebody writes below them
    mine = page.cell("user-25")
    scroll_to("user-22")
    mine.locator(".cm-content").click()
    page.page.keyboard.press("End")
    page.page.keyboard.type(" + 1")
    page.page.keyboard.press("ArrowLeft")
    before = still_at("user-25")
    model.let()
    page.page.keyboard.type("234567890", delay=120)
    land(2)
    page.page.keyboard.type("0")
    [typed] = [cell["source"] for cell in page.cells() if cell["id"] == "user-25"]
    assert typed == "own = 10 + 23456789001"
    assert abs(still_at("user-25") - before) <= 3

    # below: somebody reads above them, a cell being selected
    page.page.keyboard.press("Escape")
    scroll_to("user-2")
    page.select("user-3")
    before = still_at("user-3")
    land(3)
    assert abs(still_at("user-3") - before) <= 3
    active = "window.jupyterapp.shell.currentWidget.content.activeCell.model.id"
    assert page.page.evaluate(active) == "user-3"
    assert page.page.evaluate("window.jupyterapp.shell.currentWidget.content.mode") == "command"

    # in view: somebody watches
    scroll_to("user-14")
    before = still_at("user-14")
    model.let()
    page.until(lambda: page.live("answer"), "the answer")
    assert abs(still_at("user-14") - before) <= 3
    assert page.page.evaluate(active) == "user-3"
    assert not page.errors


def test_a_notebook_that_is_closed_and_opened_again_finds_its_run(opened: Open, model: Waiting) -> None:
    model.play([LOOK, AGAIN, ONCE_MORE, FINAL], opened=1)
    page = opened("text = 'x' * 12\nimport os\nos.getpid()", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("code") and page.live("code")[0]["metadata"]["rlm"].get("count"), "an executed cell")
    kernel = int(texts(page.cells()[1]))
    page.command("docmanager:save")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    asked = len(model.requests)
    model.let()
    page.until(lambda: len(model.requests) > asked, "an iteration that nobody sees")
    page.open(busy=True)
    model.let()
    page.until(lambda: "I look: 2." in [c["source"] for c in page.live()] and views(page)[0]["bars"], "it is found")
    model.let()
    page.until(lambda: page.live("answer") and views(page)[0]["bars"] == ["ended"], "the answer")
    # what was told while it was closed comes once the kernel can hear that it is missing
    shown = ["12\n", "13\n", "14\n", ""]
    page.until(lambda: [texts(cell) for cell in page.live("code")] == shown, "all of it")
    assert len({cell["id"] for cell in page.live()}) == len(page.live()) == 9
    assert [cell["metadata"]["rlm"]["iteration"] for cell in page.live()] == [1, 1, 2, 2, 3, 3, 4, 4, 4]

    # a kernel that is killed leaves no cell running, and the next one does its work
    model.play([SLOW], opened=1)
    page.run("user-2")
    page.until(lambda: "tick 3" in texts(page.live("code")[0]), "a growing output")
    os.kill(kernel, signal.SIGKILL)
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cut']").count(), "the run is cut off")
    page.until(lambda: [cell["metadata"]["rlm"]["status"] for cell in page.live()] == ["ok", "died"], "no cell runs")
    page.page.get_by_role("dialog").get_by_role("button").last.click()
    status = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    page.until(lambda: page.page.evaluate(status) == "idle", "another kernel")
    model.play([LOOK, FINAL], opened=2)
    for cell_id in ("user-0", "user-1", "user-2"):
        page.run(cell_id)
    page.until(lambda: page.live("answer") and views(page)[0]["bars"] == ["ended"], "the next run")
    assert roles(page) == ["prose", "code"] * 2 + ["answer"]
    assert not page.errors
