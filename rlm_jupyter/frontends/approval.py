"""`Approvals`: cells that wait, put before a person on standard input.

A front end with buttons answers by itself (`Running.control`); this asks where there is none: in a terminal, in
`jupyter console`, in any notebook that can show an input box.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import CellProposed, Event

_ASKED = (
    "Run this cell? [y]es, [n]o, [a]ll from now on, [s]top the run; any other text refuses it and goes to the model: "
)


class Approvals:
    """Collects what waits; `put` asks about it, in the thread that may ask.

    Parameters
    ----------
    ask
        Shows a text and returns what was typed, as `input` does.
    show
        Shows the cell.
    elsewhere
        Whether a front end asks by itself, with buttons; `None`: that is not known yet, and the cell waits for it.
    """

    def __init__(
        self,
        ask: Callable[[str], str] | None = None,
        show: Callable[[str], None] = print,
        elsewhere: Callable[[], bool | None] = lambda: False,
    ) -> None:
        # looked up late: ipykernel puts its own `input` in place for the cell that runs
        self._ask = ask or (lambda text: input(text))
        self._show = show
        self._elsewhere = elsewhere
        self._proposed: queue.SimpleQueue[CellProposed] = queue.SimpleQueue()
        self._waiting: CellProposed | None = None

    def __call__(self, event: Event) -> None:
        """Take in an event, from any thread."""
        if isinstance(event, CellProposed):
            self._proposed.put(event)

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known yet who asks about the cell that waits: `put` is to be called again."""
        return self._waiting is not None

    def put(self, control: Control) -> None:
        """Ask about the cell that waits, if one does.

        Raises
        ------
        KeyboardInterrupt
            The person pressed it instead of answering.
        """
        if self._waiting is None:
            try:
                self._waiting = self._proposed.get_nowait()
            except queue.Empty:
                return
        proposed, elsewhere = self._waiting, self._elsewhere()
        if elsewhere is None and control.is_asking:
            return
        self._waiting = None
        if elsewhere or not control.is_asking:
            return
        self._show(f"Cell {proposed.block + 1} of iteration {proposed.iteration} waits:\n\n{proposed.source}\n")
        said = self._ask(_ASKED).strip()
        cell = (proposed.iteration, proposed.block)
        match said.lower():
            case "y" | "yes" | "":
                control.approve(cell=cell)
            case "a" | "all":
                control.approving = False
                control.approve(cell=cell)
            case "s" | "stop":
                control.stop()
            case "n" | "no":
                control.refuse(cell=cell)
            case _:
                control.refuse(said, cell=cell)
