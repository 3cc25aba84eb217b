"""`LiveProgress`: shows a run while it goes on, in a notebook's page or in a terminal.

A page gets two displays that are updated in place, by nothing but `display_id`, which every front end has:
the headline with the iteration under way, at most twice a second; below it the completed iterations, only
when one is added, so that what a reader has unfolded stays so. A terminal gets one line for each iteration.
A page that shows the cells themselves (`comm`) gets the headline alone.
"""

from __future__ import annotations

import sys
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.display.view import WAITING, View
from rlm_jupyter.frontends.live.comm import LiveRun, open_live
from rlm_jupyter.frontends.live.versions import too_old
from rlm_jupyter.types.events import (
    CallDecided,
    CallProposed,
    CellDecided,
    CellProposed,
    Event,
    OutputsShown,
    RemarkMade,
)

if TYPE_CHECKING:
    from rich.live import Live

REST_SECONDS = 0.5
"""Between two updates, at least."""
_CLOCK_SECONDS = 1.0
"""Between two updates when nothing happens: the clock goes on."""


class LiveProgress(Protocol):
    """Shows one run: called with its events, then ended."""

    def __call__(self, event: Event) -> None:
        """Take in an event, from any thread; returns at once."""
        ...

    @property
    def has_buttons(self) -> bool | None:
        """Whether people can approve a cell where it is shown; `None`: that is not known yet."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether the page shows the cells themselves."""
        ...

    def steer(self, running: object) -> None:
        """Let people at the page stop, pause and approve this run."""
        ...

    def end(self, path: Path | None = None, *, title: str = "", below: str = "", failed: bool = False) -> None:
        """Show the last state.

        Parameters
        ----------
        path
            The run's notebook.
        title
            Stands above the headline.
        below
            HTML to show under it.
        failed
            The host failed: no last record may have come.
        """
        ...


def start(
    shell: Any, *, quiet: bool = False, kernel_is_there: bool = False, here: bool = False, hint: str = ""
) -> LiveProgress:
    """Return the progress that suits the front end of `shell`.

    Parameters
    ----------
    quiet
        In a terminal, print nothing but the last line: somebody is typing there.
    kernel_is_there
        None has to be started first.
    here
        The model drives this session's own kernel: what its cells put out, less their errors, is shown by itself, and
        they take the numbers after that of the cell that asks.
    hint
        What can be done while it goes on; a page shows it as long as that is so.
    """
    view = View(*([WAITING] if kernel_is_there else []), shows_outputs=not here)
    if getattr(shell, "kernel", None) is None:
        if hint:
            print(hint)  # noqa: T201
        return ConsoleProgress(quiet=quiet)
    return PageProgress(shell, view, here=here, hint=hint)


class ConsoleProgress:
    """Prints a line for each iteration, and below them, on a terminal, the headline, twice a second."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._view = View()
        self._quiet = quiet
        self._headline: Live | None = None
        if not quiet and sys.stdout.isatty():
            from rich.live import Live
            from rich.text import Text

            self._headline = Live(
                get_renderable=lambda: Text(self._view.text()),
                refresh_per_second=1 / REST_SECONDS,
                transient=True,
                redirect_stderr=False,
            )
            self._headline.start()

    def __call__(self, event: Event) -> None:
        """Take in an event; the completion of an iteration is printed."""
        self._view.apply(event)
        if isinstance(event, RemarkMade) and not self._quiet:
            print(event.text, flush=True)  # noqa: T201
        if isinstance(event, OutputsShown) and not self._quiet:
            print(self._view.summary, flush=True)  # noqa: T201
        if self._headline is not None and isinstance(event, CellProposed | CallProposed | CellDecided | CallDecided):
            # somebody is asked at the prompt, which a headline would overwrite
            self._headline.stop() if isinstance(event, CellProposed | CallProposed) else self._headline.start()

    @property
    def has_buttons(self) -> bool:
        """No."""
        return False

    @property
    def is_live(self) -> bool:
        """No."""
        return False

    def steer(self, running: object) -> None:
        """Do nothing: a terminal interrupts."""

    def end(self, path: Path | None = None, *, title: str = "", below: str = "", failed: bool = False) -> None:
        """Print how it ended."""
        if self._headline is not None:
            self._headline.stop()
        if failed:
            self._view.fail()
        parts = [part for part in (title, self._view.text(), str(path or "")) if part]
        print(" · ".join(parts), flush=True)  # noqa: T201


class PageProgress:
    """Updates two displays from a thread of its own."""

    def __init__(self, shell: Any, view: View | None = None, *, here: bool = False, hint: str = "") -> None:
        self._shell = shell
        self._hint = hint
        self._view = view or View()
        self._ids = uuid.uuid4().hex, uuid.uuid4().hex
        self._news = threading.Event()
        self._over = threading.Event()
        self._ended: tuple[Path | None, str, str] | None = None
        """What stands in the last state beside the run's numbers: its notebook, above it, below it."""
        self._drawing = threading.Lock()
        self._live: LiveRun | None = open_live(shell, here=here)
        if self._live is not None:
            self._live.on_shown = self._draw_last
        self._too_old = too_old() if self._live is not None else ""
        self._publish(self._ids[0], self._status(), update=False)
        self._publish(self._ids[1], "", update=False)
        self._thread = threading.Thread(target=self._keep_up, name="rlm_jupyter progress", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Take in an event; it is shown within half a second."""
        self._view.apply(event)
        if self._live is not None:
            self._live(event)
        self._news.set()

    @property
    def has_buttons(self) -> bool | None:
        """Whether the page shows the cells, and is heard while they run; `None`: it may still say so."""
        return False if self._live is None else self._live.has_buttons

    def steer(self, running: object) -> None:
        """Let people at the page stop, pause and approve this run."""
        if self._live is not None:
            self._live.steer(running)

    def end(self, path: Path | None = None, *, title: str = "", below: str = "", failed: bool = False) -> None:
        """Show the last state, and stop."""
        self._over.set()
        self._news.set()
        self._thread.join()
        if failed:
            self._view.fail()
        if self._live is not None:
            self._live.end(path, failed=failed, message=title)
        self._ended = path, title, below
        self._draw_last()

    def _draw_last(self) -> None:
        """Show the last state, once there is one; again where the page says only then that it shows the cells."""
        with self._drawing:
            if self._ended is not None:
                self._draw_end(*self._ended)

    def _draw_end(self, path: Path | None, title: str, below: str) -> None:
        notes = [title, "" if self.is_live else self._too_old]
        above = "".join(fragments.note(note) for note in notes if note)
        status = "" if self._view.never_began else self._view.status(path)
        html = fragments.block(above, status, below) if above or status or below else ""
        self._publish(self._ids[0], html, update=True)
        self._publish(self._ids[1], self._iterations(), update=True)

    def _keep_up(self) -> None:
        drawn = 0
        while not self._over.wait(REST_SECONDS):
            self._news.wait(_CLOCK_SECONDS - REST_SECONDS)
            self._news.clear()
            if self._over.is_set():
                return
            self._publish(self._ids[0], self._status(), update=True)
            if self._view.completed > drawn and not self.is_live:
                drawn = self._view.completed
                self._publish(self._ids[1], self._iterations(), update=True)

    def _status(self) -> str:
        notes = [self._hint, self._too_old if not self.is_live else ""]
        above = "".join(fragments.note(note) for note in notes if note)
        is_live = self.is_live
        status = self._view.status(brief=is_live)
        return fragments.block(above, status, label="Progress of the run", styled=not is_live)

    @property
    def is_live(self) -> bool:
        """Whether the page shows the cells themselves."""
        return self._live is not None and self._live.is_shown

    def _iterations(self) -> str:
        drawn = "" if self.is_live else self._view.iterations()
        return fragments.block(drawn) if drawn else ""

    def _publish(self, display_id: str, html: str, *, update: bool) -> None:
        plain = self._view.text() if display_id == self._ids[0] and html else ""
        if plain and self._ended is None and self._hint:
            plain += f"\n{self._hint}"
        self._shell.display_pub.publish(
            {"text/html": html, "text/plain": plain}, transient={"display_id": display_id}, update=update
        )
