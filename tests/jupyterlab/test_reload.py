"""Pages that are loaded again while a run goes on."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import Window, texts
from tests.jupyterlab.test_cell_menu import choose
from tests.jupyterlab.test_live_cells import ASK, FINAL, LOOK, roles
from tests.support.loopback import Said

pytestmark = pytest.mark.slow

SLOW = (
    "I do part {0}.\n```repl\nimport time\nfor i in range(4):\n    print('step {0}', i)\n    time.sleep(0.7)\n"
    "print(llm_query('read {0}'))\n```"
)

FIRST_SEEN = """() => { window.rlmFirstSeen = [];
    const { cells } = window.jupyterapp.shell.currentWidget.content.model;
    const look = () => {
        const steps = Array.from(cells).map(cell => cell.getMetadata('rlm')?.iteration).filter(step => step > 0);
        if (steps.length && !window.rlmFirstSeen.length) window.rlmFirstSeen.push(Math.min(...steps));
    };
    look(); cells.changed.connect(look); }"""
"""Note of the first live cells that are seen which iteration the earliest of them is of."""


def test_a_page_that_is_reloaded_in_mid_run_shows_it_before_anything_new_happens(
    opened: Open, model: Waiting, window: Window
) -> None:
    go = window.lab.folder / "go"
    silent = f"```repl\nimport pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.05)\n```"
    model.play(["```repl\nprint('first')\n```", silent, "```repl\nFINAL('over')\n```"], opened=2)
    page = opened("text = 'x'", "%%rlm -m openai/any -c text --rerun --max-iterations 5\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"]["status"] == "running"], "a silent cell")
    page.command("docmanager:save")
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    clock = bar.locator(".rlm-bar-clock")
    page.until(lambda: int(clock.inner_text().removesuffix(" s")) >= 4, "some seconds")
    page.window.load()
    page.open(busy=True)
    # nothing is said by the run now: the page has asked, and the kernel, which is busy, has heard it
    page.until(lambda: "A cell runs · iteration 2 / 5" in bar.inner_text(), "what the run is at")
    page.until(lambda: not page.page.locator(".rlm-under-way:visible").count(), "that no line says so once more")
    assert int(clock.inner_text().removesuffix(" s")) >= 4  # the run's time, not the page's
    assert page.cell(page.live("code")[1]["id"]).locator(".jp-InputPrompt").inner_text() == "[*]:"
    page.picture("reloaded", 500)
    bar.get_by_role("button", name="Message").click()
    page.page.get_by_role("dialog").locator("input").fill("look there")
    page.page.get_by_role("dialog").get_by_role("button", name="Send").click()
    page.until(lambda: "Message received" in bar.inner_text(), "that it is heard")
    go.touch()
    model.let()
    page.until(lambda: "Answered" in bar.inner_text(), "the end")
    assert not page.page.locator(".rlm-under-way:visible").count()
    assert page.live("answer")
    page.picture("reloaded-over", 500)
    assert not page.errors


def test_a_notebook_that_was_saved_in_mid_run_says_so_and_leads_to_the_rest(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "```repl\nimport time\nwhile True:\n    time.sleep(0.1)\n```"], opened=2)
    page = opened("text = 'x'", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(
        lambda: [c for c in page.live("code")[1:] if c["metadata"]["rlm"]["status"] == "running"], "a cell that runs"
    )
    page.command("docmanager:save")
    page.close()
    page.page.evaluate("sessionStorage.clear()")
    page.open()
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: "Saved while it was going on" in bar.inner_text(), "what there is of it")
    cell = page.live("code")[1]
    assert "*" not in page.cell(cell["id"]).locator(".jp-InputPrompt").inner_text()
    page.picture("saved-in-mid-run", 300)
    front = "window.jupyterapp.shell.currentWidget.context.path"
    bar.get_by_role("button", name="Open Run").click()
    page.until(lambda: page.page.evaluate(front).startswith("rlm_runs/"), "the run's own notebook")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    # its cells lead there, too
    choose(page, cell["id"], "Open the Run's Own Notebook")
    page.until(lambda: page.page.evaluate(front).startswith("rlm_runs/"), "the run's own notebook")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    assert not page.errors


def test_a_run_that_goes_on_is_found_by_a_page_that_never_saw_it(opened: Open, model: Waiting, window: Window) -> None:
    model.play(["```repl\nprint('first')\n```", "```repl\nFINAL('over')\n```"], opened=1)
    page = opened("text = 'x'", "%%rlm -m openai/any -c text --approve\nHow long is it?", "'own'")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
    # the tab is closed, its cells not saved, and what it knew of its runs gone with it
    page.page.evaluate("window.sessionStorage.clear()")
    page.window.load()
    page.open(busy=True)
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "the cell that waits, in another tab")
    page.until(lambda: page.cell("user-2").locator(".jp-InputPrompt").inner_text() == "[*]:", "that it is executed")
    page.picture("found-again", 300)
    page.page.locator(".rlm-proposal").get_by_role("button", name="Run:").click()
    page.until(lambda: "first" in texts(page.live("code")[0]), "that it ran")
    model.let()
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "the next one")
    page.page.locator(".rlm-proposal").get_by_role("button", name="Run:").click()
    page.until(lambda: page.live("answer"), "the answer")
    page.until(lambda: "Answered" in page.cell("user-2").inner_text(), "the end of the cell that asked")
    page.until(lambda: page.cell("user-2").locator(".jp-InputPrompt").inner_text() == "[3]:", "its number")
    assert [cell["id"] for cell in page.cells() if cell["id"].startswith("user-")] == [f"user-{n}" for n in range(4)]
    assert page.cells()[-1]["id"] == "user-3"
    # found again once it is over, too
    page.page.evaluate("window.sessionStorage.clear()")
    page.window.load()
    page.open()
    page.until(lambda: page.live("answer"), "the answer, in a third tab")
    assert not page.errors


def test_a_run_that_is_found_replaces_the_one_that_was_saved(opened: Open, model: Waiting) -> None:
    final = "```repl\nFINAL('the earlier one')\n```"
    model.play([final, "```repl\nprint('later')\n```", "```repl\nFINAL('over')\n```"], opened=2)
    page = opened("text = 'x'", "%%rlm -m openai/any -c text --rerun\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the first answer")
    page.command("docmanager:save")
    page.run("user-2")
    page.until(lambda: "later" in texts(page.live("code")[0]), "the second run")
    page.page.evaluate("window.sessionStorage.clear()")
    page.window.load()
    page.open(busy=True)
    page.until(lambda: page.live("code") and "later" in texts(page.live("code")[0]), "the second run, found")
    assert not page.live("answer")
    asked = page.cell("user-2")
    page.until(lambda: asked.locator(".jp-InputPrompt").inner_text() == "[*]:", "that it is executed")
    assert "the earlier one" not in asked.inner_text()
    page.until(lambda: asked.locator(".rlm-bar").count() == 1, "the bar of that run alone")
    model.let()
    page.until(lambda: page.live("answer") and "over" in asked.inner_text(), "the second answer")
    assert asked.locator(".rlm-bar").count() == 1
    assert not page.errors


def test_a_page_that_is_reloaded_finds_its_run_again(opened: Open, model: Waiting) -> None:
    # a server listens to the kernel a moment later than the page is connected; what comes before is not heard
    slowly = Said("More.\n```repl\nprint('more')\n```", delay=0.15, pieces=20)
    model.play([LOOK, slowly, FINAL], opened=1)
    page = opened("text = 'x' * 10", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: "in flight" not in page.live("subcalls")[0]["source"], "the first iteration")
    page.command("docmanager:save")
    page.window.load()
    page.open(busy=True)
    page.until(lambda: len(page.live()) == 3, "the cells as they were saved")
    model.let()
    page.until(lambda: roles(page) == ["prose", "code", "subcalls", "prose", "code"], "the second iteration")
    page.until(lambda: "more" in texts(page.live("code")[1]), "its output")
    model.let()
    page.until(lambda: page.live("answer"), "the answer")
    assert len({cell["id"] for cell in page.live()}) == len(page.live()) == 8
    assert not page.errors


@pytest.mark.parametrize(("seconds", "is_saved"), [(1, True), (3, False)])
def test_a_page_that_is_reloaded_between_two_cells_puts_each_in_its_place(
    opened: Open, model: Waiting, window: Window, seconds: int, is_saved: bool
) -> None:
    model.play([*(SLOW.format(part) for part in range(1, 5)), "```repl\nFINAL('all **parts**')\n```"], opened=5)
    page = opened("text = 'x'", "%%rlm -m openai/any -c text --rerun\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: "step 2" in texts(page.live("code")[1]), "the second cell")
    page.page.wait_for_timeout(seconds * 1000)
    if is_saved:
        page.command("docmanager:save")
    window.reload()
    page.page.evaluate(FIRST_SEEN)
    page.until(lambda: page.cells()[2:] and page.cells()[2]["execution_count"], "the end")
    assert page.page.evaluate("window.rlmFirstSeen") == [1]  # the last steps alone would look like all there is
    page.until(lambda: page.live("answer"), "the answer")
    page.page.wait_for_timeout(500)
    seen = [(cell["metadata"]["rlm"]["iteration"], cell["metadata"]["rlm"]["role"]) for cell in page.live()]
    each = [(part, role) for part in range(1, 5) for role in ("prose", "code", "subcalls")]
    assert seen == [*each, (5, "code"), (5, "answer")]
    # the cell that asked, too, shows what it would have shown
    shown = page.cell("user-2").inner_text()
    assert "Answered" in shown
    assert "all parts" in shown
    page.picture("reloaded-between", 300)
    assert not page.errors


def test_a_kernel_that_was_restarted_is_sent_no_message_that_it_does_not_know(opened: Open, model: Waiting) -> None:
    model.play([LOOK, FINAL], opened=2)
    page = opened("text = 'x'", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the run's end")
    log = page.window.lab.folder.parent / "server.log"
    before = log.read_text()
    page.command("docmanager:save")
    kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    page.page.evaluate(f"{kernel}.restart().then(() => undefined)")
    page.window.reload()
    page.until_ready()
    page.page.evaluate(f"{kernel}.requestKernelInfo().then(() => undefined)")
    page.page.wait_for_timeout(3_000)  # in which a page that has heard nothing asks again
    assert "UNKNOWN CONTROL MESSAGE" not in log.read_text().removeprefix(before)
    assert not page.errors


def test_a_saved_notebook_of_a_run_that_is_over_is_not_changed_by_being_loaded(opened: Open, model: Waiting) -> None:
    draw = "```repl\nfrom IPython.display import HTML\ndisplay(HTML('<b>9</b>'))\nprint(1)\n```"
    model.play([draw, "```repl\nFINAL('over')\n```"], opened=2)
    page = opened("text = 'x'", "%%rlm -m openai/any -c text --rerun\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    page.until_still(lambda: page.cells())
    page.command("docmanager:save")
    page.window.reload()
    page.until_ready()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='answered']").count(), "the run, told once more")
    page.until_still(lambda: page.cells())
    assert not page.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert not page.errors
