"""`RunHandle`: a run under way in the background loop, and where that can be."""

from __future__ import annotations

import asyncio
import concurrent.futures
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from rlm_jupyter.run import background
from rlm_jupyter.run.approval import Approvals, Approve, asking_of, asks_here, check_attended
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.ctrl_c import Wait
from rlm_jupyter.run.outcome import how_to_resume, saved_in
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, RLMError, RunInterrupted
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.quoted import quoted


class Answers(ABC):
    """Where a run can be."""

    _settings: Settings

    @property
    def settings(self) -> Settings:
        """What its prompts are answered with."""
        return self._settings

    @abstractmethod
    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control) -> Result:
        """Answer one prompt; on the background loop."""

    def expect(self, control: Control) -> None:
        """Expect a prompt, from any thread.

        Raises
        ------
        ConfigurationError
            A tool asks about its calls, and nobody can be asked.
        """
        check_attended(self._settings, control)


class RunHandle:
    """A run under way in the background; made by `RLM.start`."""

    def __init__(self, session: Answers, prompt: str, on_event: OnEvent | None, *, approve: Approve = False) -> None:
        check_prompt(prompt)
        if (
            not isinstance(approve, bool) and approve != "calls"
        ):  # else a word that is misspelt would let cells run unasked
            raise ConfigurationError(f'approve is True, False or "calls", not {quoted(approve)}.')
        background.refuse_inside()
        self.control = Control(approving=approve is True, is_attended=bool(approve))
        """Stop, pause, approval, notes and limits, from any thread."""
        self.session = session
        """Where it runs."""
        session.expect(self.control)
        self._future = background.submit(session.answer(prompt, on_event, self.control))

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._future.done()

    def stop(self, why: str = "") -> None:
        """End the run with the best answer so far; `result()` then has it, and `why`. Thread-safe."""
        self.control.stop(why)

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result.

        Raises
        ------
        TimeoutError
            It is not there after `timeout` seconds.
        RLMError
            The host failed.
        """
        try:
            return self._future.result(timeout)
        except concurrent.futures.CancelledError:
            raise RLMError("the run was cancelled") from None

    async def awaited(self) -> Result:
        """Wait for the result in an event loop; cancelling this stops the run and its bill.

        Raises
        ------
        RLMError
            The host failed.
        """
        return await asyncio.wrap_future(self._future)

    def wait(self, *, close: bool = False, look: Callable[[], None] | None = None) -> Result:
        """Wait for the result; an interrupt stops the run, waits until it is gone, and goes on upwards with its result.

        A second one does not wait.

        Parameters
        ----------
        close
            On an interrupt, end a kept kernel too: nobody gets a handle on it.
        look
            Called now and then, in this thread.
        """
        with Wait(self._future) as wait:
            try:
                wait.until_done(look)
            except KeyboardInterrupt:
                self.stop()
                wait.until_done()
                result = self.result()
                if close:
                    result.close()
                raise RunInterrupted(_interrupted(result), result) from None
            return self.result()


def _interrupted(result: Result) -> str:
    """Return what an interrupt says of a run that it has ended."""
    ending = "without an answer" if result.answer is None else "with the best answer so far"
    more = [] if result.path is None else [saved_in(result.path), how_to_resume("cancelled", result.path, result)]
    return " ".join(filter(None, [f"the run was stopped, {ending}.", *more]))


class StartsRun(Protocol):
    """What starts a run in the background."""

    def __call__(self, on_event: OnEvent | None, /, *, approve: Approve) -> RunHandle:
        """Start it."""


def waited(start: StartsRun, on_event: OnEvent | None, settings: Settings, *, close: bool = False) -> Result:
    """Start a run and wait for it; where its tools ask about their calls, the person here is asked, in this thread.

    Parameters
    ----------
    close
        As for `RunHandle.wait`.
    """
    if not asking_of(settings):
        return start(on_event, approve=False).wait(close=close)
    approvals = Approvals()

    def tell(event: Event) -> None:
        approvals(event)
        if on_event is not None:
            on_event(event)

    running = start(tell, approve=asks_here())
    return running.wait(close=close, look=lambda: approvals.put(running.control))
