"""`Steering`: a run in the background as an `ipywidgets` view, with bars against its limits and buttons.

For front ends that show widgets and have no extension of ours. A cell that is busy hears no button, so it is shown
for runs that leave the kernel free.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.frontends.live.facts import RunFacts
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import CellProposed, Event, RunEnded

if TYPE_CHECKING:
    import ipywidgets

_REST_SECONDS = 0.5
_BARS = (
    ("max_iterations", "Iterations", "{:,.0f}"),
    ("max_tokens", "Tokens", "{:,.0f}"),
    ("max_cost", "Cost", "${:,.3f}"),
    ("max_seconds", "Seconds", "{:,.0f}"),
    ("max_subcalls", "Sub-calls", "{:,.0f}"),
)
"""Limit, label, and how its numbers read."""


class Steering:
    """Folds a run's events, and shows them as often as somebody asks for it."""

    def __init__(self) -> None:
        self._facts = RunFacts()
        self._view = View()
        self._answer: str | None = None
        self.can_undo = False
        """Whether the cell before the one that waits can be undone."""
        self.proposed = (0, 0)
        """Iteration and block of the cell that waits, or waited last."""

    def __call__(self, event: Event) -> None:
        """Take in an event, from any thread."""
        self._facts.apply(event)
        self._view.apply(event)
        if isinstance(event, RunEnded):
            self._answer = answer_markdown(event) or None
        elif isinstance(event, CellProposed):
            self.proposed, self.can_undo = (event.iteration, event.block), event.undoes is not None

    @property
    def is_over(self) -> bool:
        """Whether the last record has come."""
        return self._facts.outcome is not None

    def fail(self) -> None:
        """Take note that the host failed: no last record will come."""
        self._facts.fail("")
        self._view.fail()

    def widget(self, control: Control) -> ipywidgets.Widget:
        """Return a new view, kept up to date by a thread of its own until the run is over."""
        return _Panel(self, control).box

    def used(self) -> dict[str, tuple[float, float]]:
        """Return, for each limit that is set, what is used of it, and the limit."""
        told = self._facts.told()
        used = {
            "max_iterations": told["iteration"],
            "max_tokens": told["input_tokens"] + told["output_tokens"],
            "max_cost": told["cost"] or 0.0,
            "max_seconds": told["seconds"] or self._facts.elapsed or 0.0,
            "max_subcalls": told["subcalls"],
        }
        return {name: (float(used[name]), float(limit)) for name, limit in told["limits"].items() if name in used}

    def phase(self) -> str:
        """Return what the run is at."""
        return str(self._facts.told()["phase"])

    def drawn(self) -> str:
        """Headline, the answer once there is one, and iterations, as HTML."""
        answer = "" if self._answer is None else fragments.prose(self._answer)
        return fragments.block(self._view.status(), answer, self._view.iterations())


class _Panel:
    """The widgets of one view."""

    def __init__(self, steering: Steering, control: Control) -> None:
        import ipywidgets as w

        self._steering = steering
        self._control = control
        self._stop = w.Button(description="Stop", icon="stop", tooltip="End the run with the best answer so far")
        self._pause = w.Button(description="Pause", icon="pause", tooltip="Wait before the model's next reply")
        self._approve = w.Button(description="Run the cell", icon="check", tooltip="Run the cell that waits")
        self._refuse = w.Button(description="Refuse", icon="times", tooltip="Don't run it; the message says why")
        self._undo = w.Button(
            description="Undo the last cell",
            icon="undo",
            tooltip="Take back the last cell; the one that waits is not run",
        )
        self._note = w.Text(placeholder="A message to the model", continuous_update=False)
        self._bars = {
            name: w.FloatProgress(description=label, min=0.0, max=1.0, layout={"width": "320px"})
            for name, label, _ in _BARS
        }
        self._numbers = {name: w.Label() for name in self._bars}
        self._html = w.HTML()
        self._stop.on_click(lambda _: control.stop())
        self._pause.on_click(lambda _: control.resume() if control.is_paused else control.pause())
        self._approve.on_click(lambda _: control.approve(cell=self._cell))
        self._refuse.on_click(lambda _: control.refuse(self._said(), cell=self._cell))
        self._undo.on_click(lambda _: control.undo(self._said(), cell=self._cell))
        self._send = w.Button(description="Send", icon="comment", tooltip="The model reads it with the next outputs")
        self._send.on_click(lambda _: control.note(self._said()))
        self._rows = [w.HBox([bar, self._numbers[name]]) for name, bar in self._bars.items()]
        self._buttons = w.HBox(
            [self._stop, self._pause, self._approve, self._refuse, self._undo, self._note, self._send]
        )
        self.box = w.VBox([self._buttons, *self._rows, self._html])
        self._update()
        threading.Thread(target=self._keep_up, name="rlm_jupyter widget", daemon=True).start()

    def _said(self) -> str:
        text, self._note.value = str(self._note.value), ""
        return text

    def _keep_up(self) -> None:
        while not self._steering.is_over:
            time.sleep(_REST_SECONDS)
            self._update()
        self._update()

    def _update(self) -> None:
        # what a click means is what the person saw
        self._cell = self._steering.proposed
        over, asking = self._steering.is_over, self._control.is_asking
        paused = self._control.is_paused
        self._buttons.layout.display = "none" if over else None
        self._pause.description = "Resume" if paused else "Pause"
        self._pause.icon = "play" if paused else "pause"
        for button in (self._approve, self._refuse):
            button.layout.display = None if asking else "none"
        self._undo.layout.display = None if asking and self._steering.can_undo else "none"
        used = self._steering.used()
        for (name, _, form), row in zip(_BARS, self._rows, strict=True):
            row.layout.display = None if name in used else "none"
            if name in used:
                spent, limit = used[name]
                self._bars[name].value = min(spent / limit, 1.0) if limit else 1.0
                self._bars[name].bar_style = "warning" if limit and spent / limit > 0.8 else "info"
                self._numbers[name].value = f"{form.format(spent)} of {form.format(limit)}"
        self._html.value = self._steering.drawn()


def works(shell: Any) -> bool:
    """Return whether widgets can be shown: a kernel, and ipywidgets."""
    if getattr(shell, "kernel", None) is None:
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True
