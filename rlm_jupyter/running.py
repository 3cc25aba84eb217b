"""`Running`: a run under way in the background loop, and the workspace that it runs in."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import AsyncExitStack

from rlm_jupyter import background
from rlm_jupyter.context import Context
from rlm_jupyter.control import Control
from rlm_jupyter.errors import ConfigurationError, RLMError
from rlm_jupyter.record import recording
from rlm_jupyter.result import OnEvent, Result, result_of
from rlm_jupyter.workspace import Settings, Workspace, open_workspace


class Running:
    """A run under way in the background; made by `RLM.start`."""

    def __init__(
        self, workspace: BackgroundWorkspace, prompt: str, on_event: OnEvent | None, *, approve: bool = False
    ) -> None:
        check_prompt(prompt)
        background.refuse_inside()
        self.control = Control(approving=approve)
        """Stop, pause, approval, notes and limits, from any thread."""
        self._future = background.submit(workspace.answer(prompt, on_event, self.control))

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._future.done()

    def stop(self) -> None:
        """End the run with the best answer so far; `result()` then has it. Thread-safe."""
        self.control.stop()

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

    def wait(self, *, close: bool = False) -> Result:
        """Wait for the result; an interrupt stops the run, waits until it is gone, and goes on upwards.

        Parameters
        ----------
        close
            On an interrupt, end a kept kernel too: nobody gets a handle on it.
        """
        try:
            return self.result()
        except KeyboardInterrupt:
            self.stop()
            result = self.result()
            if close:
                result.close()
            raise


class BackgroundWorkspace:
    """A workspace in the background loop, opened by its first prompt and kept for more if asked to."""

    def __init__(self, settings: Settings, context: Context, keep: bool) -> None:
        self._settings = settings
        self._context = context
        self._keep = keep
        self._stack = AsyncExitStack()
        self._workspace: Workspace | None = None
        self._turn = asyncio.Lock()
        self._controls: set[Control] = set()
        self.closed = False

    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control) -> Result:
        """Answer one prompt; on the background loop."""
        is_kept = self._workspace is not None
        try:
            # one kernel answers one prompt at a time; another waits for its turn
            self._controls.add(control)
            async with self._turn, recording(prompt, self._context, self._settings.save) as recorder:
                if self.closed:
                    raise ConfigurationError("The kernel of this run is closed.")
                if self._workspace is None:
                    opening = open_workspace(self._settings, self._context)
                    self._workspace = await self._stack.enter_async_context(opening)
                    background.close_at_exit(self)
                trajectory = await self._workspace.answer(prompt, recorder=recorder, emit=on_event, control=control)
        except BaseException:
            self._controls.discard(control)
            # a provider that fails a further prompt must not take the kept variables along
            if not is_kept:
                await self.aclose()
            raise
        self._controls.discard(control)
        if not self._keep:
            await self.aclose()
        return result_of(trajectory, recorder.files.notebook if recorder else None, self if self._keep else None)

    def ask(self, prompt: str, on_event: OnEvent | None = None) -> Result:
        """Another prompt, from any thread."""
        return Running(self, prompt, on_event).wait()

    def close(self) -> None:
        """End the kernel, from any thread."""
        background.refuse_inside()
        if not self.closed:
            background.submit(self.aclose()).result()

    async def aclose(self) -> None:
        """End what is going on, and the kernel; on the background loop."""
        self.closed = True
        for control in self._controls:
            control.stop()
        async with self._turn:
            await self._stack.aclose()


def check_prompt(prompt: object) -> None:
    """Refuse what is no question, before anything is started.

    Raises
    ------
    ConfigurationError
        It is no `str`, or there is nothing in it.
    """
    if not isinstance(prompt, str):
        raise ConfigurationError(f"The prompt is a str, not {type(prompt).__name__}; data goes into context=.")
    if not prompt.strip():
        raise ConfigurationError("The prompt is empty: ask something.")
