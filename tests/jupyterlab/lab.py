"""A real JupyterLab in a folder of its own, and one of its pages in a real browser."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

ASSETS = Path(__file__).parents[2] / "rlm_jupyter" / "labextension"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
TOKEN = "for-the-tests"
"""Of a server on 127.0.0.1 that lives as long as a test."""
PICTURES = "RLM_PICTURES"
"""Names a place for pictures of what a person would look at; without it, none is taken of what goes well."""
PYTHON = os.environ.get("RLM_LAB_PYTHON") or sys.executable
"""Runs JupyterLab and its kernels: that of another environment tests another JupyterLab."""
_SELECT = """const notebook = window.jupyterapp.shell.currentWidget.content;
notebook.activeCellIndex = notebook.widgets.findIndex(widget => widget.model.id === cell);"""
_UP_SECONDS = 60.0
_STILL_SECONDS = 0.4
_OF_LAB = (
    # it looks once more at the cells of a notebook or a view that was closed
    "_runOnIdleTime",
    "_cellToolbarOverlapsContents",
    "estimateWidgetSize",
    # cells have come while it drew those in view: it draws them with the next change
    "Inconsistent dataset index",
    # Notebook loads its toolbar before the settings of all plugins are there
    "reading 'schema'",
    # Notebook 7.2 shows when a notebook was saved before it knows
    "reading 'last_modified'",
    # a notebook, or a file, was closed while its kernel was started or it was saved
    "Error: Disposed",
    # a kernel closes a comm that this page has not: ipywidgets' "jupyter.widget.control" after a restart, or that of an
    # earlier run, begun before the page was loaded, whose cell runs again
    "Comm not found for comm id",
    # it asks for the debugger's state (4.2), or for a subshell for comms, and the kernel is restarted or gone meanwhile
    "Canceled future for debug_request",
    "Canceled future for create_subshell_request",
)
"""In errors of JupyterLab's and Notebook's own, which come without our extension, too."""


class Lab:
    """A server that is up."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"

    def write(self, name: str, sources: Sequence[str]) -> Path:
        """A notebook with these code cells."""
        cells = [nbformat.v4.new_code_cell(source, id=f"user-{place}") for place, source in enumerate(sources)]
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def get(self, address: str) -> Any:
        """What the server's API says."""
        with urllib.request.urlopen(f"{self.url}/{address}?token={TOKEN}", timeout=10) as response:
            return json.load(response)


@contextmanager
def running_lab(
    folder: Path, model_url: str, application: str = "jupyterlab", *, installed: Path | None = None
) -> Iterator[Lab]:
    """JupyterLab over `folder / "work"`, with no setting, kernel or extension but its own and ours.

    `application` is the module that is run: Notebook's is `notebook`. `installed` is the Python of an environment
    with an extension of its own, which is taken as it is.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "IPYTHONDIR": folder / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
    }
    work = folder / "work"
    for place in (*places.values(), work):
        place.mkdir(parents=True)
    # else a question about news covers a corner of the page
    news = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    if installed is None:
        extensions = folder / "data" / "labextensions"
        extensions.mkdir()
        (extensions / "rlm-jupyter").symlink_to(ASSETS)
    environment = {
        **os.environ,
        **{name: str(place) for name, place in places.items()},
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "k",
    }
    # else the extension that was installed with the environment comes before the one that was built last
    environment["JUPYTER_PREFER_ENV_PATH"] = "0" if installed is None else "1"
    environment.pop("JUPYTER_TOKEN", None)
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={work}",
        "--expose-app-in-browser",
    ]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [str(installed or PYTHON), "-m", application, *options],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _answering(work, folder, server)
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)


def _answering(work: Path, folder: Path, server: subprocess.Popen[bytes]) -> Lab:
    """Wait until the server answers; it has another port than it was given where that one was taken meanwhile."""
    told = folder / "runtime" / f"jpserver-{server.pid}.json"
    deadline = time.monotonic() + _UP_SECONDS
    while True:
        assert server.poll() is None, (folder / "server.log").read_text()
        try:
            lab = Lab(work, json.loads(told.read_bytes())["port"])
            lab.get("api/status")
        except (OSError, ValueError):
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.2)
        else:
            return lab


class Window:
    """A page of the browser with JupyterLab in it; loaded once, since that takes longer than most tests.

    `place` is what is opened of the server's: in Notebook each notebook has a page of its own.
    """

    def __init__(self, browser: Browser, lab: Lab, pictures: Path, place: str = "lab") -> None:
        self.lab = lab
        self.place = place
        self.pictures = pictures
        self.page: Page = browser.new_context(viewport={"width": 1200, "height": 1000}).new_page()
        self.errors: list[str] = []
        self.complaints: list[str] = []
        """What was written to the console as an error."""
        self.page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        self.page.on("console", self._listen)
        self.load()

    def _listen(self, said: ConsoleMessage) -> None:
        # a server's 404 is for what need not be there
        if said.type == "error" and "Failed to load resource" not in said.text:
            self.complaints.append(said.text)

    def set(self, plugin: str, name: str, value: object) -> None:
        """Change a setting, for what is opened from now on; `None`: as it is by default."""
        self.page.evaluate(
            """([plugin, name, value]) => { const app = window.jupyterapp;
            const plugins = app.pluginRegistry?._plugins ?? app._plugins;
            const settings = plugins.get('@jupyterlab/apputils-extension:settings').service;
            return value === null ? settings.remove(plugin, name) : settings.set(plugin, name, value); }""",
            [plugin, name, value],
        )

    def load(self) -> None:
        """Load the page, or load it again."""
        self.page.goto(f"{self.lab.url}/{self.place}?token={TOKEN}&reset", wait_until="commit")
        self.page.wait_for_function("window.jupyterapp?.commands.hasCommand('docmanager:open')", timeout=60_000)
        self.page.evaluate("window.jupyterapp.restored.then(() => undefined)")

    def reload(self) -> None:
        """Load the page again, as a person does: what was open is opened again."""
        self.page.reload(wait_until="commit")
        self.page.wait_for_function("window.jupyterapp?.commands.hasCommand('docmanager:open')", timeout=60_000)
        self.page.evaluate("window.jupyterapp.restored.then(() => undefined)")
        self.page.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.isReady", timeout=60_000)

    def close(self) -> None:
        """Close the page."""
        self.page.context.close()

    def clear(self) -> None:
        """Take away what a test has left in the page, so that the next one begins with none of it."""
        self.page.evaluate(
            """async () => { const { shell } = window.jupyterapp;
            document.querySelectorAll('.jp-Dialog').forEach(dialog => dialog.remove());
            document.querySelectorAll('.jp-Notification-Toast-Close').forEach(button => button.click());
            for (const widget of Array.from(shell.widgets('main'))) {
                if (widget.context) { await widget.sessionContext?.shutdown(); widget.dispose(); }
            }
            shell.collapseRight?.(); }"""
        )
        self.errors.clear()
        self.complaints.clear()


class NotebookPage:
    """A notebook that is open in a window."""

    def __init__(self, window: Window, path: Path) -> None:
        self.window, self.path = window, path
        self.page = window.page

    @property
    def errors(self) -> list[str]:
        return [error for error in self.window.errors if not any(name in error for name in _OF_LAB)]

    @property
    def complaints(self) -> list[str]:
        """What was written to the console as an error, less what Lab says without us, too."""
        return [said for said in self.window.complaints if not any(name in said for name in _OF_LAB)]

    def open(self, *, busy: bool = False) -> None:
        """Open it in JupyterLab; a kernel that is `busy` says nothing to a new page."""
        self.page.evaluate(
            "path => window.jupyterapp.commands.execute('docmanager:open', {path}).then(() => undefined)",
            self.path.name,
        )
        self.until_ready(busy=busy)

    def until_ready(self, *, busy: bool = False) -> None:
        """Wait until it is open, and its kernel is there."""
        self.page.wait_for_function(
            """([path, busy]) => { const panel = window.jupyterapp.shell.currentWidget;
            const kernel = panel?.sessionContext?.session?.kernel;
            return panel?.context?.path === path && panel.context.isReady
            && (kernel?.status === 'idle' || (busy && kernel?.connectionStatus === 'connected')); }""",
            arg=[self.path.name, busy],
            timeout=40_000,
        )

    def run(self, cell_id: str) -> None:
        """Execute a cell as Ctrl-Enter does."""
        self.command("notebook:run-cell", on=cell_id, wait=False)

    def select(self, cell_id: str) -> None:
        """Make a cell the active one."""
        self.page.evaluate(f"([cell]) => {{ {_SELECT} }}", [cell_id])

    def command(self, command: str, *, on: str | None = None, wait: bool = True) -> None:
        """Execute a command of the page's; with `on`, for that cell, before focus that moves late can choose another."""
        self.page.evaluate(
            f"""([cell, command]) => {{ if (cell !== null) {{ {_SELECT} }}
            const done = window.jupyterapp.commands.execute(command);
            {"return done.then(() => undefined);" if wait else "done.catch(() => {});"} }}""",
            [on, command],
        )

    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells, as they are in the page now."""
        found = self.page.evaluate(
            """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells, model => (
            { ...model.toJSON(), id: model.id, trusted: model.trusted }))"""
        )
        return [{**cell, "source": "".join(cell["source"])} for cell in found]

    def live(self, role: str | None = None) -> list[dict[str, Any]]:
        """The cells of runs among them; the lines above and below a run's only where they are asked for."""
        cells = [cell for cell in self.cells() if cell["id"].startswith("rlm-") and "rlm" in cell["metadata"]]
        cells = [cell for cell in cells if not cell["metadata"]["rlm"].get("left")]
        return [
            cell
            for cell in cells
            if (found := cell["metadata"]["rlm"]["role"]) == role or (not role and found != "boundary")
        ]

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        """Wait until something holds, and give it back."""
        deadline = time.monotonic() + seconds
        while not (found := _or_none(holds)):
            if time.monotonic() > deadline:
                self._shoot(f"late-{what.replace(' ', '-')}")
                raise AssertionError(f"not seen: {what}\n{json.dumps(self.cells(), indent=1)[:6000]}\n{self.errors}")
            self.page.wait_for_timeout(50)
        return found

    def until_still(self, look: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until what is looked at has been the same for `_STILL_SECONDS`, and give it back."""
        deadline = time.monotonic() + seconds
        seen, since = look(), time.monotonic()
        while time.monotonic() - since < _STILL_SECONDS:
            assert time.monotonic() < deadline, "it never comes to rest"
            self.page.wait_for_timeout(50)
            if (now := look()) != seen:
                seen, since = now, time.monotonic()
        return seen

    def cell(self, cell_id: str) -> Locator:
        """A cell's element, scrolled to. That of a live cell has its label.

        A cell out of view has no element, or that of a code cell is there, hidden, and has only the outputs in it.
        """
        place = [cell["id"] for cell in self.cells()].index(cell_id)
        element = self.page.locator(
            f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index='{place}']"
        )
        if not element.is_visible():
            self.page.evaluate(
                "place => { void window.jupyterapp.shell.currentWidget.content.scrollToItem(place); }", place
            )
        return element

    def picture(self, name: str, settled: int = 0) -> None:
        """A screenshot, where somebody wants to see it; `settled`: once nothing has moved for so many milliseconds."""
        if PICTURES in os.environ:
            self.page.wait_for_timeout(settled)
            self._shoot(name)

    def _shoot(self, name: str) -> None:
        self.page.screenshot(path=self.window.pictures / f"{name}.png")

    def close(self) -> None:
        """Close the notebook, and end its kernel."""
        self.page.evaluate(
            """async () => { const panel = window.jupyterapp.shell.currentWidget;
            if (panel?.context) { await panel.sessionContext.shutdown(); await panel.context.revert(); panel.dispose(); }
            }"""
        )


def texts(cell: dict[str, Any]) -> str:
    """What a cell's outputs say in plain text."""
    said = []
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        said.append("".join(text))
    return "".join(said)


def _or_none(holds: Callable[[], Any]) -> Any:
    """Nothing, where what is looked at is not there yet."""
    try:
        return holds()
    except (IndexError, KeyError):
        return None
