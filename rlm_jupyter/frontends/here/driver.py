"""`Drive`: a run whose kernel is the one of the notebook that started this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path

from rlm_jupyter.frontends.here.pipe import Began, DriverRequest, Failed, Over, Pipe, Recorded
from rlm_jupyter.frontends.here.remote_control import Steered
from rlm_jupyter.kernel.attached import AttachedKernel
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.template_pool import expect_no_next_run
from rlm_jupyter.policies.import_string import import_from_working_folder
from rlm_jupyter.record import catalog, store
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.prompt import check_prompt
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import ChildReported, Event, OutputChanged
from rlm_jupyter.types.values import AnswerSubcall

_EXIT_SECONDS = 10.0
"""How long this process may put things away once the notebook's kernel is gone."""
_STOP_SECONDS = 0.2

_MOST_SHOWN = 200_000
"""Characters of a running cell's outputs, up to which they are shown in the progress too."""


class Drive:
    """Answers one request.

    Parameters
    ----------
    request
        What is asked.
    pipe
        To the notebook's kernel, which is told all that happens.
    """

    def __init__(self, request: DriverRequest, pipe: Pipe) -> None:
        self._request = request
        self._pipe = pipe
        self._control = Control(approving=request.approve)
        self._kernel: AttachedKernel | None = None

    async def run(self) -> None:
        """Answer it, and tell how that ended."""
        listening = threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True)
        listening.start()
        try:
            self._pipe.send(await self._answer())
        except RLMError as error:
            error.advice = ""  # who has asked knows where it is
            self._pipe.send(Failed(type(error).__name__, error.for_notebook))

    async def _answer(self) -> Over | Recorded:
        request = self._request
        settings = RLM(request.model, **request.options).settings
        check_prompt(request.prompt)
        if not request.rerun and (path := self._recorded(settings)) is not None:
            return Recorded(path)
        async with (
            recorded_outcome(request.prompt, request.context, settings.save) as outcome,
            open_session(
                settings,
                request.context,
                join=self._join,
                surroundings=request.surroundings,
                emit=self._tell,
                control=self._control,
            ) as session,
        ):
            path = outcome.recorder.files.notebook if outcome.recorder else None
            self._pipe.send(Began(path, settings.routing.unpriced))
            await session.answer(request.prompt, recorder=outcome.recorder, emit=self._tell, control=self._control)
        return Over(path, str(outcome.faults))

    def _recorded(self, settings: Settings) -> Path | None:
        """Return the notebook of the run that was asked just this."""
        if settings.save is False:
            return None
        digest = request_digest(settings, self._request.prompt, self._request.context, attached=True)
        found = catalog.find_request(digest, store.folder_of(settings.save))
        return None if found is None else found.files.notebook

    async def _join(self, answer_subcall: AnswerSubcall) -> Kernel:
        self._kernel = await AttachedKernel.join(answer_subcall, self._request.address, self._control.stop)
        return self._kernel

    def _tell(self, event: Event) -> None:
        # outputs are in the notebook already, while they come: large ones need not be seen twice; those of a child
        # come whole once its cell is done
        told = event.event if isinstance(event, ChildReported) else event
        if not isinstance(told, OutputChanged) or _size(told) < _MOST_SHOWN:
            self._pipe.send(event)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while (message := self._pipe.receive()) is not None:
            if isinstance(message, Steered):
                with contextlib.suppress(ConfigurationError):  # refused where it was asked, too
                    message.on(self._control)
        # the notebook's kernel has let go of us, or is gone
        self._control.stop()
        if not loop.is_closed() and self._kernel is not None:
            # the run is stopped first: it must not ask for a last answer that nobody reads
            loop.call_soon_threadsafe(loop.call_later, _STOP_SECONDS, self._kernel.gone)
        time.sleep(_EXIT_SECONDS)
        os._exit(1)


def _size(event: OutputChanged) -> int:
    return sum(len(str(output)) for output in event.outputs)


def main() -> None:
    """Answer the request that comes through the pipe."""
    pipe = Pipe.standard()
    request = pipe.receive()
    if isinstance(request, DriverRequest):
        os.environ.update(request.keys)
        expect_no_next_run()
        import_from_working_folder()
        asyncio.run(Drive(request, pipe).run())
    pipe.close(_EXIT_SECONDS)
