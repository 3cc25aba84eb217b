"""`Running`: a run under way in the background loop, and where that can be."""

from __future__ import annotations

import asyncio
import concurrent.futures
from abc import ABC, abstractmethod

from rlm_jupyter.run import background
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.interrupts import Wait
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.types.errors import RLMError


class Answers(ABC):
    """Where a run can be."""

    @abstractmethod
    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control) -> Result:
        """Answer one prompt; on the background loop."""

    def expect(self, control: Control) -> None:  # noqa: B027  most have nothing to do for it
        """Expect a prompt, from any thread."""


class Running:
    """A run under way in the background; made by `RLM.start`."""

    def __init__(self, session: Answers, prompt: str, on_event: OnEvent | None, *, approve: bool = False) -> None:
        check_prompt(prompt)
        background.refuse_inside()
        self.control = Control(approving=approve)
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

    def wait(self, *, close: bool = False) -> Result:
        """Wait for the result; an interrupt stops the run, waits until it is gone, and goes on upwards.

        A second one does not wait.

        Parameters
        ----------
        close
            On an interrupt, end a kept kernel too: nobody gets a handle on it.
        """
        with Wait(self._future) as wait:
            try:
                wait.until_done()
            except KeyboardInterrupt:
                self.stop()
                wait.until_done()
                result = self.result()
                if close:
                    result.close()
                raise
            return self.result()
