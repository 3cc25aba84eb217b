"""Live cells in a real JupyterLab: what a person sees while a run goes on, and what stays of it."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, cast

import nbformat
import pytest
from nbconvert import HTMLExporter

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, Window, texts
from tests.support.loopback import Said

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
LOOK = "## I look\n\nat the **text**.\n```repl\nprint(len(context))\nanswers = llm_query_batched(['one?', 'two?'])\n```"
SLOW = "Now I wait.\n```repl\nimport time\nfor i in range(400):\n    print('tick', i)\n    time.sleep(0.1)\n```"
HTML = (
    "```repl\nfrom IPython.display import HTML, Javascript, display\n"
    "display(HTML('<table><tr><td onclick=\"document.title=1\">cell</td></tr></table><script>document.title=2</script>'))\n"
    "display(Javascript('document.title = 3'))\n```"
)
FINAL = "It is known.\n```repl\nFINAL(f'it is **{len(context)}** long')\n```"


def roles(page: Any) -> list[str]:
    return [cell["metadata"]["rlm"]["role"] for cell in page.live()]


def counts(page: Any) -> dict[str, int | None]:
    """The number of each live cell, once it has one."""
    return {cell["id"]: cell["metadata"]["rlm"].get("count") for cell in page.live("code")}


def is_written(page: Any) -> bool:
    """Whether all cells of the run stand there; the bar of the run before it, if there was one, is gone by then."""
    bars = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    return bool(bars.count() == 1 and bars.get_attribute("data-rlm-outcome") == "answered")


def test_cells_are_there_while_the_run_goes_on(opened: Open, model: Waiting) -> None:
    model.play([LOOK, HTML, Said(FINAL, delay=0.1, pieces=60)], opened=1)
    page = opened("text = 'x' * 1234", ASK, "own = 'cell'")
    page.run("user-1")
    page.run("user-2")
    # the model's second reply is held back: the run can't have ended
    code = page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "an executed cell")[
        0
    ]
    assert "1234" in texts(code)
    assert page.cells()[2]["execution_count"] is None
    page.until(lambda: roles(page) == ["prose", "code", "subcalls"], "all cells of the iteration")
    assert page.live()[0]["source"] == "**I look**\n\nat the **text**."
    page.until(lambda: "2 sub-calls" in page.live("subcalls")[0]["source"], "the sub-calls")
    page.until(lambda: "in flight" not in page.live("subcalls")[0]["source"], "that both are answered")
    # in the order in which they were answered
    assert {call["prompt"] for call in page.live("subcalls")[0]["metadata"]["rlm"]["calls"]} == {"one?", "two?"}
    assert [cell["id"] for cell in page.cells()][:3] == ["user-0", "user-1", "user-2"]
    assert page.cells()[-1]["id"] == "user-3"
    page.picture("while", 500)
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: "iteration 2 / 30" in bar.inner_text(), "where the run is")
    assert bar.get_by_role("button", name="Stop").is_visible()

    model.let(2)
    speed = re.compile(r"\bfirst words after \d+\.\d s · \d+(\.\d+)? tokens/s")
    page.until(lambda: speed.search(bar.inner_text()), "how fast the last reply arrives")
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    page.until(lambda: page.live("answer"), "the answer")
    page.picture("after", 500)
    assert "tokens/s" not in bar.inner_text()
    assert page.live()[-1]["source"] == "**Answer**\n\nit is **1234** long"
    assert "Answered" in bar.inner_text()
    # the whole texts of its sub-calls are there
    assert bar.get_by_role("button", name="Open Run").is_visible()
    html = page.live("code")[1]["outputs"]
    assert [list(output["data"]) for output in html] == [["text/plain", "text/html"], ["text/plain"]]
    shown = "".join(html[0]["data"]["text/html"])
    assert "<td>cell</td>" in shown
    assert "script" not in shown
    # the side panel has it as a tree, and leads to the cells
    page.command("rlm:runs")
    runs = page.page.locator("#rlm-runs")
    page.until(lambda: "llm_query: one?" in (runs.text_content() or ""), "the tree")
    assert "3 / 30 iterations" in runs.inner_text()
    assert "350 tokens" in runs.inner_text()
    runs.get_by_role("button", name="Answer").click()
    page.until(
        lambda: (
            page.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCell.model.id")
            == page.live("answer")[0]["id"]
        ),
        "the answer is the active cell",
    )
    page.picture("panel")
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    assert page.page.title().endswith("JupyterLab")  # no script has run
    assert not page.errors


@pytest.mark.slow
def test_asking_again_replaces_the_cells_but_not_an_edited_one(opened: Open, model: Waiting) -> None:
    model.play([LOOK, FINAL, FINAL], opened=2)
    page = opened("text = 'x' * 10", ASK, "own = 'cell'")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the first answer")
    count = page.until(lambda: page.cells()[2]["execution_count"], "the end of the first run")
    first = {cell["id"] for cell in page.live()}
    edited = page.live("code")[0]["id"]
    page.cell(edited).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("  # mine")

    model.let()
    page.run("user-2")
    page.until(lambda: roles(page)[-1:] == ["answer"] and page.live()[0]["id"] not in first, "the second answer")
    assert roles(page) == ["prose", "code", "answer"]
    mine = [cell for cell in page.cells() if cell["source"].endswith("# mine")]
    assert len(mine) == 1
    # what it had put out belongs to other code
    assert (mine[0]["id"], mine[0]["outputs"], mine[0]["execution_count"]) == (edited, [], None)
    assert mine[0]["metadata"]["tags"] == ["rlm", "skip-execution", "rlm-edit"]

    # all of it goes, and comes back, in one step
    page.until(lambda: (page.cells()[2]["execution_count"] or 0) > count, "the end of the second run")
    page.until(lambda: is_written(page), "that all is written")
    shown = [(cell["id"], cell.get("outputs")) for cell in page.live()]
    page.command("rlm:remove", on="user-2")
    page.until(lambda: not page.live(), "no live cell")
    assert len(page.cells()) == 5  # with the one that was edited
    page.command("notebook:undo-cell-action")
    assert [(cell["id"], cell.get("outputs")) for cell in page.live()] == shown

    # what was part of a run does not run with the notebook, until a person takes it over
    model.play([FINAL], opened=1)
    page.command("notebook:restart-run-all", wait=False)
    page.page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.until(lambda: page.cells()[-1]["execution_count"], "the notebook has run")
    left = next(cell for cell in page.cells() if cell["source"].endswith("# mine"))
    assert (left["id"], left["outputs"], left["execution_count"]) == (edited, [], None)
    page.picture("left-over", 500)
    page.run(edited)
    page.until(lambda: page.page.get_by_text("Make it your cell to run it").count(), "that it is not run")
    page.page.get_by_role("button", name="Make It My Cell").click()
    mine = page.until(
        lambda: [c for c in page.cells() if c["source"].endswith("# mine") and c["id"] != edited], "a cell of one's own"
    )
    assert not {"rlm", "tags"} & set(mine[0]["metadata"])
    page.run(mine[0]["id"])
    page.until(
        lambda: [o for c in page.cells() for o in c.get("outputs", ()) if o.get("ename") == "NameError"], "that it runs"
    )
    assert not page.errors


AT_ONCE = (
    "() => { window.requestIdleCallback = f => setTimeout(() => f({ didTimeout: true, timeRemaining: () => 50 })); }"
)
"""Have Lab be idle in all that it does: what it renders then, it takes out in the frame that may draw it in view."""


@pytest.mark.slow
@pytest.mark.usefixtures("_full_windowing")
def test_cells_that_lab_takes_out_of_view_by_mistake_are_drawn_again(
    opened: Open, model: Waiting, window: Window
) -> None:
    replies = [f"Words {part}.\n```repl\nprint('part', {part})\n```" for part in range(1, 7)]
    model.play([*replies, FINAL])
    page = opened("text = 'x' * 1234", ASK, "own = 'cell'")
    page.page.evaluate(AT_ONCE)
    page.run("user-1")
    page.run("user-2")
    shown = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-live:visible")
    for part in range(1, 7):
        model.let()
        page.until(lambda: f"part {part}\n" in texts(page.live("code")[-1]), "the next part")  # noqa: B023
        page.page.wait_for_timeout(700)  # nothing more comes that makes Lab draw
        page.until(lambda: shown.count() == 1 + 2 * part, "all of them in view")  # noqa: B023
        page.until(lambda: f"part {part}" in shown.last.inner_text(), "its output in view")  # noqa: B023
        page.until(lambda: f"[{part}]:" in shown.last.inner_text(), "its number in view")  # noqa: B023
    model.let()
    page.until(lambda: page.cells()[2]["execution_count"], "the end")
    window.load()  # with Lab's own times again
    assert not page.errors


def test_stop_ends_the_run_with_what_it_has(opened: Open, model: Waiting) -> None:
    model.play(["```repl\nanswer['content'] = 'a draft'\n```", SLOW], opened=2)
    page = opened("text = 'x' * 10", ASK, "'still ' + 'alive'")
    page.run("user-1")
    page.run("user-2")
    ticks = page.until(lambda: [c for c in page.live("code") if "tick 3" in texts(c)], "a growing output")[0]
    page.until(lambda: "tick 9" in texts(page.live("code")[1]), "more of the output")
    assert "count" not in ticks["metadata"]["rlm"]
    assert page.cell(ticks["id"]).locator(".jp-InputPrompt").inner_text() == "[*]:"
    page.picture("ticking")
    page.page.locator(".rlm-bar").get_by_role("button", name="Stop").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cancelled']").count(), "the end of the run")
    stopped = page.live("code")[1]
    assert stopped["metadata"]["rlm"]["status"] == "interrupted"
    assert "tick 399" not in texts(stopped)
    assert page.live("answer")[0]["source"] == "**Answer**\n\na draft"
    page.until(lambda: page.cells()[2]["outputs"][-1]["output_type"] == "error", "the cell that asked has failed")
    page.run("user-3")
    page.until(lambda: "still alive" in texts(page.cells()[-1]), "the kernel goes on")
    page.picture("stopped")

    # a kernel that goes away leaves no cell running
    model.play([SLOW], opened=1)
    page.run("user-2")
    page.until(lambda: "tick 3" in texts(page.live("code")[0]), "the second run")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cut']").count(), "the run is cut off")
    page.until(lambda: [cell["metadata"]["rlm"]["status"] for cell in page.live()] == ["ok", "died"], "no cell runs")
    assert not page.errors


@pytest.mark.slow
def test_a_saved_notebook_comes_back_and_run_all_leaves_its_cells_alone(opened: Open, model: Waiting) -> None:
    model.play([HTML, "```repl\nprint(1 / 0)\n```", FINAL], opened=3)
    page = opened("text = 'x' * 10", "%%rlm -m openai/any -c text\nWhat is it?", "'own'")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "the answer")
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the run")
    # the answer is not the last of its cells: the bar says what it came to when all of them stand there
    page.until(lambda: is_written(page), "that all is written")
    page.command("docmanager:save")
    saved = nbformat.read(page.path, as_version=4)
    nbformat.validate(saved)
    ours = [cell for cell in saved.cells if "rlm" in cell.metadata]
    roles = ["boundary", "code", "code", "prose", "code", "answer", "boundary"]
    assert [cell.metadata.rlm.role for cell in ours] == roles
    assert all({"rlm", "skip-execution"} <= set(cell.metadata.tags) for cell in ours)
    assert all("trusted" not in cell.metadata for cell in saved.cells)
    before = [(cell["id"], cell["outputs"], cell["metadata"]["rlm"].get("count")) for cell in page.live("code")]
    page.close()

    again = opened(path=page.path)
    assert all(cell["trusted"] for cell in again.live("code"))
    again.until(lambda: again.page.locator(".rlm-live").count() == 7, "its cells are dressed")
    assert again.page.locator(".rlm-live table").inner_text() == "cell"
    # the run is recorded, so it is shown anew and nothing is asked
    asked = len(model.requests)
    again.command("notebook:restart-run-all", wait=False)
    again.page.get_by_role("button", name="Confirm Kernel Restart").click()
    again.until(lambda: again.cells()[2]["execution_count"] == 3, "all was run")
    again.until(lambda: len(again.live()) == 5 and again.live()[0]["id"] != before[0][0], "the recorded run is shown")
    again.until(lambda: is_written(again), "that all is written")
    again.picture("run-all")
    assert len(model.requests) == asked
    after = [(cell["outputs"], cell["metadata"]["rlm"].get("count")) for cell in again.live("code")]
    assert after == [(outputs, count) for _, outputs, count in before]
    # its number as it was saved is the same: it may still be executed
    again.until(
        lambda: again.cells()[2]["execution_count"] == 3, "the number that it has where nothing else is executed"
    )
    # a live cell that is executed by itself stays as it is, too
    cell = again.live("code")[0]
    again.run(cell["id"])
    again.until(lambda: again.page.get_by_text("the kernel of its run is gone").count(), "what it says")
    again.until(lambda: again.live("code")[0] == cell, "the outputs that it had")
    # the numbers of the person's own cells are as if no run's were there
    again.command("notebook:run-all-cells", wait=False)
    again.until(lambda: again.cells()[2]["execution_count"] == 7, "all was run once more")
    again.until(lambda: is_written(again), "that all is written")
    again.until(lambda: again.cells()[-1]["execution_count"] not in {None, 4}, "the last cell, too")
    own = [cell["execution_count"] for cell in again.cells() if cell["id"].startswith("user-")]
    assert own == [5, 6, 7, 8]
    assert not again.errors


@pytest.mark.slow
def test_an_edit_that_was_refused_stays_below_its_cell_and_what_was_said_of_it(opened: Open, model: Waiting) -> None:
    model.play(["```repl\nprint('first')\n```", "I go on.\n```repl\nprint('second')\n```", FINAL], opened=3)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    strip = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-proposal")
    page.until(lambda: strip.count(), "a cell that waits")
    page.cell(page.live("code")[0]["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("print('edited by me')")
    strip.get_by_role("button", name="Refuse").click()
    page.page.get_by_role("dialog").get_by_role("textbox").fill("look there")
    page.page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    page.until(lambda: len(page.live("code")) == 2 and strip.count(), "the second")
    page.until_still(lambda: page.cells())
    marks = [cell["metadata"]["rlm"] for cell in page.cells() if "rlm" in cell["metadata"]]
    seen = ["edit" if mark.get("left") else mark["role"] for mark in marks]
    assert seen == ["boundary", "code", "notice", "edit", "prose", "code"]
    # a button that goes takes the keyboard nowhere
    strip.get_by_role("button", name="Run:").click()
    page.until(lambda: page.live("code")[1]["metadata"]["rlm"].get("count"), "it ran")
    assert page.page.evaluate("window.jupyterapp.shell.currentWidget.content.node.contains(document.activeElement)")
    assert not page.errors


@pytest.mark.slow
def test_the_last_cell_is_undone_by_a_button_and_shown_as_undone(opened: Open, model: Waiting) -> None:
    model.play(
        ["```repl\nx = 'first'\n```", "```repl\nx = 'wrong'\n```", "```repl\nx += '!'\n```", "```repl\nFINAL(x)\n```"],
        opened=4,
    )
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    strip = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-proposal")
    for number in (1, 2, 3):
        page.until(lambda: len(page.live("code")) == number and strip.count(), f"cell {number} waits")  # noqa: B023
        assert strip.get_by_role("button", name="Undo").count() == (number > 1)
        if number < 3:
            strip.get_by_role("button", name="Run:").click()
    page.picture("undo-offered", 700)
    strip.get_by_role("button", name="Undo").click()
    page.page.get_by_role("dialog").get_by_role("textbox").fill("keep the first")
    page.page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    page.until(
        lambda: len(page.live("code")) == 4 and strip.count(), "the next one waits, and nothing before can be undone"
    )
    assert not strip.get_by_role("button", name="Undo").count()
    statuses = ["ok", "undone", "skipped", "proposed"]
    page.until(
        lambda: [cell["metadata"]["rlm"]["status"] for cell in page.live("code")] == statuses, "what became of all"
    )
    strip.get_by_role("button", name="Run:").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='answered']").count(), "the end")
    assert "first" in page.live("answer")[0]["source"]
    assert any("The user undid your last cell" in cell["source"] for cell in page.live("notice"))
    page.picture("undone", 900)
    assert not page.errors


def test_people_decide_about_cells(opened: Open, model: Waiting) -> None:
    model.play(["```repl\nprint('first')\n```", "I go on.\n```repl\nprint('second')\n```", FINAL], opened=3)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    bar = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")
    page.until(lambda: bar.get_by_role("button", name="Run:").count(), "a cell that waits")
    [proposed] = page.live("code")
    assert proposed["execution_count"] is None
    page.picture("proposed")
    page.cell(proposed["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("print('edited by me')")
    bar.get_by_role("button", name="Run:").click()
    ran = page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "it runs as edited")[
        0
    ]
    assert ran["source"] == "print('edited by me')"
    page.until(lambda: "edited by me" in texts(page.live("code")[0]), "its output")

    page.until(lambda: len(page.live("code")) == 2 and bar.get_by_role("button", name="Refuse").count(), "the second")
    bar.get_by_role("button", name="Pause").click()
    bar.get_by_role("button", name="Refuse").click()
    page.page.get_by_role("dialog").get_by_role("textbox").fill("no more prints, please")
    page.page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase='paused']").count(), "the run waits")
    asked = len(model.requests)
    page.page.wait_for_timeout(300)
    assert len(model.requests) == asked
    bar.get_by_role("button", name="Resume").click()
    page.until(lambda: len(model.requests) > asked, "the next request")
    assert "no more prints, please" in json.dumps(model.requests[-1].body)
    assert [cell["metadata"]["rlm"]["status"] for cell in page.live("code")][:2] == ["ok", "skipped"]
    page.until(lambda: bar.get_by_role("button", name="Run:").count(), "the third")
    page.command("rlm:approve", on="user-2")
    page.until(lambda: page.live("answer"), "the answer")
    page.picture("decided")
    assert not page.errors


@pytest.mark.slow
def test_a_cell_that_waits_is_asked_about_in_one_place(opened: Open, model: Waiting) -> None:
    """Also where the kernel is there, and the cell with it, before the page has said that its buttons work."""
    cell = "```repl\nprint('first')\n```"
    model.play([FINAL, cell, cell, cell], opened=4)
    page = opened("text = 'x' * 10", ASK, *[ASK.replace("--rerun", "--rerun --approve")] * 3)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer"), "kernels are warm")
    for asking in ("user-3", "user-4", "user-5"):
        page.run(asking)
        page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"]["status"] == "proposed"], "one waits")
        page.page.wait_for_timeout(500)
        assert not page.page.locator(".jp-Stdin-input").count()
        page.command("rlm:stop", on=asking)
        # what is sent before it has ended is aborted with it
        page.until(lambda: [c for c in page.cells() if c["id"] == asking and c["execution_count"]], "it has ended")  # noqa: B023
    assert not page.errors


def rewrite(page: NotebookPage, cell_id: str, source: str) -> None:
    page.cell(cell_id).locator(".cm-content").click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type(source)


def waiting(page: NotebookPage) -> dict[str, Any]:
    """The cell that waits for approval, once its page says so."""
    found = page.until(
        lambda: [c for c in page.live("code") if c["metadata"]["rlm"]["status"] == "proposed"], "a cell that waits"
    )[0]
    page.until(lambda: page.cell(found["id"]).locator(".rlm-proposal").count(), "what can be done about it")
    return cast(dict[str, Any], found)


@pytest.mark.slow
def test_the_cell_that_waits_runs_by_the_keys_that_run_cells_and_what_is_written_there_is_not_lost(
    opened: Open, model: Waiting
) -> None:
    model.play([f"```repl\nprint({n})\n```" for n in range(5)], opened=5)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--approve"))
    page.run("user-1")
    page.run("user-2")
    for keys, said in (("Shift+Enter", "first"), ("Control+Enter", "second"), ("Escape Shift+Enter", "third")):
        cell = waiting(page)
        rewrite(page, cell["id"], f"print('{said} by me')")
        for key in keys.split():
            page.page.keyboard.press(key)
        shown = f"{said} by me\n"
        ran = page.until(lambda: [c for c in page.live("code") if shown == texts(c)], said)[0]  # noqa: B023  at once
        assert (ran["id"], ran["source"]) == (cell["id"], f"print('{said} by me')")
        page.until(lambda: counts(page)[cell["id"]] is not None, "its number")  # noqa: B023  at once

    # with others, nobody has meant it
    cell = waiting(page)
    page.command("notebook:run-all-cells", wait=False)
    page.until(lambda: page.page.get_by_text("run it by itself to approve it").count(), "what it says")
    assert waiting(page) == cell

    # refused, or stopped: what was written there is a cell of one's own
    rewrite(page, cell["id"], "refused = 1")
    page.page.locator(".rlm-decide-refuse").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    own = page.until(
        lambda: [c for c in page.cells() if c["source"] == "refused = 1" and c["id"] != cell["id"]], "what was written"
    )[0]
    assert own["metadata"]["rlm"]["left"]
    refused = cell["id"]
    page.until(
        lambda: [c["source"] for c in page.live("code") if c["id"] == refused] == ["print(3)"], "the model's own source"
    )
    cell = waiting(page)
    rewrite(page, cell["id"], "stopped = 1")
    page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-stop").click()
    own = page.until(
        lambda: [c for c in page.cells() if c["source"] == "stopped = 1" and c["id"] != cell["id"]], "what was written"
    )[0]
    assert own["metadata"]["rlm"]["left"]
    page.until(lambda: [c["source"] for c in page.live("code") if c["id"] == cell["id"]] == ["print(4)"], "the record")
    assert not page.errors


def begun(page: NotebookPage, before: str) -> str:
    """Return the run that has executed a cell; empty while there is none but the one before."""
    marks = [cell["metadata"]["rlm"] for cell in page.live("code")]
    return next((mark["run"] for mark in marks if mark["run"] != before and mark.get("count")), "")


@pytest.mark.slow
def test_a_cell_that_is_moved_during_its_run_shows_and_saves_how_that_ended(opened: Open, model: Waiting) -> None:
    commands = {
        "moved": ["notebook:move-cell-up"],
        "deleted and brought back": ["notebook:delete-cell", "notebook:undo-cell-action"],
    }
    page = opened("text = 'x' * 10", ASK)
    page.run("user-1")
    before = ""
    for how, steps in commands.items():
        model.play([LOOK, FINAL], opened=1)
        page.run("user-2")
        before = page.until(partial(begun, page, before), "an iteration")
        for command in steps:
            page.command(command, on="user-2" if command is steps[0] else None)
        model.let()
        page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='answered']").count(), "the end")
        cell = page.until_still(lambda: next(cell for cell in page.cells() if cell["id"] == "user-2"))
        assert cell["execution_count"], how
        page.command("docmanager:save")
        [saved] = [cell for cell in json.loads(page.path.read_text())["cells"] if cell["id"] == "user-2"]
        shown = ["".join(output["data"]["text/plain"]) for output in saved["outputs"]]
        assert [text.partition(" ")[0] for text in shown if text] == ["Answered", "it"], (how, shown)
        assert "rlm-under-way" not in json.dumps(saved), how
    assert not page.errors


@pytest.mark.slow
def test_a_cell_that_waits_is_not_run_while_it_is_not_to_be_seen(opened: Open, model: Waiting) -> None:
    model.play([f"```repl\nprint('cell {n}')\n```" for n in range(3)], opened=3)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    run = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar .rlm-approve")
    strip = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-proposal")
    cell = waiting(page)
    for command in ("notebook:delete-cell", "notebook:change-cell-to-markdown"):
        page.command(command, on=cell["id"])
        page.until(lambda: run.is_disabled(), "that it can't be run")
        assert "not in the notebook as a code cell" in (run.get_attribute("title") or "")
        assert not strip.count()
        page.picture(command.partition(":")[2], 300)
        page.command("rlm:approve")
        page.command("notebook:undo-cell-action")
        page.until(lambda: run.is_enabled() and strip.count(), "its buttons are back")
        assert waiting(page)["source"] == "print('cell 0')"
    # refused meanwhile, it does not wait when it comes back
    page.command("notebook:delete-cell", on=cell["id"])
    page.until(lambda: run.is_disabled(), "that it can't be run")
    page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar .rlm-refuse").click()
    page.page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    assert waiting(page)["source"] == "print('cell 1')"
    page.command("notebook:undo-cell-action")
    page.until(
        lambda: {c["metadata"]["rlm"]["status"] for c in page.live("code")} == {"skipped", "proposed"},
        "what it is by now",
    )
    strip.get_by_role("button", name="Run:").click()
    page.until(lambda: any(texts(c) == "cell 1\n" for c in page.live("code")), "what is seen is run")
    assert not any("cell 0" in texts(c) for c in page.live("code"))
    page.until(lambda: waiting(page)["source"] == "print('cell 2')", "the next one waits")
    page.command("rlm:stop")
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cancelled']").count(), "the end")
    assert not page.errors


@pytest.mark.slow
@pytest.mark.usefixtures("_full_windowing")
def test_a_cell_that_waits_out_of_view_has_its_buttons_where_it_is_and_is_approved_from_afar(
    opened: Open, model: Waiting
) -> None:
    model.play([f"```repl\nprint({n})\n```" for n in range(3)], opened=3)
    own = [f"own = {place}" for place in range(60)]
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"), *own)
    page.run("user-1")
    page.run("user-2")
    strip = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-proposal")
    for decided in (1, 2):
        cell = waiting(page)
        assert page.cell(cell["id"]).locator(".rlm-proposal").is_visible()
        page.page.evaluate("window.jupyterapp.shell.currentWidget.content.scrollToItem(60, 'end')")
        page.until(lambda: not strip.count(), "it is out of view, with all its parts")
        page.command("rlm:approve")
        page.until(lambda: sum(c["metadata"]["rlm"]["status"] == "ok" for c in page.live("code")) == decided, "it ran")  # noqa: B023
    assert not page.cell(page.live("code")[1]["id"]).locator(".rlm-proposal").count()
    page.command("rlm:stop")
    page.until(lambda: page.live("code")[2]["metadata"]["rlm"]["status"] == "skipped", "the third is not run")
    assert not page.errors
    assert not page.complaints


@pytest.mark.slow
def test_a_run_that_ends_by_a_limit_keeps_its_last_step(opened: Open, model: Waiting) -> None:
    forced = "I would look once more.\n```repl\nprint('never executed')\n```"
    last = "The last look.\n```repl\nprint('second', len(context))\n```"
    model.play(["The first.\n```repl\nprint('first')\n```", last, Said(forced, delay=0.05, pieces=10)], opened=3)
    page = opened("text = 'x' * 1234", "%%rlm -m openai/any -c text --rerun --max-iterations 2\nHow long is it?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    page.until(lambda: "iterations" in page.page.locator(".rlm-bar").last.inner_text(), "how it ended")
    code = page.live("code")
    assert [(cell["source"], texts(cell)) for cell in code] == [
        ("print('first')", "first\n"),
        ("print('second', len(context))", "second 1234\n"),
    ]
    assert page.live("prose")[-1]["source"] == forced
    page.picture("ended-by-a-limit", 500)
    assert not page.errors


HERE: list[str | Said] = [
    "```repl\nprint('pri' + 'nted', len(text))\n```",
    '```repl\nfrom IPython.display import SVG, display\ndisplay(SVG(\'<svg xmlns="http://www.w3.org/2000/svg"><g id="drawn"/></svg>\'))\n1 / 0\n```',
    "```repl\nimport asyncio\nawait asyncio.sleep(0)\nmade = 'resu' + 'lt'\nmade\n```",
    "```repl\nFINAL('7 ' + 'cm')\n```",
]


@pytest.mark.slow
def test_the_cells_of_a_run_that_is_resumed_stand_between_its_lines(opened: Open, model: Waiting) -> None:
    looks = [f"```repl\nprint('look {n}')\n```" for n in range(2)]
    model.play([looks[0], "I can't say.", looks[1], "```repl\nFINAL('at last')\n```"], opened=4)
    page = opened(
        "text = 'x' * 10", ASK.replace("--rerun", "--rerun --max-iterations 1"), "%rlm_resume --max-iterations 6"
    )
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("boundary")[1:], "the limit")
    page.run("user-3")
    page.until(lambda: page.live("answer") and "at last" in page.live("answer")[-1]["source"], "the answer")
    page.until_still(lambda: page.cells())
    roles = [cell["metadata"]["rlm"]["role"] for cell in page.cells() if "rlm" in cell["metadata"]]
    shown = [run for run in page.cells() if run["id"].startswith("rlm-")]
    lines = [place for place, cell in enumerate(shown) if cell["metadata"]["rlm"]["role"] == "boundary"]
    assert lines[-1] == len(shown) - 1, roles
    assert len(lines) == 4, roles  # those of the run as it ended first stand below the cell that asked
    page.picture("resumed", 300)
    assert not page.errors


@pytest.mark.slow
def test_here_all_is_shown_once_below_the_cells_of_the_model(opened: Open, model: Waiting) -> None:
    model.play(HERE, opened=4)
    page = opened(
        "text = 'x' * 10", "%%rlm --here -m openai/any -c text\nHow long is the needle?", "print(made)\n1 / 0"
    )
    page.run("user-1")
    for again in (False, True):  # then from the record
        page.run("user-2")
        page.until(lambda: page.live("answer"), "the answer")
        title = "The recorded run" if again else "Answered"
        page.until(lambda title=title: title in json.dumps(page.cells()[2]), "how it ended")  # type: ignore[misc]
        page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
        own = page.until_still(lambda: page.cells()[2]["outputs"])
        assert [output["output_type"] for output in own if output["output_type"] != "display_data"] == []
        assert not re.search("printed|drawn|ZeroDivision|result'", json.dumps(own))
        live = json.dumps([cell["outputs"] for cell in page.live("code")])
        assert [live.count(said) for said in ("printed 10", '"image/svg+xml"', '"ename": "ZeroDivisionError"')] == [
            1,
            1,
            1,
        ]
        assert live.count("'result'") == 1
        page.picture(f"here-{again}", 500)
    # the user's own cells are as ever
    page.run("user-3")
    mine = page.until(
        lambda: page.cells()[-1]["execution_count"] and page.cells()[-1]["outputs"], "a cell of one's own"
    )
    assert [output["output_type"] for output in mine] == ["stream", "error"]
    assert not page.errors


def look_of_cells(page: NotebookPage, html: str) -> None:
    """See that a page of nbconvert's has a bar beside a run's cells, and no number that looks as if they never ran."""
    opened = page.page.context.new_page()
    opened.set_content(html, wait_until="domcontentloaded")
    own, code = opened.locator(".jp-CodeCell:not(.celltag_rlm)"), opened.locator(".jp-CodeCell.celltag_rlm")
    prose = opened.locator(".jp-MarkdownCell")
    width = "node => getComputedStyle(node).borderLeftWidth"
    assert {cell.evaluate(width) for cell in own.all()} == {"0px"}
    assert {cell.evaluate(width) for cell in (*code.all(), *prose.all())} == {"3px"}
    said = "node => [getComputedStyle(node).visibility, getComputedStyle(node, '::after').content]"
    assert {tuple(cell.locator(".jp-InputPrompt").evaluate(said)) for cell in code.all()} == {("hidden", '"model"')}
    opened.close()


@pytest.mark.slow
def test_other_readers_can_tell_a_runs_cells_from_the_persons(opened: Open, model: Waiting) -> None:
    model.play(["I look.\n```repl\nlen(context)\n```", FINAL], opened=2)
    page = opened("text = 'x' * 10", "%%rlm -m openai/any -c text\nHow long?", "41 + 1")
    for cell_id in ("user-1", "user-2", "user-3"):
        page.run(cell_id)
    page.until(lambda: page.cells()[-1]["execution_count"], "the last cell")
    page.picture("boundaries")
    # in the page a cell has its number in the kernel of the run
    code = page.live("code")[0]
    assert page.cell(code["id"]).locator(".jp-InputPrompt").inner_text() == "[1]:"
    page.command("docmanager:save")
    saved = nbformat.read(page.path, as_version=4)
    nbformat.validate(saved)
    sources = [cell.source for cell in saved.cells]
    above, below = (sources.index(cell["source"]) for cell in page.live("boundary"))
    said = "(2 iterations, 2 cells of code), run in a kernel of their own, not numbered with this notebook's"
    assert sources[above] == f"---\n\n*The model's cells {said}:*"
    assert sources[below] == "*End of the model's cells.*\n\n---"
    # all of the run's cells stand between the two, and none of the person's does
    assert all(("rlm" in cell.metadata) == (above <= at <= below) for at, cell in enumerate(saved.cells))
    counts = [cell.execution_count for cell in saved.cells if cell.cell_type == "code" and cell.execution_count]
    made = [out.execution_count for cell in saved.cells for out in cell.get("outputs", ()) if "execution_count" in out]
    assert sorted(counts) == [1, 2, 3, 4]
    assert made == [None, 4]
    html, _ = HTMLExporter(template_name="lab").from_notebook_node(saved)
    assert html.index("The model's cells (2") < html.index("I look.") < html.index("End of the model")
    look_of_cells(page, html)
    assert [html.count(f"[{number}]:") for number in range(1, 5)] == [1, 1, 1, 2]


@pytest.mark.slow
def test_amounts_in_dollars_are_no_formulas_and_formulas_are(opened: Open, model: Waiting) -> None:
    amounts = "It cost $5 in 2020 and $7 in 2021"
    model.play([f"{amounts}.\n```repl\nx = 1\n```", f"```repl\nFINAL('{amounts}; $E = mc^2$')\n```"], opened=2)
    page = opened("text = 'x'", ASK.replace("openai/any", "openai/gpt-4o-mini --max-cost 0.50"))
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the end")
    # in the cell's own output, and in the answer's cell; the header names two amounts as well
    page.until(lambda: page.page.locator("mjx-container").count() == 2, "the two formulas")
    page.picture("dollars", 300)
    assert "of $0.50" in page.cell("user-2").inner_text()
    for cell in (page.cell("user-2"), page.cell(page.live("answer")[0]["id"]), page.cell(page.live("prose")[0]["id"])):
        assert amounts in cell.inner_text().replace("\u200b", "")


@pytest.mark.slow
def test_a_recorded_run_shows_its_steps_once_in_a_kernel_that_has_just_started(opened: Open, model: Waiting) -> None:
    model.play([FINAL], opened=1)
    page = opened("text = 'x' * 12", "%%rlm -m openai/any -c text\nHow long is what was recorded?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    page.command("notebook:restart-run-all", wait=False)
    page.page.get_by_role("button", name="Confirm Kernel Restart").click()
    cell = page.cell("user-2")
    page.until(lambda: "no model was asked" in cell.inner_text(), "the recorded run")
    page.until(lambda: page.live("answer"), "its cells")
    # the kernel hears only after the run that this page shows cells
    page.until(lambda: "Steps" not in cell.inner_text(), "that they stand there once")


@pytest.mark.slow
def test_the_runs_own_notebook_can_be_opened_and_closed_without_a_question(
    opened: Open, model: Waiting, window: Window
) -> None:
    model.play([FINAL], opened=1)
    page = opened("text = 'x'", ASK.replace("How long", "How clean"))
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    [run] = (window.lab.folder / "rlm_runs").glob("*how-clean*.ipynb")
    page.command("rlm:open-run")
    current = "window.jupyterapp.shell.currentWidget"
    page.until(lambda: page.page.evaluate(f"{current}.context?.path").endswith(run.name), "the run's notebook")
    page.until(
        lambda: page.page.evaluate(f"{current}.sessionContext.session?.kernel?.status") in {"idle", "unknown"},
        "a kernel",
    )
    page.page.wait_for_timeout(1_000)  # Lab asks the kernel what it speaks, and writes that into the notebook
    assert page.page.evaluate(f"{current}.context.model.dirty") is False
    page.page.evaluate(f"{current}.close()")
