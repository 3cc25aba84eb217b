"""One JupyterLab and one browser for all tests here, and a model that waits until it is told to reply."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.loopback import Fault, Loopback, Request, Said

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
if find_spec("jupyterlab") is None:  # it takes a second to import, and is run in a process of its own
    pytest.skip("JupyterLab is not installed", allow_module_level=True)

from playwright.sync_api import Browser, sync_playwright

from tests.jupyterlab.lab import ASSETS, CHROMIUM, FLAGS, PICTURES, Lab, NotebookPage, Window, running_lab


class Waiting(Loopback):
    """A server whose replies are given out one by one, so that what a page shows in between can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self._script: list[str | Said] = []
        self._turns: list[str] = []
        self._open = threading.Semaphore(0)

    def play(self, replies: list[str | Said], *, opened: int = 0) -> None:
        """Take these replies; `opened` of them are given at once."""
        self._script, self._turns = list(replies), []
        self._open = threading.Semaphore(opened)

    def play_turns(self, replies: list[str]) -> None:
        """Reply by how far a conversation is: several runs go on at once. The first is given at once."""
        self.play([])
        self._turns = replies

    def let(self, count: int = 1) -> None:
        """Let so many more replies out."""
        self._open.release(count)

    async def reply_to(self, request: Request) -> Said | Fault:
        """A sub-call is answered at once, the rest when it is let."""
        messages = request.messages
        if len(messages) == 1:
            return Said(f"**heard** {messages[0]['content'][:20]}", input_tokens=7, output_tokens=3)
        turn = sum(message["role"] == "assistant" for message in messages)
        gate = self._open
        while not (self._turns and not turn) and not gate.acquire(blocking=False):
            await asyncio.sleep(0.02)
        if self._turns:
            return Said(self._turns[min(turn, len(self._turns) - 1)])
        said = self._script.pop(0) if self._script else "```repl\nFINAL('nothing is left in the script')\n```"
        return Said(said) if isinstance(said, str) else said


@pytest.fixture(scope="session")
def model() -> Iterator[Waiting]:
    with Waiting() as server:
        yield server


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots go: those of what failed, and all of them where `RLM_PICTURES` names a place."""
    place = Path(os.environ.get(PICTURES) or tempfile.mkdtemp(prefix="rlm-pictures-"))
    place.mkdir(parents=True, exist_ok=True)
    return place


def check_ready() -> None:
    """Skip where there is no browser or no built extension; in CI that is a failure."""
    missing = [str(path) for path in (CHROMIUM, ASSETS / "package.json") if not path.exists()]
    if missing:
        reason = f"not there: {', '.join(missing)} (a browser, or the built extension: jlpm build:prod)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab(model: Waiting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    check_ready()
    with running_lab(tmp_path_factory.mktemp("lab"), model.openai_url) as lab:
        yield lab


# Playwright keeps its event loop running in this thread: gone with the package, it is in no async test's way
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    check_ready()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def window(browser: Browser, lab: Lab, pictures: Path) -> Window:
    return Window(browser, lab, pictures)


WINDOWING = ("@jupyterlab/notebook-extension:tracker", "windowingMode")
"""The setting of how Lab leaves out what is not in view."""


@pytest.fixture
def _full_windowing(window: Window) -> Iterator[None]:
    """For notebooks that are opened from now on, what is out of view is not in the page: the default of 4.2."""
    window.set(*WINDOWING, "full")
    yield
    window.set(*WINDOWING, None)


Open = Callable[..., NotebookPage]

FIRST = """%load_ext rlm_jupyter
from rlm_jupyter.frontends.live import comm
comm._NEW_PAGE_SECONDS = comm._KNOWN_PAGE_SECONDS = 30.0
del comm"""
"""On a busy machine a page takes long to say that its buttons work; no test here wants to be asked otherwise."""


@pytest.fixture
def opened(lab: Lab, window: Window, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a notebook of these cells; the first one loads the extension and is executed."""
    pages: list[NotebookPage] = []

    def open_notebook(*sources: str, path: Path | None = None) -> NotebookPage:
        where = path or lab.write(f"{request.node.name}.ipynb", [FIRST, *sources])
        page = NotebookPage(window, where)
        pages[:] = [page]
        page.open()
        if path is None:
            page.run("user-0")
            page.until(lambda: page.cells()[0]["execution_count"], "the extension is loaded")
        return page

    yield open_notebook
    for page in pages:
        page.close()
    window.clear()
