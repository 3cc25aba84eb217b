"""`FarControl`: what people may do to a run that goes on in the driver, with the face of `Control`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import CellDecided, CellProposed, Event

_ACTS = frozenset({"stop", "pause", "resume", "approve", "refuse", "note", "raise_limit"})


@dataclass(frozen=True, slots=True)
class Steered:
    """To the driver: a person did this."""

    act: str
    given: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    def on(self, control: Control) -> None:
        """Do it to the run's own control."""
        if self.act == "approving":
            control.approving = bool(self.given[0])
        elif self.act in _ACTS:
            getattr(control, self.act)(*self.given, **self.named)


class FarControl(Control):
    """Passes on what people do.

    Parameters
    ----------
    send
        Takes it to the driver; safe in a signal handler.
    approving
        As for `Control`.
    """

    def __init__(self, send: Callable[[Steered], None], *, approving: bool = False) -> None:
        self._send: Callable[[Steered], None] = lambda steered: None
        super().__init__(approving=approving)
        self._send = send
        self._asking = False

    @property
    def approving(self) -> bool:
        """Whether each cell waits for a person."""
        return self._approving

    @approving.setter
    def approving(self, approving: bool) -> None:
        self._approving = approving
        self._send(Steered("approving", (approving,)))

    def see(self, event: Event) -> None:
        """Take in what happens in the run."""
        if isinstance(event, CellProposed | CellDecided):
            self._asking = isinstance(event, CellProposed)

    @property
    def is_asking(self) -> bool:
        """Whether a cell waits for `approve` or `refuse`."""
        return self._asking

    def stop(self, why: str = "") -> None:
        """End the run with the best answer so far."""
        self._send(Steered("stop", (why,)))

    def pause(self) -> None:
        """Wait before the model's next reply."""
        self._paused = True
        self._send(Steered("pause"))

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self._send(Steered("resume"))

    def approve(self, source: str | None = None, *, cell: tuple[int, ...] | None = None) -> None:
        """Execute the cell that waits."""
        self._send(Steered("approve", (source,), {"cell": cell}))

    def refuse(self, note: str = "", *, cell: tuple[int, ...] | None = None) -> None:
        """Don't execute the cell that waits."""
        self._send(Steered("refuse", (note,), {"cell": cell}))

    def note(self, text: str) -> None:
        """Tell the model something."""
        self._send(Steered("note", (text,)))

    def raise_limit(self, name: str, value: float | None) -> None:
        """Set a limit anew; what can't be is refused here."""
        super().raise_limit(name, value)
        self._send(Steered("raise_limit", (name, value)))
