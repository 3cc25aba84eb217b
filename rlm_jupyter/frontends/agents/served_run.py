"""`ServedRun`: a run that an agent has asked for, while it goes on and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.frontends.agents.tool_reply import ToolReply, of_ended, of_running
from rlm_jupyter.frontends.display.view import View
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import Event

Tell = Callable[[str], Awaitable[None]]
"""Told how far a run is, in a line."""
TELL_SECONDS = 2.0
"""Between two lines of progress: far less than any client is silent for before it gives up."""


@dataclass(frozen=True, slots=True)
class Work:
    """How a run is begun; both are called in threads of their own."""

    read: Callable[[], Context]
    """Reads what it is about."""
    start: Callable[[Context, OnEvent], RunHandle]


@dataclass(frozen=True, slots=True)
class _Ended:
    """What is kept of a run that has ended: without its context, and without the record that is on the disk."""

    reply: ToolReply
    state: str
    cost: float
    notebook: Path | None


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
    work
        How it is begun.
    """

    def __init__(self, id: str, question: str, most_cost: float | None, work: Work) -> None:  # noqa: A002
        self.id, self.question, self._most_cost = id, question, most_cost
        self._began = time.monotonic()
        self._view = View("reading what it is about")
        self._running: RunHandle | None = None
        self._why_stopped: str | None = None
        self._task = asyncio.create_task(self._run(work))
        # a failure that nobody asks for is none of the event loop's
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _run(self, work: Work) -> _Ended:
        context = await asyncio.to_thread(work.read)
        if self._is_stopped():
            raise RLMError(f"Run {self.id} was stopped before it began.")
        self._running = await asyncio.to_thread(work.start, context, self._view_event)
        del context, work
        if self._is_stopped():
            self._running.stop(self._why_stopped or "")
        try:
            return self._ended(await self._running.awaited())
        except RLMError as error:
            if error.result is None:  # it had not begun
                raise
            return self._ended(error.result)
        finally:
            self._running = None

    def _is_stopped(self) -> bool:
        return self._why_stopped is not None

    def _ended(self, result: Result) -> _Ended:
        state = in_short(result.stop_reason, result.message)
        return _Ended(of_ended(self.id, result.trajectory, result.path), state, result.cost or 0.0, result.path)

    def _view_event(self, event: Event) -> None:
        self._view.apply(event)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    @property
    def words(self) -> str:
        """How far it is, in a line."""
        return self._view.text()

    @property
    def state(self) -> str:
        """In a few words, whether it goes on, or how it ended."""
        if not self.done:
            return "goes on"
        return self._task.result().state if self._task.exception() is None else "did not begin"

    @property
    def notebook(self) -> Path | None:
        """Where it is kept, once it is under way and if it is."""
        if self.done:
            return self._task.result().notebook if self._task.exception() is None else None
        return None if self._running is None else self._running.control.notebook

    @property
    def cost(self) -> float:
        """US dollars that it has cost, or, while it goes on, that it may cost at most."""
        if not self.done:
            return self._most_cost or 0.0
        return self._task.result().cost if self._task.exception() is None else 0.0

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

    def reply(self, result_tool: str) -> ToolReply:
        """Return what there is to say of it now.

        Parameters
        ----------
        result_tool
            What the tool is called that waits for it.

        Raises
        ------
        RLMError
            It failed before it began: nothing was spent.
        """
        if self.done:
            return self._task.result().reply
        seconds = time.monotonic() - self._began
        return of_running(self.id, self.words, self.notebook, seconds, result_tool)
