"""Who is asked about a cell, or a call of a tool, that waits for approval: a person on standard input.

A front end with buttons answers by itself (`RunHandle.control`); this asks where there is none: in a terminal, in
`jupyter console`, in any notebook that can show an input box.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import CallProposed, CellProposed, ChildReported, Event

if TYPE_CHECKING:
    from rlm_jupyter.run.settings import Settings

Approve = bool | Literal["calls"]
"""What waits for a person: cells and calls of tools that ask, such calls alone, or nothing."""

_REFUSE = "any other text refuses it and goes to the model: "
_ABOUT_CELL = f"Run this cell? [y]es, [n]o, {{undo}}[a]ll from now on, [s]top the run; {_REFUSE}"
_UNDO = "[u]ndo the cell before it, "
_ABOUT_CALL = f"Make this call? [y]es, [n]o, [a]ll of {{tool}} from now on, [s]top the run; {_REFUSE}"


class Approvals:
    """Collects what waits; `put` asks about it, in the thread that may ask.

    Parameters
    ----------
    ask
        Shows a text and returns what was typed, as `input` does.
    show
        Shows the cell, or the call.
    elsewhere
        Whether a front end asks by itself, with buttons; `None`: that is not known yet, and what waits, waits for it.
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
        self._proposed: queue.SimpleQueue[CellProposed | CallProposed] = queue.SimpleQueue()
        self._waiting: CellProposed | CallProposed | None = None

    def __call__(self, event: Event) -> None:
        """Take in an event, from any thread."""
        if isinstance(event, ChildReported):
            event = event.event
        if isinstance(event, CellProposed | CallProposed):
            self._proposed.put(event)

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known yet who asks about the cell that waits: `put` is to be called again."""
        return self._waiting is not None

    def put(self, control: Control) -> None:
        """Ask about the cell or the call that waits, if one does.

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
        proposed = self._waiting
        elsewhere = self._elsewhere()
        if elsewhere is None and control.is_asking:
            return
        self._waiting = None
        if elsewhere or not control.is_asking:
            return
        try:
            if isinstance(proposed, CallProposed):
                self._put_call(control, proposed)
            else:
                self._put_cell(control, proposed)
        except EOFError:  # Ctrl-D: nor would the next question have an answer
            self._show("\nThe input has ended, and nobody can be asked: the run stops.")
            control.stop()

    def _put_cell(self, control: Control, proposed: CellProposed) -> None:
        self._show(f"Cell {proposed.block + 1} of iteration {proposed.iteration} waits:\n\n{proposed.source}\n")
        if proposed.no_undo:
            self._show(f"The cell before it can't be undone: {proposed.no_undo}.\n")
        can_undo = proposed.undoes is not None
        question = _ABOUT_CELL.format(undo=_UNDO if can_undo else "")
        said = self._ask(question).strip()
        # a word of ours is no message to the model, and no code runs because somebody only pressed Enter
        while not said or (not can_undo and said.lower() in {"u", "undo"}):
            problem = "No cell before it can be undone." if said else "Nothing was typed."
            said = self._ask(f"{problem} {question}").strip()
        cell = (proposed.iteration, proposed.block)
        match said.lower():
            case "u" | "undo":
                control.undo(cell=cell)
            case "y" | "yes":
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

    def _put_call(self, control: Control, proposed: CallProposed) -> None:
        self._show(f"A cell of iteration {proposed.iteration} calls a tool:\n\n{proposed.call}\n")
        said = self._ask(_ABOUT_CALL.format(tool=proposed.tool)).strip()
        call = (proposed.iteration, proposed.block, proposed.ordinal)
        match said.lower():
            case "y" | "yes":
                control.approve(cell=call)
            case "a" | "all":
                control.approve_all(proposed.tool)
                control.approve(cell=call)
            case "s" | "stop":
                control.stop()
            case "n" | "no" | "":  # what has an effect is not done because somebody only pressed Enter
                control.refuse(cell=call)
            case _:
                control.refuse(said, cell=call)


def asks_here() -> Approve:
    """Return what can be asked of a person on standard input, by the thread that calls this."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        is_there = sys.stdin is not None and sys.stdin.isatty()
    else:
        is_there = getattr(kernel, "_allow_stdin", True) is not False
    return "calls" if is_there and threading.current_thread() is threading.main_thread() else False


def asking_of(settings: Settings) -> list[str]:
    """Return what a run may call that asks a person first: tools, and servers of the Model Context Protocol."""
    tools = [f"The tool {name}" for name in (*settings.tools.asking, *settings.sub_tools.asking)]
    return [*tools, *(server.asking for server in settings.mcp if server.asking)]


def check_attended(settings: Settings, control: Control | None) -> None:
    """Refuse a run with a tool that asks about its calls, where nobody can be asked.

    Raises
    ------
    ConfigurationError
        Names the tool.
    """
    asking = asking_of(settings)
    if not asking or (control is not None and control.is_attended):
        return
    text = f"{asking[0]} asks a person before it is called, and nobody can be asked here"
    raise ConfigurationError(
        f'{text}: use completion at a terminal or in a notebook, or start(…, approve="calls") and decide by its '
        "control.",
        notebook=f"{text}: this front end takes no input, or the run is left in the background.",
        command=f"{text}: standard input is no terminal.",
    )
