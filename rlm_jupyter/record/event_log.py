"""`EventLog`: what happens in a run: journaled first, then in the notebook and the trajectory, then emitted."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.events import Event, Record, SubcallSettled

T = TypeVar("T")

_PAUSE = 0.002
"""Seconds without a further answer of a batch, after which those that came are journaled: each at once held up all."""
_MOST_PAUSES = 8
"""For so many times that long a write is put off."""
_SOON = 0.01
"""Seconds after which an answered sub-call, which is in the journal by then, is told: a batch is answered first."""


class EventLog:
    """Enters the facts of one run.

    Parameters
    ----------
    trajectory
        Takes every record.
    recorder
        Keeps the record on disk, where there is one.
    emit
        Told every record once it is entered.
    iteration
        Gives the one that the run is at, for the line that says from where on nothing is kept.

    Attributes
    ----------
    recorder
        `None` once the disk has refused.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        recorder: Recorder | None,
        emit: Callable[[Event], None],
        iteration: Callable[[], int],
    ) -> None:
        self.recorder = recorder
        self._trajectory = trajectory
        self.emit = emit
        self._iteration = iteration
        self._paid: list[Callable[[], Record]] = []
        """Facts that are to be journaled before any other."""
        self._late: deque[tuple[Record, dict[str, Any] | None]] = deque()
        """Facts that are in the journal, where there is one, and nowhere else yet; with what that made of them."""

    def add(self, record: Record) -> None:
        """Enter a fact now."""
        # in the journal before anything is told: this process can be killed over that
        self._journal(record)
        self._catch_up()

    def add_soon(self, fact: Callable[[], Record], *, of_batch: bool = False) -> None:
        """Enter what was paid for: in the journal in the loop's next turn, elsewhere a moment later.

        The answer to a single call has left by then; those of a batch that come together share a write.
        """
        if not self._paid:
            loop = asyncio.get_running_loop()
            if of_batch:
                loop.call_later(_PAUSE, self._journal_soon, 1, _MOST_PAUSES)
            else:
                loop.call_soon(self._journal_soon, 1, 1)
        self._paid.append(fact)

    def enter(self, record: Record, journaled: dict[str, Any] | None = None) -> None:
        """Enter a fact behind all that is journaled; `journaled` is what `Recorder.journal` made of it, if it did."""
        if self.recorder is not None:
            self._attempt(self.recorder, partial(self.recorder.add, record, journaled))
        if isinstance(record, SubcallSettled) and self.recorder is not None:
            # these are objects on the disk; all of them in memory could be many times the context
            images = tuple(replace(image, data=b"") for image in record.images)
            record = replace(record, prompt=None, images=images)
        self._trajectory.apply(record)
        self.emit(record)

    def _journal_soon(self, known: int, pauses: int) -> None:
        loop = asyncio.get_running_loop()
        if known < len(self._paid) and pauses > 1:
            loop.call_later(_PAUSE, self._journal_soon, len(self._paid), pauses - 1)
            return
        if not self._late:
            loop.call_later(_SOON, self._catch_up)
        self._journal()

    def _journal(self, *records: Record) -> None:
        """Journal what was paid for, and these; the rest of the entering is for `_catch_up`."""
        facts = [*(fact() for fact in self._paid), *records]
        self._paid.clear()
        if not facts:
            return
        recorder, journaled = self.recorder, None
        if recorder is not None:
            journaled = self._attempt(recorder, partial(recorder.journal, *facts))
        self._late += zip(facts, journaled or itertools.repeat(None), strict=False)

    def _catch_up(self) -> None:
        """Enter what is in the journal into the trajectory and the notebook, and tell it."""
        while self._late:  # whoever is told may bring the next
            self.enter(*self._late.popleft())

    def _attempt(self, recorder: Recorder, write: Callable[[], T]) -> T | None:
        """Do this with the recorder; where the disk refuses, there is none any more."""
        written = recorder.attempt(write, self._iteration)
        if recorder.is_lost:
            self.recorder = None
        return written
