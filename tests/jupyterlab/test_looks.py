"""How runs look: contrast in both themes, and narrow windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.jupyterlab.conftest import Open, Waiting
from tests.jupyterlab.lab import NotebookPage, Window
from tests.support.loopback import Fault

pytestmark = pytest.mark.slow

ASK = "%%rlm -m openai/any -c text --rerun\nHow long is it?"
LOOK = (
    "I look at the **text**.\n```repl\nprint(len(context))\nanswers = llm_query_batched(['one?', 'two?'])\n```\n"
    "```repl\n1 / 0\n```\n```repl\nprint('never reached')\n```"
)
PROPOSED = "```repl\nprint('may I?')\n```"
THEMES = "@jupyterlab/apputils-extension:themes"
OURS = ".rlm-bar, .rlm-strip, .rlm-runs, .rlm-limits, .rlm-status, .rlm-live, .rlm-asked, .jp-OutputArea-output .rlm"
LEAST = 4.5
"""Contrast that WCAG asks for (AA)."""
_CONTRASTS = """selector => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (front, back) => front.slice(0, 3).map((c, i) => c * front[3] + back[i] * (1 - front[3]));
  const light = color => {
    const [r, g, b] = color.map(c => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // from the page down to the element: each background over the one before, each opacity over what is behind it
  const behind = element => {
    const line = [];
    for (let at = element; at; at = at.parentElement) { line.unshift(at); }
    let back = [255, 255, 255];
    for (const at of line) {
      const style = getComputedStyle(at);
      const color = rgba(style.backgroundColor);
      back = over([...color.slice(0, 3), color[3] * parseFloat(style.opacity)], back);
    }
    return { back, opacity: line.reduce((product, at) => product * parseFloat(getComputedStyle(at).opacity), 1) };
  };
  const found = new Map();
  for (const root of document.querySelectorAll(selector)) {
    for (const element of [root, ...root.querySelectorAll('*')]) {
      const text = [...element.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join('')
        || (element instanceof HTMLInputElement ? element.value || element.placeholder : '');
      // the editor's colours, and a traceback's, are the theme's own
      if (!text || element.closest('.cm-editor, .jp-InputPrompt, .jp-OutputPrompt, [class*=ansi-]') || !element.checkVisibility()) { continue; }
      if (getComputedStyle(element).clipPath !== 'none') { continue; }
      const { back, opacity } = behind(element);
      const isEmpty = element instanceof HTMLInputElement && !element.value;
      const color = rgba(getComputedStyle(element, isEmpty ? '::placeholder' : null).color);
      const front = over([...color.slice(0, 3), color[3] * opacity], back);
      const [low, high] = [light(front), light(back)].sort((a, b) => a - b);
      const contrast = (high + 0.05) / (low + 0.05);
      const name = `${element.tagName}.${element.className} in ${root.className}: ${text.slice(0, 40)}`;
      found.set(name, Math.min(contrast, found.get(name) ?? 99));
    }
  }
  return [...found];
}"""


_BARS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(c => {
      const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = light(getComputedStyle(document.body).getPropertyValue('--jp-layout-color0'));
  return [...document.querySelectorAll('.jp-Notebook .rlm-live')].map(cell => {
    const [low, high] = [light(getComputedStyle(cell).borderLeftColor), page].sort((a, b) => a - b);
    return [(high + 0.05) / (low + 0.05), cell.dataset.rlmRole];
  });
}"""
LEAST_OF_A_SHAPE = 3.0
"""Contrast that WCAG asks for where something is told by a shape."""


def faint_bars(page: NotebookPage) -> list[Any]:
    """Which of a model's code and prose can hardly be told from a person's."""
    found = [bar for bar in page.page.evaluate(_BARS) if bar[1] in {"code", "prose"}]
    assert found
    return [bar for bar in found if bar[0] < LEAST_OF_A_SHAPE]


def poor(page: NotebookPage) -> list[Any]:
    """What of ours is too faint to be read."""
    found = page.page.evaluate(_CONTRASTS, OURS)
    assert len(found) > 5
    return [(round(contrast, 2), name) for name, contrast in found if contrast < LEAST]


_CUT_OFF = """selector => [...document.querySelectorAll(selector)].flatMap(root => {
  if (!root.checkVisibility()) { return []; }
  const within = (root.closest('.jp-WindowedPanel-outer, .rlm-runs, .jp-Dialog-content') ?? root);
  const box = within.getBoundingClientRect();
  const beyond = [...root.querySelectorAll('button, input, table')].filter(button => {
    const { left, right, width } = button.getBoundingClientRect();
    return width && (left < box.left - 1 || right > Math.min(box.right, innerWidth) + 1);
  });
  const sideways = within.scrollWidth > within.clientWidth + 1 ? [`${within.className} scrolls sideways`] : [];
  return [...sideways, ...beyond.map(button => `${button.textContent || button.name} is cut off`)];
})"""


def cut_off(page: NotebookPage) -> list[str]:
    """What a person would have to scroll to, sideways."""
    found: list[str] = page.page.evaluate(_CUT_OFF, OURS)
    return sorted(set(found))


def approve(page: NotebookPage) -> None:
    """Approve the cell that waits."""

    def waiting() -> list[str]:
        return [cell["id"] for cell in page.live("code") if cell["metadata"]["rlm"]["status"] == "proposed"]

    [cell_id] = page.until(waiting, "a cell that waits")
    page.page.locator(".rlm-decide-run").click()
    page.until(lambda: cell_id not in waiting(), "that it is approved")


@pytest.fixture(params=["Light", "Dark"])
def theme(request: pytest.FixtureRequest, window: Window) -> Iterator[str]:
    def change(name: str) -> None:
        window.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => undefined)",
            name,
        )
        window.page.wait_for_function("dark => document.body.dataset.jpThemeLight === `${!dark}`", arg="Dark" in name)

    change(f"JupyterLab {request.param}")
    yield request.param
    change("JupyterLab Light")


def test_all_of_a_run_can_be_read_in_both_themes(opened: Open, model: Waiting, theme: str) -> None:
    model.play([LOOK, PROPOSED, Fault.status(401, "no such key")], opened=1)  # type: ignore[list-item]
    page = opened("text = 'x' * 1234", ASK.replace("--rerun", "--approve"), ASK)
    page.command("rlm:runs")
    page.run("user-1")
    page.run("user-2")
    bad: list[Any] = []
    for _ in range(2):
        page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
        bad += poor(page)
        approve(page)
    page.until(
        lambda: page.live("notice") or page.live("code")[2]["metadata"]["rlm"]["status"] == "skipped", "the end of it"
    )
    page.picture(f"looks-running-{theme}", 500)
    bad += poor(page) + faint_bars(page)
    page.page.locator(".rlm-bar .rlm-limits").click()
    page.page.locator("#rlm-limit-max_cost").fill("cheap")
    page.page.get_by_role("dialog").get_by_role("button", name="Set").click()
    page.until(lambda: page.page.locator(".rlm-limits-problem").count(), "what is wrong")
    page.picture(f"looks-limits-{theme}", 300)
    bad += poor(page)
    page.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.page.locator(".rlm-bar .rlm-pause").click()
    page.until(
        lambda: "Pauses before the next reply" in page.page.locator(".rlm-bar-said").last.inner_text(), "that it will"
    )
    bad += poor(page)
    model.let()
    page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
    approve(page)
    page.until(lambda: "Paused" in page.page.locator(".rlm-bar").last.inner_text(), "that it is paused")
    bad += poor(page)
    page.picture(f"looks-paused-{theme}", 300)
    page.page.locator(".rlm-bar .rlm-resume").click()
    page.page.locator(".rlm-bar .rlm-note").click()
    page.page.get_by_role("dialog").locator("input").fill("look there")
    page.page.get_by_role("dialog").get_by_role("button", name="Send").click()
    page.until(
        lambda: "Message received" in page.page.locator(".rlm-bar-said").last.inner_text(),
        "that the message is received",
    )
    page.page.evaluate("window.jupyterapp.shell.collapseRight()")
    model.let()
    page.until(lambda: "Failed" in page.page.locator(".rlm-bar").last.inner_text(), "that it failed")
    page.picture(f"looks-failed-{theme}", 500)
    bad += poor(page)
    # why it failed is said once, where it failed, with the way to what is saved
    cell = page.cell("user-2")
    page.until(lambda: cell.locator(".rlm-head a").count(), "the link to the run")
    page.until(lambda: "[*]" not in cell.locator(".jp-InputPrompt").first.inner_text(), "that the cell is over")
    page.until(lambda: "refused the key" in cell.inner_text(), "why it failed")
    assert cell.inner_text().count("refused the key") == 1
    # the panel marks what failed: in its tab until it was looked at, the run, and the iteration, which is folded
    tab = page.page.get_by_role("tab", name="RLM: Runs of This Notebook: 1 run with errors", exact=True)
    assert "✕" in tab.evaluate("tab => getComputedStyle(tab, '::before').content")
    assert tab.get_attribute("data-rlm-errors") == "1"
    page.command("rlm:runs")
    page.until(lambda: not page.page.locator(".rlm-tab-errors").count(), "that it was looked at")
    assert not page.page.locator(".rlm-runs", has_text="refused the key").count()
    runs = page.page.locator("#rlm-runs")
    runs.get_by_role("checkbox", name="Errors only").check()
    page.until(lambda: runs.get_by_role("status").inner_text() == "2 found", "the run that failed, and its cell")
    assert runs.locator("details.rlm-run:visible > summary .rlm-runs-errors").get_attribute("title") == "2 errors"
    runs.get_by_role("checkbox", name="Errors only").uncheck()
    # so does the run's bar, which leads there
    errors = page.page.locator(".rlm-bar .rlm-bar-errors")
    assert errors.inner_text() == "✕\u00a01 error"
    first = page.page.locator(".rlm-runs details details").first
    assert first.get_attribute("open") is None
    assert first.locator(".rlm-runs-errors").get_attribute("title") == "1 error"
    rows = page.page.locator(".rlm-runs details details > summary").all()
    heights = {box["height"] for box in [row.bounding_box() for row in rows] if box}
    assert len(heights) == 1
    assert all(row.evaluate("row => row.scrollWidth <= row.clientWidth") for row in rows)
    assert not bad
    assert not page.errors


def test_a_narrow_window_cuts_nothing_off(opened: Open, model: Waiting, window: Window) -> None:
    model.play([LOOK, PROPOSED], opened=1)
    page = opened("text = 'x' * 1234", ASK.replace("--rerun", "--approve"))
    try:
        page.page.set_viewport_size({"width": 700, "height": 900})
        page.run("user-1")
        page.run("user-2")
        for name in ("waiting", "running"):
            page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
            page.until_still(lambda: page.page.locator(".rlm-bar").bounding_box())
            page.picture(f"narrow-{name}", 300)
            assert cut_off(page) == []
            approve(page)
        page.until(lambda: not page.page.locator(".rlm-bar .rlm-approve").count(), "no cell waits")
        page.until_still(lambda: page.page.locator(".rlm-bar .rlm-limits").bounding_box())
        page.page.locator(".rlm-bar .rlm-limits").click()
        page.until(lambda: page.page.locator(".rlm-limits input").count(), "the form")
        page.picture("narrow-limits", 300)
        assert cut_off(page) == []
        page.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.page.evaluate("window.jupyterapp.shell.collapseLeft()")
        page.command("rlm:runs")
        page.page.locator(".rlm-bar .rlm-stop").click()
        page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase=ended]").count(), "that it is over")
        page.picture("narrow-panel", 300)
        assert cut_off(page) == []
        # and with both side bars open
        page.page.evaluate("window.jupyterapp.shell.expandLeft()")
        model.play([LOOK, PROPOSED], opened=1)
        page.run("user-2")
        page.until(lambda: page.page.locator(".rlm-proposal").count(), "a cell that waits")
        page.page.locator(".rlm-bar").scroll_into_view_if_needed()
        page.until_still(lambda: page.page.locator(".rlm-bar").bounding_box())
        page.picture("narrow-both", 300)
        assert cut_off(page) == []
        page.page.locator(".rlm-proposal").scroll_into_view_if_needed()
        page.picture("narrow-both-waiting", 300)
        assert cut_off(page) == []
        page.page.locator(".rlm-bar .rlm-stop").click()
        page.until(lambda: page.page.locator(".rlm-bar[data-rlm-phase=ended]").count(), "that it is over")
        assert cut_off(page) == []
        assert not page.errors
    finally:
        page.page.set_viewport_size({"width": 1200, "height": 1000})
        page.page.evaluate("window.jupyterapp.shell.expandLeft()")
