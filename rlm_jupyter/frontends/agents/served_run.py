"""`ServedRun`: a run that an agent has asked for, while it goes on and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rlm_jupyter.frontends.agents.reply import Reply, of_ended, of_running
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.running import Running
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import Event

Tell = Callable[[str], Awaitable[None]]
"""Told how far a run is, in a line."""
StartsRun = Callable[[OnEvent], Running]
TELL_SECONDS = 2.0
"""Between two lines of progress: far less than any client is silent for before it gives up."""


class ServedRun:
    """A run, on the server's event loop.

    Parameters
    ----------
    id
        By which the agent names it.
    question
        What was asked.
    most_cost
        US dollars that it may cost; `None`: no limit.
    start
        Reads what it is about, and starts it; called in a thread of its own.
    """

    def __init__(self, id: str, question: str, most_cost: float | None, start: StartsRun) -> None:  # noqa: A002
        self.id, self.question, self._most_cost = id, question, most_cost
        self._began = time.monotonic()
        self._view = View("reading what it is about")
        self._running: Running | None = None
        self._why_stopped: str | None = None
        self._task = asyncio.create_task(self._run(start))
        # a failure that nobody asks for is none of the event loop's
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _run(self, start: StartsRun) -> Result:
        running = await asyncio.to_thread(start, self._on_event)
        self._running = running
        if self._why_stopped is not None:
            running.stop(self._why_stopped)
        return await running.awaited()

    def _on_event(self, event: Event) -> None:
        self._view.apply(event)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    @property
    def seconds(self) -> float:
        """Since it was asked."""
        return time.monotonic() - self._began

    @property
    def words(self) -> str:
        """How far it is, in a line."""
        return self._view.text()

    @property
    def notebook(self) -> Path | None:
        """Where it is kept, once it is under way and if it is."""
        return None if self._running is None else self._running.control.notebook

    @property
    def cost(self) -> float:
        """US dollars that it has cost, or, while it goes on, that it may cost at most."""
        if not self.done:
            return self._most_cost or 0.0
        result = self._outcome()
        return 0.0 if result is None else result.cost or 0.0

    def stop(self, why: str) -> None:
        """End it with the best answer so far; nothing more is sent to any model."""
        if self._why_stopped is None:
            self._why_stopped = why
        if self._running is not None:
            self._running.stop(why)

    def note(self, text: str) -> None:
        """Tell its model something.

        Raises
        ------
        ConfigurationError
            It has ended, or is not under way yet.
        """
        if self.done:
            raise ConfigurationError(f"note: run {self.id} has ended; ask a new question.")
        if self._running is None:
            raise ConfigurationError(f"note: run {self.id} still reads what it is about; try again in some seconds.")
        self._running.control.note(text)

    async def wait(self, seconds: float, tell: Tell) -> None:
        """Wait until it has ended, for so many seconds at most; being cancelled stops the run."""
        until = time.monotonic() + seconds
        try:
            while True:
                await tell(self.words)
                left = until - time.monotonic()
                done, _ = await asyncio.wait({self._task}, timeout=max(min(TELL_SECONDS, left), 0.0))
                if done or left <= TELL_SECONDS:
                    return
        except asyncio.CancelledError:
            self.stop("the call that waited for it was cancelled")
            raise

    async def settle(self, seconds: float) -> None:
        """Wait until it has ended, for so many seconds at most."""
        await asyncio.wait({self._task}, timeout=seconds)

    @property
    def state(self) -> str:
        """In a few words, whether it goes on, or how it ended."""
        result = self._outcome() if self.done else None
        if result is None:
            return "did not begin" if self.done else "goes on"
        return in_short(result.stop_reason, result.message)

    def reply(self) -> Reply:
        """Return what there is to say of it now.

        Raises
        ------
        RLMError
            It failed before it began: nothing was spent.
        """
        if not self.done:
            return of_running(self.id, self.words, self.notebook, self.seconds)
        result = self._outcome()
        if result is None:
            self._task.result()  # raises
            raise AssertionError("a run without a result has failed")
        return of_ended(self.id, result.trajectory, result.path)

    def _outcome(self) -> Result | None:
        """Return the result, also of a run that failed on the way; `None`: it never began."""
        error = self._task.exception()
        if error is None:
            return self._task.result()
        found: Result | None = error.result if isinstance(error, RLMError) else None
        return found
