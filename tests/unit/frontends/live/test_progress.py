"""The two ways of showing a run, with the publisher of a real shell."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher

from rlm_jupyter.frontends.live import progress
from rlm_jupyter.frontends.live import versions as frontend
from rlm_jupyter.types.events import Event, OutputsShown
from tests.unit.frontends.live.test_view import ended, reply, started


def iteration(index: int) -> list[Event]:
    return [reply(index, "prose"), OutputsShown(index, "shown")]


class Page:
    """As much of a notebook's shell as is asked for: a publisher that keeps what it was given."""

    kernel = True

    def __init__(self) -> None:
        self.display_pub = CapturingDisplayPublisher()

    def shown(self, update: bool) -> list[dict[str, Any]]:
        return [output for output in self.display_pub.outputs if output["update"] is update]


def test_two_displays_are_updated_and_seldom() -> None:
    page = Page()
    shown = progress.start(page)
    began = time.monotonic()
    shown(started())
    for index in range(1, 300):
        shown(reply(index, f"prose {index}"))
        time.sleep(0.004)
    time.sleep(0.6)
    run_so_far, seconds = len(page.shown(update=True)), time.monotonic() - began
    shown(ended())
    shown.end()
    ids = {output["transient"]["display_id"] for output in page.display_pub.outputs}
    assert len(ids) == 2
    assert len(page.shown(update=False)) == 2
    assert 2 <= run_so_far <= 2 + 4 * seconds  # twice a second, two displays
    last = {output["transient"]["display_id"]: output["data"] for output in page.display_pub.outputs}
    first, second = last.values()
    assert "Answered" in first["text/html"]
    assert first["text/plain"].startswith("Answered · 299 iterations")
    assert "Steps" in second["text/html"]


@pytest.mark.parametrize(
    ("installed", "is_old"), [("4.1.8", True), ("4.2.0", False), ("5.0.0a1", False), (None, False)]
)
def test_a_page_that_is_too_old_for_live_cells_is_named(
    installed: str | None, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(frontend, "version", version)
    monkeypatch.setattr(frontend, "too_old", frontend.too_old.__wrapped__)
    assert ("too old" in frontend.too_old()) is is_old
    assert (f"JupyterLab {installed} is" in frontend.too_old()) is is_old


def test_nothing_is_published_after_the_end() -> None:
    page = Page()
    shown = progress.start(page)
    shown.end(failed=True)
    before = len(page.display_pub.outputs)
    time.sleep(1.2)
    assert len(page.display_pub.outputs) == before
    # it never began: the error of its cell, which comes next, says all there is to say
    assert page.display_pub.outputs[-2]["data"] == {"text/html": "", "text/plain": ""}


def test_completed_iterations_are_published_only_when_there_is_a_new_one() -> None:
    page = Page()
    shown = progress.start(page)
    for event in (started(), reply(1, "prose")):
        shown(event)
    until = time.monotonic() + 30
    while len(page.shown(update=True)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    second = page.display_pub.outputs[1]["transient"]["display_id"]
    ticks = page.shown(update=True)
    assert len(ticks) >= 2  # the clock goes on
    assert all(output["transient"]["display_id"] != second for output in ticks)
    shown.end()


def test_a_terminal_gets_a_line_for_each_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress.start(object())
    for event in (started(), *iteration(1), *iteration(2), ended()):
        shown(event)
    shown.end()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:18] for line in lines] == ["iteration 1 of 30:", "iteration 2 of 30:", "Answered · 2 itera"]
