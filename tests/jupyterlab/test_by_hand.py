"""Live cells that a person executes in a real JupyterLab: what they show, whose they are, and where they ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import texts

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
LOOK = "I look.\n```repl\nseen = len(context)\nprint(seen)\n```"


def test_a_live_cell_runs_in_the_kernel_of_its_run(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "```repl\nFINAL(seen)\n```", "```repl\nFINAL(seen)\n```"], opened=3)
    page = opened("text = 'x' * 1234", ASK, "rlm_result = rlm_result.ask('And now?')", "rlm_result.close()")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    look = page.live("code")[0]
    asked = len(model.requests)

    # it is edited, executed and left in one go, as Shift-Enter does; its variables are those of the run
    page.cell(look["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("\nseen += 1\nseen")
    page.page.keyboard.press("Shift+Enter")
    page.until(lambda: "Ran in the kernel of rlm_result" in texts(page.live("code")[0]), "where it ran")
    page.until(lambda: page.live("code")[0]["metadata"]["rlm"].get("by_hand"), "it is bound to its kernel")
    ran = page.live("code")[0]
    assert ran["id"] == look["id"]
    assert "1234" in texts(ran)
    assert "1235" in texts(ran)
    assert ran["metadata"]["rlm"]["count"] == 3  # its number there
    assert ran["execution_count"] is None
    assert len(model.requests) == asked
    page.picture("by-hand")

    # the model finds what was changed
    page.run("user-3")
    page.until(lambda: page.live("answer")[1:], "the second answer")
    assert page.live("answer")[1]["source"] == "**Answer**\n\n1235"

    # it still runs there, and an error is that of the cell
    page.run(look["id"])
    page.until(lambda: page.live("code")[0]["metadata"]["rlm"].get("count") == 5, "it ran again")
    page.run("user-4")
    page.until(lambda: page.cells()[-1]["execution_count"], "the kernel is closed")
    before = page.live("code")[0]
    page.run(look["id"])
    page.until(
        lambda: page.page.locator(".rlm-strip", has_text="Not run: the kernel of its run is closed").count(),
        "that it is gone",
    )
    page.picture("by-hand-gone")
    back = page.live("code")[0]
    assert [back[key] for key in ("id", "source", "outputs", "execution_count")] == [
        before[key] for key in ("id", "source", "outputs", "execution_count")
    ]
    assert "by_hand" not in back["metadata"]["rlm"]  # no kernel is its own any more: left, it would be the reader's
    assert not page.errors


def test_an_edit_of_a_recorded_run_never_stands_over_an_output_that_is_not_its_own(
    opened: Open, model: Waiting
) -> None:
    model.play(["I look.\n```repl\nprint(len(context))\n```", "```repl\nFINAL('seen')\n```"], opened=2)
    page = opened("text = 'x' * 1234", "%%rlm -m openai/any -c text\nHow long is the recorded one?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    first = page.live("code")[0]["id"]
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.live("code")[0]["id"] != first, "the recorded run")
    page.until(lambda: page.live("code")[0]["metadata"]["rlm"].get("count"), "all of it")
    look = page.live("code")[0]

    # while it is only edited, the page says that the output is another's; put back, all is as it was
    strip = page.page.locator(".rlm-strip")
    editor = page.cell(look["id"]).locator(".cm-content")
    editor.click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type(" + 1")
    page.until(lambda: "Edited, and not run" in strip.inner_text(), "that it is edited")
    assert page.cell(look["id"]).locator("xpath=self::*[contains(@class, 'rlm-astray')]").count()
    page.picture("edited")
    strip.get_by_role("button", name="Put Back").click()
    page.until(lambda: not strip.count(), "nothing to be said")
    assert page.live("code")[0]["source"] == look["source"]

    # executed, it is refused in the cell, and what was written can be taken over
    editor.click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type(" + 1")
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: "Not run: the kernel of its run is gone" in strip.inner_text(), "why it was not run")
    assert strip.locator("pre").inner_text().strip() == f"{look['source']} + 1"
    page.picture("refused")
    back = page.live("code")[0]
    assert [back[key] for key in ("source", "outputs", "execution_count")] == [
        look[key] for key in ("source", "outputs", "execution_count")
    ]
    assert strip.get_by_role("button", name="Open Run").count()
    strip.get_by_role("button", name="Edit Again").click()
    page.until(lambda: "Edited, and not run" in strip.inner_text(), "that it is written on")
    assert page.live("code")[0]["source"] == f"{look['source']} + 1"
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: "Not run: the kernel of its run is gone" in strip.inner_text(), "why it was not run")

    # the run is told to a page that is loaded again, and takes nothing of it away
    page.command("docmanager:save")
    page.window.reload()
    page.until_ready()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='answered']").count(), "the run, told once more")
    page.until_still(lambda: page.cells())
    assert strip.locator("pre").inner_text().strip() == f"{look['source']} + 1"
    assert "Not run: the kernel of its run is gone" in strip.inner_text()
    strip.get_by_role("button", name="Copy to My Cells").click()
    own = page.until(lambda: [c for c in page.cells() if c["source"].endswith(f"\n{look['source']} + 1")], "the copy")[
        0
    ]
    assert not {"rlm", "tags"} & set(own["metadata"])
    assert own["trusted"]  # else all of the notebook would count as somebody else's
    assert len(own["source"].splitlines()[0]) < 80
    assert not page.errors


def test_an_edit_that_ran_is_not_said_never_to_have_run(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "```repl\nFINAL(seen)\n```", "```repl\nx = len(context)\nFINAL(f'{x} anew')\n```"], opened=3)
    page = opened("text = 'x' * 1234", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    look = page.live("code")[0]
    page.cell(look["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("\nseen + 1")
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: page.live("code")[0]["metadata"]["rlm"].get("by_hand"), "it ran in its kernel")
    number = page.cells()[2]["execution_count"]
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] == number + 1, "it took no number of the notebook's kernel")
    page.until(lambda: page.live("answer") and page.live("answer")[0]["source"].endswith("anew"), "another run")
    left = page.page.locator(".rlm-strip-left")
    page.until(lambda: left.count(), "what is left over")
    assert "ran it in the kernel of that run" in left.inner_text()
    kept = next(cell for cell in page.cells() if cell["metadata"].get("rlm", {}).get("left"))
    assert "1235" in texts(kept)
    count = kept["metadata"]["rlm"]["count"]
    assert page.cell(kept["id"]).locator(".jp-InputPrompt").inner_text() == f"[{count}]:"
    page.picture("left-ran", 300)
    left.get_by_role("button", name="Discard").click()
    page.until(lambda: not left.count(), "that it is gone")
    page.command("notebook:undo-cell-action")
    page.until(lambda: any(cell["source"].endswith("seen + 1") for cell in page.cells()), "that it came back")
    assert not page.errors


def test_a_kernel_that_does_not_know_live_cells_runs_none_of_them(opened: Open, model: Waiting, tmp_path: Path) -> None:
    proof = tmp_path / "written"
    look = f"I look.\n```repl\nprint(len(context)); open({str(proof)!r}, 'a').close()\n```"
    model.play([look, "```repl\nFINAL('seen')\n```"], opened=2)
    page = opened("text = 'x' * 1234", "%%rlm -m openai/any -c text --rerun --sandbox none\nHow long is it?", "'own'")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    assert proof.exists()
    proof.unlink()
    page.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.until_ready()
    before = page.live("code")[0]

    page.run(before["id"])
    strip = page.page.locator(".rlm-strip")
    page.until(lambda: "--rerun in the cell that asked runs it again" in strip.inner_text(), "why it was not run")
    assert "the kernel of its run is gone" in strip.inner_text()
    page.until_still(lambda: page.cell(before["id"]).locator(".jp-InputPrompt").inner_text())
    assert page.cell(before["id"]).locator(".jp-InputPrompt").inner_text() == "[1]:"
    page.picture("not-loaded")
    page.command("notebook:run-all-below")
    page.until_still(lambda: page.cells())
    assert not proof.exists()
    after = page.live("code")[0]
    assert [after[key] for key in ("source", "outputs", "execution_count")] == [
        before[key] for key in ("source", "outputs", "execution_count")
    ]

    # what a person writes there does not stay above what the run's code has shown
    page.cell(before["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type(" + 1")
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: "What you wrote, which was not run:" in strip.inner_text(), "what was written")
    page.until_still(lambda: page.cells())
    page.picture("not-loaded-edited")
    quote, cell = strip.locator("pre").bounding_box(), page.cell(before["id"]).bounding_box()
    assert quote is not None
    assert cell is not None
    assert quote["x"] + quote["width"] <= cell["x"] + cell["width"]
    after = page.live("code")[0]
    assert [after[key] for key in ("source", "outputs")] == [before[key] for key in ("source", "outputs")]
    assert not proof.exists()

    # with it, the cell is refused for another reason, and nothing of it runs either
    page.run("load")
    page.run(before["id"])
    page.until(lambda: "the kernel of its run is gone" in strip.inner_text(), "that its kernel is gone")
    assert not proof.exists()

    # what was written is kept all the while: refused once more, and in a page that is loaded anew
    edit = f"{before['source']} + 1"
    assert strip.locator("pre").inner_text().strip() == edit
    page.command("docmanager:save")
    page.window.load()
    page.open()
    page.until(lambda: strip.count() and strip.locator("pre").inner_text().strip() == edit, "what was written")
    page.picture("not-loaded-reopened", 300)
    strip.get_by_role("button", name="Edit Again").click()
    page.until(lambda: page.live("code")[0]["source"] == edit, "that it is written on")
    page.page.keyboard.press("Control+Enter")
    page.until(lambda: "Not run" in strip.inner_text() and strip.locator("pre").count(), "that it is refused")
    # it outlives its run, and can be let go
    model.play(["```repl\nx = len(context)\nFINAL(f'{x} anew')\n```"], opened=1)
    page.run("user-0")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("answer") and page.live("answer")[0]["source"].endswith("anew"), "another run")
    left = [cell for cell in page.cells() if cell["metadata"].get("rlm", {}).get("left")]
    assert [(cell["source"], cell["outputs"]) for cell in left] == [(edit, [])]
    assert "never ran it" in page.page.locator(".rlm-strip-left").inner_text()
    assert page.cell(left[0]["id"]).locator(".jp-InputPrompt").inner_text() == "[ ]:"
    assert not page.errors


def test_a_cell_of_a_run_that_goes_on_keeps_its_output_when_it_is_run(opened: Open, model: Waiting) -> None:
    model.play(["```repl\nlen(context)\n```", "```repl\nFINAL('seen')\n```"], opened=1)
    page = opened("text = 'x' * 1234", "%%rlm -m openai/any -c text --rerun\nHow long is what goes on?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "an executed cell")
    look = page.live("code")[0]
    page.cell(look["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type(" + 1")
    page.page.keyboard.press("Control+Enter")
    strip = page.page.locator(".rlm-strip")
    page.until(lambda: "its run is still going on" in strip.inner_text(), "why it was not run")
    now = page.live("code")[0]
    assert (now["source"], now["outputs"]) == (f"{look['source']} + 1", look["outputs"])
    assert "*" not in page.cell(look["id"]).locator(".jp-InputPrompt").inner_text()
    model.let()
    page.until(lambda: page.live("answer") and page.cells()[2]["execution_count"], "the answer")
    page.until(lambda: "Edited, and not run" in strip.inner_text(), "that it can be run now")
    page.run(look["id"])
    page.until(lambda: "1235" in texts(page.live("code")[0]), "what it comes to")
    assert not page.errors


def test_an_edit_that_was_not_run_has_no_output_once_its_run_is_replaced_by_run_all(
    opened: Open, model: Waiting
) -> None:
    again = "```repl\nx = len(context)\nFINAL(f'{x} anew')\n```"
    model.play([LOOK, "```repl\nFINAL(seen)\n```", again], opened=3)
    page = opened("text = 'x' * 1234", ASK, "'mine'")
    for cell in ("user-1", "user-2", "user-3"):
        page.run(cell)
    page.until(lambda: page.cells()[-1]["execution_count"] and page.live("answer"), "the answer")
    number = page.cells()[-1]["execution_count"]
    look = page.live("code")[0]
    page.cell(look["id"]).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("\nseen + 1")
    page.until(lambda: page.page.locator(".rlm-strip-edited").count(), "that it is edited")
    page.command("notebook:run-all-cells", wait=False)
    page.until(lambda: page.cells()[-1]["execution_count"] == number + 4, "all was run, and no live cell counted")
    page.until(lambda: page.live("answer") and page.live("answer")[0]["source"].endswith("anew"), "another run")
    page.until_still(lambda: page.cells())
    kept = next(cell for cell in page.cells() if cell["metadata"].get("rlm", {}).get("left"))
    assert kept["source"] == f"{look['source']}\nseen + 1"
    assert not kept["outputs"]
    assert kept["execution_count"] is None
    assert "never ran it" in page.page.locator(".rlm-strip-left").inner_text()
    assert not page.page.get_by_text("Not run: the kernel of its run is gone").count()
    page.picture("left-by-run-all", 300)
    assert not page.errors
