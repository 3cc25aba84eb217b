"""`Control`: what people may do to a run while it goes on; from any thread."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

ADJUSTABLE = (
    "max_iterations",
    "max_errors",
    "max_subcalls",
    "max_tokens",
    "max_cost",
    "max_seconds",
    "cell_seconds",
    "output_chars",
)
"""The limits that can be set anew while a run goes on."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a proposed cell."""

    runs: bool
    source: str | None = None
    """What is executed in its place, where a person edited it."""
    note: str = ""
    """What the model is told."""
    undoes: bool = False
    """The cell that was executed last is undone, too."""


class Control:
    """Stop, pause, approval, notes and limits of one run.

    Parameters
    ----------
    approving
        Whether each cell waits for `approve` or `refuse`.
    is_attended
        Whether somebody calls these for tools that ask about their calls.
    """

    def __init__(self, *, approving: bool = False, is_attended: bool = False) -> None:
        self.approving = approving
        self.is_attended = approving or is_attended
        self.notebook: Path | None = None
        """Where the run is kept, once it is under way and if it is."""
        self.unpriced = ""
        """A model of the run whose price is not known; no limit in dollars can be kept with it."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self.stopping = asyncio.Event()
        """Set once `stop` was called and the run is under way."""
        self._stopped = False
        self.why_stopped = ""
        """In a few words, where it was said."""
        self._paused = False
        self._proposed: tuple[int, ...] = ()
        self._waiting: list[Decision] | None = None
        """Takes the decision on the cell, or the call, that waits."""
        self._one_at_a_time = asyncio.Lock()
        self._approved_tools: set[str] = set()
        self._notes: deque[str] = deque()
        self._raised: dict[str, float | None] = {}
        self._on_limits: Callable[[], None] = lambda: None
        self._followers: list[Control] = []
        self._asks_by: Control = self
        """Whose person is asked about calls of tools."""

    def for_child(self) -> Control:
        """Return the control of a run that this one starts: its tools ask by this one."""
        child = Control()
        child._asks_by = self._asks_by
        return child

    def follower(self) -> Control:
        """Return the control of another run of the same question: paused with this one, told and allowed the same."""
        follower = self.for_child()
        follower._paused = self._paused
        self._followers.append(follower)
        return follower

    # what people do; any thread

    def stop(self, why: str = "") -> None:
        """End the run with the best answer so far; `why`, in a few words, where it is not plain to who asked."""
        self.why_stopped = self.why_stopped or why
        self._change(lambda: setattr(self, "_stopped", True))

    def pause(self) -> None:
        """Wait before the model's next reply, until `resume`."""
        self._change(lambda: setattr(self, "_paused", True))
        for follower in self._followers:
            follower.pause()

    def resume(self) -> None:
        """Go on."""
        self._change(lambda: setattr(self, "_paused", False))
        for follower in self._followers:
            follower.resume()

    @property
    def is_paused(self) -> bool:
        """Whether the run waits, or will before the next reply."""
        return self._paused

    @property
    def is_asking(self) -> bool:
        """Whether a cell, or a call of a tool, waits for `approve` or `refuse`."""
        return self._waiting is not None and not self._waiting

    def approve(self, source: str | None = None, *, cell: tuple[int, ...] | None = None) -> None:
        """Execute the cell that waits, or make the call of a tool; nothing, when none does.

        Parameters
        ----------
        source
            What is executed in its place, where it was edited.
        cell
            Iteration and block of the cell that is meant, and of a call its ordinal, too: so a late second click
            runs nothing unseen. `None`: whichever waits.
        """
        self._decide(Decision(True, source), cell)

    def refuse(self, note: str = "", *, cell: tuple[int, ...] | None = None) -> None:
        """Don't execute the cell that waits, or make the call; the model is told so, and `note`. `cell` as before."""
        self._decide(Decision(False, note=note), cell)

    def undo(self, note: str = "", *, cell: tuple[int, ...] | None = None) -> None:
        """Undo the cell that was executed last, and don't execute the one that waits; the model is told so, and `note`.

        The kernel goes back to how it was before that cell. Where it can't (`CellProposed.no_undo` says why), the cell
        that waits goes on waiting.

        Parameters
        ----------
        cell
            The cell that waits, as for `approve`.
        """
        self._decide(Decision(False, note=note, undoes=True), cell)

    def approve_all(self, tool: str) -> None:
        """Ask no more about calls of this tool, as long as the run goes on."""
        self._change(lambda: self._approved_tools.add(tool))

    def note(self, text: str) -> None:
        """Tell the model something; it reads it with the next outputs."""
        if text.strip():
            self._change(lambda: self._notes.append(text.strip()))
            for follower in self._followers:
                follower.note(text)

    def raise_limit(self, name: str, value: float | None) -> None:
        """Set a limit of the whole tree anew, such as `max_cost`; `None`: no limit.

        Raises
        ------
        ConfigurationError
            There is no such limit, it can't be that, or a model's price is not known where it is in dollars.
        """
        if name not in ADJUSTABLE:
            raise ConfigurationError(
                f"{quoted(name)} can't be set while a run goes on. Can be: {', '.join(ADJUSTABLE)}."
            )
        _limited(Limits(), {name: value})
        if name == "max_cost" and value is not None and self.unpriced:
            raise ConfigurationError(
                f"max_cost can't be set: the price of {self.unpriced} is not known. Set max_tokens instead."
            )
        self._change(lambda: self._raised.__setitem__(name, value))
        for follower in self._followers:
            follower.raise_limit(name, value)

    # what the run does; its own loop

    def attach(
        self, on_limits: Callable[[], None] = lambda: None, *, notebook: Path | None = None, unpriced: str = ""
    ) -> None:
        """Begin the run, on the running loop; it is told when limits were raised."""
        self.notebook, self.unpriced = notebook, unpriced
        with self._lock:
            self._on_limits = on_limits
            self._loop = asyncio.get_running_loop()
            if self._stopped:
                self.stopping.set()

    async def while_paused(self) -> None:
        """Wait until the run may go on."""
        await self._until(lambda: not self._paused)

    async def decision(self, cell: tuple[int, int], propose: Callable[[], None]) -> Decision:
        """Return what becomes of the cell (iteration and block) that `propose` tells people of."""
        async with self._one_at_a_time:
            return await self._decision(cell, propose)

    async def call_decision(
        self, tool: str, call: tuple[int, int, int], propose: Callable[[], None], *, once: bool
    ) -> Decision:
        """Return what becomes of the call of a tool (iteration, block, ordinal) that `propose` tells people of.

        Parameters
        ----------
        once
            When it is made, ask no more about the same tool.
        """
        person = self._asks_by
        async with person._one_at_a_time:
            if tool in person._approved_tools:
                return Decision(True)
            if not person.is_attended:
                return Decision(False, note="nobody could be asked")
            decision = await person._decision(call, propose)
            if once and decision.runs:
                person._approved_tools.add(tool)
            return decision

    async def _decision(self, position: tuple[int, ...], propose: Callable[[], None]) -> Decision:
        self._proposed = position
        decided: list[Decision] = []
        # before anybody hears of it: they may be quick
        self._waiting = decided
        try:
            propose()
            await self._until(lambda: bool(decided))
        finally:
            self._waiting = None
        return decided[0]

    def take_notes(self) -> list[str]:
        """Return the notes since the last time."""
        with self._lock:
            notes = list(self._notes)
            self._notes.clear()
        return notes

    def take_limits(self, limits: Limits) -> Limits:
        """Return `limits` with what was raised since the last time."""
        with self._lock:
            raised, self._raised = self._raised, {}
        return _limited(limits, raised) if raised else limits

    def _decide(self, decision: Decision, cell: tuple[int, ...] | None) -> None:
        def decide() -> None:
            if self._waiting is not None and not self._waiting and cell in (None, self._proposed):
                self._waiting.append(decision)

        self._change(decide)

    def _change(self, change: Callable[[], None]) -> None:
        with self._lock:
            change()
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        if self._raised:
            self._on_limits()
        if self._stopped:
            self.stopping.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            if not holds():
                await self._changed.wait()


def _limited(limits: Limits, raised: dict[str, Any]) -> Limits:
    whole = {field.name for field in dataclasses.fields(Limits) if "float" not in str(field.type)}
    changed: dict[str, Any] = {
        name: int(value) if name in whole and isinstance(value, float) and value.is_integer() else value
        for name, value in raised.items()
    }
    return dataclasses.replace(limits, **changed)
