"""All that can be done to a run from the page: heard for certain, reached by keys, readable in both themes."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, Window, texts
from tests.support.loopback import Said

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is the needle?"
LOOK = "I look for the **needle**.\n```repl\nprint('haystack')\nanswers = llm_query_batched(['one?', 'two?'])\n```"
WRONG = "Now I divide.\n```repl\n1 / 0\n```"
FINAL = "It is known.\n```repl\nFINAL('7 cm')\n```"
DROP = """count => { const send = window.rlmSend ?? WebSocket.prototype.send; window.rlmSend = send;
    window.rlmDropped = 0;
    WebSocket.prototype.send = function (data) {
        const text = typeof data === 'string' ? data : new TextDecoder().decode(data);
        if (text.includes('"type":"asks"') && text.includes('"n":') && window.rlmDropped < count) {
            window.rlmDropped += 1; return;
        }
        send.call(this, data);
    }; }"""
"""Lose so many of the messages in which the page asks for something."""
HEARD = r"""() => { window.rlmHeard = 0;
    window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.iopubMessage.connect((_, message) => {
        const [, last] = /"heard":\{"[0-9a-f]+":(\d+)/.exec(JSON.stringify(message.content.data ?? {})) ?? [];
        if (last) window.rlmHeard = Number(last);
    }); }"""
"""Note what the kernel says that it has heard of this page: the number of the last thing."""


def bar_of(page: Any) -> Any:
    return page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-bar")


def notices(page: Any) -> str:
    return " | ".join(page.page.locator(".Toastify__toast").all_inner_texts())


def exported(page: NotebookPage) -> Path:
    """Wait for the notice of an export, and return the file that it names."""
    said = page.until(lambda: re.search(r"Written to (\S+)", notices(page)), "where it is")
    return page.path.parent / said[1]


def dismiss(page: Any) -> None:
    page.page.evaluate("document.querySelectorAll('.jp-Notification-Toast-Close').forEach(button => button.click())")
    page.until(lambda: page.page.locator(".Toastify__toast").count() == 0, "no notice is left")


def fill_dialog(page: Any, text: str) -> None:
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(text)
    dialog.get_by_role("button", name="Send").click()


def focused(page: Any) -> str:
    return str(
        page.page.evaluate(
            "() => { const at = document.activeElement; return at?.getAttribute('aria-label') || at?.textContent || ''; }"
        )
    )


def tab_to(page: Any, name: str, most: int = 60) -> None:
    """Go on with Tab alone until what has the focus is called so."""
    walked = []
    for _ in range(most):
        if re.search(name, at := focused(page)):
            return
        walked.append(at[:40])
        page.page.keyboard.press("Tab")
    raise AssertionError(f"{name} is not reached by Tab: {walked}")


def theme(page: Any, name: str) -> None:
    page.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
    page.until(lambda: page.page.locator(f"body[data-jp-theme-name='{name}']").count(), f"the theme {name}")
    # Lab takes its splash screen away a moment later, and fails where another theme has done so meanwhile
    page.until(lambda: not page.page.locator("#jupyterlab-splash").count(), "the splash screen is gone")


def test_limits_export_filter_and_fold(opened: Open, model: Waiting) -> None:
    model.play([LOOK, WRONG, FINAL], opened=2)
    page = opened("text = 'x' * 10", ASK)
    stop = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) [data-jp-item-name='rlm-stop'] jp-button")
    assert stop.get_attribute("aria-disabled") == "true" or stop.is_disabled()
    page.run("user-1")
    page.run("user-2")
    page.until(
        lambda: len(page.live("code")) == 2 and page.live("code")[1]["metadata"]["rlm"].get("count"), "two iterations"
    )
    page.until(lambda: stop.is_enabled() and stop.get_attribute("aria-disabled") != "true", "Stop in the toolbar")
    status = page.page.locator(".rlm-status")
    page.until(lambda: "RLM: iteration 3 / 30 · 240 tokens" in status.inner_text(), "the status bar")
    assert status.get_by_role("status").text_content() == "RLM: iteration 3 / 30"

    # a limit, by keys: what can't be is said in a line, what the kernel refuses in a notice
    page.select("user-2")
    page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .rlm-stop").focus()
    tab_to(page, "^Limits…")
    page.page.keyboard.press("Enter")
    dialog = page.page.get_by_role("dialog")
    page.until(lambda: dialog.get_by_label("Iterations", exact=True).count(), "the dialog")
    assert dialog.get_by_label("Iterations", exact=True).input_value() == "30"
    dialog.get_by_label("Iterations", exact=True).fill("many")
    dialog.get_by_role("button", name="Set").click()
    page.until(lambda: dialog.get_by_role("alert").count(), "what is wrong")
    assert dialog.get_by_role("alert").inner_text() == "Iterations: “many” is not a number."
    dialog.get_by_label("Iterations", exact=True).fill("40")
    dialog.get_by_label("US dollars").fill("2.5")
    page.picture("limits-light")
    dialog.get_by_role("button", name="Set").click()
    page.until(lambda: "iteration 3 / 40" in bar_of(page).inner_text(), "the new limit")
    page.until(lambda: "max_cost can't be set: the price of openai/any is not known" in notices(page), "the refusal")
    dismiss(page)

    # the tree, filtered
    page.command("rlm:runs")
    runs = page.page.locator("#rlm-runs")
    page.until(lambda: "1 / 0" in runs.inner_text(), "the tree")
    box = runs.get_by_role("searchbox")
    box.fill("NEEDLE look")
    page.until(lambda: runs.get_by_role("status").inner_text() == "1 found", "one is found")
    assert runs.locator("button.rlm-runs-link:visible").all_inner_texts() == ["I look for the needle."]
    box.fill("")
    runs.get_by_role("checkbox", name="Errors only").check()
    page.until(lambda: runs.get_by_role("status").inner_text() == "1 found", "one has failed")
    assert runs.locator("button.rlm-runs-link:visible").all_inner_texts() == ["1 / 0"]
    runs.get_by_role("checkbox", name="Errors only").uncheck()

    # half way: an export that can be looked at, though the kernel is busy
    runs.get_by_role("button", name="Export HTML").click()
    half = exported(page)
    html = half.read_text("utf-8")
    assert "haystack" in html
    assert "7 cm" not in html
    page.until(lambda: page.page.locator(".jp-HTMLViewer").count(), "it is opened")
    page.page.evaluate("window.jupyterapp.shell.currentWidget.close()")
    page.until(lambda: page.page.evaluate("Boolean(window.jupyterapp.shell.currentWidget?.content)"), "the notebook")
    dismiss(page)
    assert page.cells()[2]["execution_count"] is None

    model.let(1)
    page.until(lambda: page.live("answer"), "the answer")
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    page.picture("controls-light", 800)
    theme(page, "JupyterLab Dark")
    page.picture("controls-dark", 600)
    theme(page, "JupyterLab Light")

    # folded as it was left, and seen in the panel without ever having run in this page
    bar_of(page).get_by_role("button", name="Fold").click()
    page.until(lambda: page.page.locator(".rlm-live:visible").count() == 0, "the cells are hidden")
    page.command("docmanager:save")
    assert "/" not in json.dumps(json.loads(page.path.read_text())["cells"][2]["metadata"])
    before = len(page.live())
    page.close()
    page.page.evaluate("sessionStorage.clear()")
    page.open()
    bar = bar_of(page)
    page.until(lambda: "Answered · 3 iterations" in bar.inner_text(), "the bar")
    assert (len(page.live()), page.page.locator(".rlm-live:visible").count()) == (before, 0)
    page.until(lambda: "Iteration 2" in runs.inner_text(), "the tree of the saved run")
    assert "How long is the needle?" in runs.inner_text()
    bar.get_by_role("button", name="Unfold").click()
    page.until(lambda: page.page.locator(".rlm-live:visible").count() > 0, "the cells are shown")
    # its line is gone with the kernel that ran it, and what is saved can be sent all the same
    runs.get_by_role("button", name="Export HTML").click()
    whole = exported(page)
    assert "7 cm" in whole.read_text("utf-8")
    # the file written half way stays as it was: it may have been edited since
    assert whole != half
    assert half.read_text("utf-8") == html
    page.until(lambda: page.page.locator(".jp-HTMLViewer").count(), "it is opened")
    dismiss(page)
    page.page.evaluate("window.jupyterapp.shell.currentWidget.close()")
    page.until(lambda: page.page.evaluate("Boolean(window.jupyterapp.shell.currentWidget?.content)"), "the notebook")
    runs.get_by_role("button", name="Notebook").first.click()
    page.until(
        lambda: page.page.evaluate("window.jupyterapp.shell.currentWidget?.context?.path ?? ''").startswith(
            "rlm_runs/"
        ),
        "the run's own notebook",
    )
    page.page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    assert not page.errors


def test_what_a_lossy_line_swallows_is_said_again(opened: Open, model: Waiting) -> None:
    model.play([LOOK, "Go on.\n```repl\nprint('on')\n```", FINAL], opened=1)
    page = opened("text = 'x' * 10", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(
        lambda: page.live("code") and page.live("code")[0]["metadata"]["rlm"].get("count"), "the first iteration"
    )
    page.page.evaluate(HEARD)
    page.page.evaluate(DROP, 2)
    bar = bar_of(page)
    bar.get_by_role("button", name="Message").click()
    fill_dialog(page, "mind the gap")
    bar.get_by_role("button", name="Pause").click()
    page.until(lambda: page.page.evaluate("window.rlmDropped") == 2, "two messages are lost")
    page.until(lambda: page.page.evaluate("window.rlmHeard") >= 2, "the kernel has heard both all the same")
    model.let(1)
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase='paused']").count(), "the run waits")
    bar.get_by_role("button", name="Resume").click()
    page.until(lambda: "mind the gap" in json.dumps(model.requests[-1].body), "the note is read")
    assert json.dumps(model.requests[-1].body).count("mind the gap") == 1

    # never heard: said when the run is over
    page.page.evaluate(DROP, 1000)
    bar.get_by_role("button", name="Message").click()
    fill_dialog(page, "into the void")
    model.let(1)
    page.until(lambda: page.live("answer"), "the answer")
    page.until(lambda: "read your message: into the void" in notices(page), "what was lost")
    page.page.evaluate("() => { WebSocket.prototype.send = window.rlmSend; }")
    dismiss(page)
    assert not page.errors


def test_whatever_comes_over_the_line_the_run_goes_on(opened: Open, model: Waiting) -> None:
    model.play([LOOK, WRONG, FINAL], opened=1)
    page = opened(
        "text = 'x' * 10",
        ASK,
        "get_ipython().magics_manager.magics['cell'].pop('rlm') and None",
        "%%rlm\nIs anybody there?",
    )
    comm = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel._comms.get('rlm-user-2')"
    page.run("user-1")
    page.run("user-2")
    page.until(
        lambda: page.live("code") and page.live("code")[0]["metadata"]["rlm"].get("count"), "the first iteration"
    )
    # malformed: said once, and the cells are whole in the end
    run = page.live()[0]["metadata"]["rlm"]["run"]
    for data in (
        {"v": 1, "run": run, "seq": 900, "items": [{"item": "cell"}, {"item": "source", "id": 7}, None]},
        {"v": 7, "run": run, "seq": 901},
        None,
    ):
        page.page.evaluate(f"data => {{ {comm}.onMsg({{ content: {{ data }} }}); }}", data)
    page.until(lambda: "cannot be shown here" in notices(page), "that it was not understood")
    assert page.page.locator(".Toastify__toast").count() == 1
    dismiss(page)
    # the kernel hangs up: said in the bar, and the run is saved all the same
    page.page.evaluate(f"{comm}.onClose({{ content: {{}} }})")
    page.until(lambda: "its notebook is saved" in bar_of(page).inner_text(), "that it goes on unseen")
    model.let(2)
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    assert "7 cm" in json.dumps(page.cells()[2]["outputs"])
    record = max((page.path.parent / "rlm_runs").glob("*.ipynb"), key=lambda path: path.stat().st_mtime)
    assert "7 cm" in record.read_text("utf-8")

    # a kernel that does not know the magic
    page.run("user-3")
    page.run("user-4")
    page.until(lambda: "This kernel does not know %rlm" in notices(page), "what is missing")
    dismiss(page)
    assert not page.errors


def test_everything_is_reached_by_keys(opened: Open, model: Waiting) -> None:
    model.play([Said(LOOK), FINAL], opened=1)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    bar = bar_of(page)
    page.until(lambda: bar.get_by_role("button", name="Run:").count(), "a cell that waits")
    assert page.page.get_by_role("group", name="Run of the model").count() == 1
    page.page.locator(".rlm-approve:visible").focus()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Shift+Tab")
    for name in ("Run", "Refuse…", "Stop", "Pause", "Message…", "Limits…", "Fold"):
        assert re.match(f"{name}: ", focused(page)), (name, focused(page))
        outline = page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", name
        page.page.keyboard.press("Tab")
    # a key on a button is meant for it: `b` would insert a cell
    page.page.locator(".rlm-fold:visible").focus()
    count = len(page.cells())
    page.page.keyboard.press("b")
    page.page.wait_for_timeout(200)
    assert len(page.cells()) == count
    # one that goes away hands on the focus, but not to the one that ends the run
    page.page.locator(".rlm-pause:visible").focus()
    page.page.keyboard.press("Space")
    page.page.locator(".rlm-approve:visible").focus()
    page.page.keyboard.press("Enter")
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase='paused']").count(), "it runs, and the run waits")
    assert re.match("Resume: ", focused(page))
    page.page.keyboard.press("Enter")
    page.until(lambda: re.match("Pause: ", focused(page)), "the focus is on the button in its place")
    assert page.page.locator(".jp-mod-editMode .rlm-bar:focus-within").count() == 0

    page.command("rlm:runs")
    runs = page.page.locator("#rlm-runs")
    page.until(lambda: "Iteration 1" in runs.inner_text(), "the tree")
    runs.get_by_role("searchbox").focus()
    for name in (
        "Errors only|^$",
        "needle",
        "^Cell$",
        "^Stop$",
        "^Notebook$",
        "^Export ipynb$",
        "^Export HTML$",
        "^Export JSONL$",
    ):
        page.page.keyboard.press("Tab")
        assert re.search(name, focused(page)), (name, focused(page))
    tab_to(page, "^Iteration 1", 6)
    page.page.keyboard.press("Enter")  # opens or closes it
    # the focus stays while the tree grows
    model.let(1)
    page.until(lambda: bar.get_by_role("button", name="Run:").count(), "the next cell waits")
    page.page.wait_for_timeout(600)
    assert focused(page).startswith("Iteration 1")
    page.command("rlm:approve")
    page.until(lambda: page.live("answer"), "the answer")
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    assert "haystack" in texts(page.live("code")[0])
    assert not page.errors


def test_a_run_whose_cell_is_deleted_is_stopped_from_the_panel(opened: Open, model: Waiting) -> None:
    model.play([LOOK, FINAL], opened=1)
    page = opened("text = 'x' * 10", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: [c for c in page.live("code") if c["metadata"]["rlm"].get("count")], "an iteration")
    page.command("notebook:delete-cell", on="user-2")
    page.until(lambda: not bar_of(page).count(), "the bar is gone with its cell")
    page.command("rlm:runs")
    stop = page.page.locator("#rlm-runs").get_by_role("button", name="Stop")
    page.until(lambda: stop.count(), "Stop")
    page.picture("panel-stop", 300)
    stop.click()
    page.until(lambda: page.page.locator("#rlm-runs [data-rlm-outcome='cancelled']").count(), "the run is over")
    assert not stop.count()
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    assert not page.errors


def test_a_stop_is_said_once_and_its_clock_stood_still_while_it_was_paused(opened: Open, model: Waiting) -> None:
    slow = "```repl\nimport time\nwhile True:\n    time.sleep(0.05)\n```"
    model.play([LOOK, slow], opened=1)
    page = opened("text = 'x' * 10", ASK.replace("--rerun", "--rerun --approve"))
    page.run("user-1")
    page.run("user-2")
    bar, clock = bar_of(page), bar_of(page).locator(".rlm-bar-clock")
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
    before = clock.inner_text()
    page.page.wait_for_timeout(2500)
    assert clock.inner_text() == before
    bar.get_by_role("button", name="Pause").click()
    bar.get_by_role("button", name="Run:").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase='paused']").count(), "the run waits")
    before = clock.inner_text()
    page.page.wait_for_timeout(2500)
    assert clock.inner_text() == before
    page.command("docmanager:save")
    page.window.load()
    page.open(busy=True)
    page.until(lambda: "Paused · iteration 1 / 30" in bar.inner_text(), "what the run is at")
    assert int(clock.inner_text().removesuffix(" s")) <= int(before.removesuffix(" s")) + 1
    bar.get_by_role("button", name="Resume").click()
    model.let()
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "the next cell waits")
    bar.get_by_role("button", name="Run:").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase='running']").count(), "it runs")
    bar.get_by_role("button", name="Stop").click()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-outcome='cancelled']").count(), "it is stopped")
    page.until(lambda: page.cells()[2]["execution_count"], "the end of the cell that asked")
    page.picture("stopped", 500)
    assert not notices(page)
    # what a person wanted is no error, in the panel or in its tab
    assert not page.until_still(lambda: page.page.locator(".rlm-tab-errors").count())
    page.command("rlm:runs")
    runs = page.page.locator("#rlm-runs")
    page.until(lambda: "Stopped by you" in runs.inner_text(), "the state in the panel")
    assert "✕" not in runs.inner_text()
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    # the buttons are the bar's, its words are for those who listen
    assert bar.locator(".rlm-bar-words").bounding_box()["width"] <= 1
    assert bar.get_by_role("status").first.inner_text() == "Stopped by you · 2 iterations"
    words = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").all_inner_texts()
    # the headline, and the bar, for those who listen
    assert sum(len(re.findall("(?i)stop(?:ped)?", text)) for text in words) == 2, words
    assert not page.errors


def test_settings_are_found_and_hold_for_what_a_cell_does_not_say(opened: Open, model: Waiting, window: Window) -> None:
    plugin = "rlm-jupyter:plugin"
    try:
        window.set(plugin, "model", "openai/from-the-settings")
        window.set(plugin, "max_iterations", 7)
        model.play(
            ["```repl\nFINAL('one')\n```", "```repl\nFINAL('two')\n```", "```repl\nFINAL('three')\n```"], opened=3
        )
        ask = "%%rlm -c text --rerun{}\nHow long is it?"
        config = "%config RLMMagics.model = 'openai/configured'"
        page = opened("text = 'x'", ask.format(""), ask.format(" -m openai/named --max-iterations 3"), config)
        page.run("user-1")
        said = "[rlm_result.trajectory.started.model, rlm_result.trajectory.started.limits['max_iterations']]"
        for cell, seen in (("user-2", ["openai/from-the-settings", 7]), ("user-3", ["openai/named", 3])):
            page.run(cell)
            page.until(partial(is_answered, page, cell), "the answer")
            assert told(page, said) == seen
        page.run("user-4")
        page.run("user-2")
        page.until(lambda: told(page, said) == ["openai/configured", 7], "what is configured in the notebook")

        # both are found by the name that people know
        page.command("settingeditor:open")
        entry = page.page.locator(".jp-PluginList-entry", has_text="RLM: Recursive Language Model")
        for words in ("limits", "max_cost", "sandbox", "default model", "rlm"):
            page.page.locator(".jp-PluginList input").first.fill(words)
            page.until(lambda: entry.count() == 1, f"the settings, by {words!r}")
        entry.first.click()
        page.until(lambda: page.page.get_by_text("Default model").count(), "the form")
        sandbox = page.page.locator("select[id$='sandbox']")
        assert sandbox.locator("option:checked").inner_text() == "as usual: what RLM_SANDBOX names, else auto"
        page.picture("settings", 500)
        page.page.evaluate("window.jupyterapp.shell.currentWidget.close()")
        page.command("apputils:activate-command-palette")
        page.page.keyboard.type("rlm")
        page.until(
            lambda: page.page.locator(".lm-CommandPalette-item[data-command='rlm:runs']").count(), "the commands"
        )
        items = page.page.locator(".lm-CommandPalette-itemLabel")
        page.until(lambda: items.nth(5).inner_text().startswith("RLM: "), "that they come first")
        page.picture("palette", 300)
        page.page.keyboard.press("Escape")
        assert not page.errors
    finally:
        window.set(plugin, "model", None)
        window.set(plugin, "max_iterations", None)


def is_answered(page: NotebookPage, cell_id: str) -> bool:
    return (
        bool(page.live("answer"))
        and next(cell for cell in page.cells() if cell["id"] == cell_id)["execution_count"] is not None
    )


def told(page: NotebookPage, expression: str) -> Any:
    """What an expression is in the kernel, by way of a page's own request."""
    text = page.page.evaluate(
        """async expression => {
        const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
        const future = kernel.requestExecute({ code: '', silent: true, user_expressions: { said: expression } });
        const { content } = await future.done;
        return content.user_expressions.said.data['text/plain']; }""",
        f"__import__('json').dumps({expression})",
    )
    return json.loads(text[1:-1])


def test_a_press_on_stop_counts_though_the_buttons_change_meanwhile(opened: Open, model: Waiting) -> None:
    model.play([LOOK, WRONG, FINAL], opened=1)
    page = opened("text = 'x' * 10", ASK)
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.live("code") and page.live("code")[0]["metadata"]["rlm"].get("count"), "an iteration")
    page.until_still(lambda: bar_of(page).bounding_box())
    bar_of(page).locator(".rlm-stop").hover()
    page.page.mouse.down()
    page.command("rlm:pause")
    model.let(1)
    page.until(lambda: bar_of(page).get_by_role("button", name="Resume:").count(), "that it is paused")
    page.page.mouse.up()
    page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase=ended]").count(), "that it is over")
    assert "stopped" in bar_of(page).inner_text().lower()
    assert not page.errors
