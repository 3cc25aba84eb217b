"""`answer`: what a `%%rlm --here` cell awaits: it serves the driver until the run is over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.here.driver_process import DriverProcess, Gone, provider_keys
from rlm_jupyter.frontends.here.pipe import Began, DriverRequest, Failed, Over, Recorded
from rlm_jupyter.frontends.here.question import Question, check_options, packed
from rlm_jupyter.frontends.here.remote_control import FarControl, Steered
from rlm_jupyter.frontends.here.replay import replay
from rlm_jupyter.frontends.here.texts import say_once
from rlm_jupyter.frontends.live import progress
from rlm_jupyter.frontends.live.result import ShownResult
from rlm_jupyter.kernel.attached import Address
from rlm_jupyter.kernel.guest.attached_guest import AttachedGuest, why_not
from rlm_jupyter.prompts.initial import surroundings
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.approval import Approvals
from rlm_jupyter.run.observers import nobody
from rlm_jupyter.run.outcome import saved_in
from rlm_jupyter.run.prompt import check_length, check_prompt
from rlm_jupyter.run.result import OnEvent, result_of
from rlm_jupyter.types import errors
from rlm_jupyter.types.errors import ConfigurationError, RLMError, saved_at
from rlm_jupyter.types.events import CellProposed, Event, Record

_INTERRUPTS = 5
"""That a cell gets when its driver is gone."""
_AGAIN_SECONDS = 2.0
_LOOK_SECONDS = 0.1
"""Between two looks whether a page asks about the cell that waits."""
_DIFFERENCES_CHARS = 20_000
"""Of the differences of a replay, that are shown."""
_DRIVEN = "_rlm_driven"
"""The attribute of a shell whose kernel a model drives."""


@dataclass(frozen=True, slots=True)
class _Cell:
    id: str
    source: str


@dataclass(frozen=True, slots=True)
class _Interrupted:
    """The user has interrupted their cell."""


@dataclass(frozen=True, slots=True)
class _Proposed:
    """A cell waits for the user."""


class HereResult(ShownResult):
    """The result of a run in the notebook's own kernel."""

    def _ask(self, prompt: str, on_event: OnEvent | None) -> ShownResult:
        raise ConfigurationError(
            "A run in this notebook's own kernel takes one prompt: ask further in another %%rlm --here cell, all "
            "variables are still there."
        )


async def answer(shell: Any, question: Question, on_event: OnEvent = nobody) -> ShownResult:
    """Let a model drive the kernel of this shell until it has answered.

    Parameters
    ----------
    shell
        The kernel's `InteractiveShell`.
    asked
        What is question.
    on_event
        Told every event, on a thread of ours.

    Raises
    ------
    ConfigurationError
        This kernel can't be driven so, or something in the question is wrong.
    RLMError
        The host failed, or its process ended.
    KeyboardInterrupt
        The user's second interrupt; after a first one there is a result, `cancelled`.
    """
    check_prompt(question.prompt)
    if question.context is None:
        check_length(question.prompt)
    reason = "a model drives it already" if getattr(shell, _DRIVEN, False) else why_not(shell.kernel)
    if reason:
        raise ConfigurationError(f"--here is not possible in this kernel: {reason}. Leave --here out.")
    check_options(question.options)
    setattr(shell, _DRIVEN, True)
    try:
        return await _Here(shell, question, on_event).run()
    finally:
        setattr(shell, _DRIVEN, False)


class _Here:
    """A run in the notebook's own kernel, as that kernel sees it."""

    def __init__(self, shell: Any, question: Question, on_event: OnEvent) -> None:
        self._shell = shell
        self._on_event = on_event
        self._question = question
        self._packed = packed(question.context)
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[object] = asyncio.Queue()
        self._trajectory = Trajectory()
        self._driver: DriverProcess | None = None
        self.control = FarControl(self._send, approving=question.approve)
        self._interrupts = 0
        self._asks_user = False
        self._path: Path | None = None
        self._guest = AttachedGuest(
            shell.kernel,
            question.context,
            on_cell=lambda cell, source: self._put(_Cell(cell, source)),
            is_shown=lambda: self._shown.is_live,
        )
        try:
            self._address = Address.of(shell.kernel, self._guest.token)
            say_once(shell)
            self._shown = progress.start(shell, kernel_is_there=True, here=True)
            self._shown.steer(self)
            self._approvals = Approvals(elsewhere=lambda: self._shown.has_buttons)
        except BaseException:
            self._guest.leave()
            raise

    async def run(self) -> ShownResult:
        """Serve the driver until it is over, and give what came of it."""
        try:
            try:
                with self._guest.cells.serving(self._stop):
                    self._driver = DriverProcess(self._request(), self._hear)
                    if self._interrupts:
                        self.control.stop()
                    over = await self._serve()
            finally:
                if self._driver is not None:
                    self._driver.close()
                self._guest.leave()
            if isinstance(over, Recorded):
                return await self._replay(over.path)
            return self._result(over)
        except BaseException as error:
            self._shown.end(saved_at(error), failed=True)
            raise

    def _request(self) -> DriverRequest:
        question = self._question
        return DriverRequest(
            prompt=question.prompt,
            context=self._packed,
            model=question.model,
            options=question.options,
            rerun=question.rerun,
            approve=question.approve,
            surroundings=surroundings(self._guest.variables()),
            address=self._address,
            keys=provider_keys(),
        )

    async def _serve(self) -> object:
        """Execute the driver's cells until it says how the run ended, or is gone."""
        while True:
            match await self._news.get():
                case _Cell(cell, source):
                    await self._guest.execute(cell, source)
                case Began(path, unpriced):
                    self._path = self.control.notebook = path
                    self.control.unpriced = unpriced
                case _Proposed():
                    self._put_to_user()
                case _Interrupted() if self._interrupts < 2:
                    pass
                case over:
                    return over

    def _put_to_user(self) -> None:
        """Ask about the cell that waits, where no front end does."""
        self._asks_user = True
        try:
            self._approvals.put(self.control)
        except KeyboardInterrupt:
            pass  # the run is being stopped
        finally:
            self._asks_user = False
        if self._approvals.is_undecided:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._put, _Proposed())

    def _result(self, over: object) -> ShownResult:
        match over:
            case Over(path, unsaved):
                result = self._outcome(self._trajectory, path, unsaved)
                self._shown.end(path)
                return result
            case Failed(kind, text):
                if self._interrupts:
                    raise KeyboardInterrupt(text)
                error = _error(kind, text)
                if self._trajectory.records and self._trajectory.ended is not None:
                    error.result = self._outcome(self._trajectory, self._path)
                    error.advice = saved_in(self._path) if self._path else ""
                raise error
            case Gone() as gone:
                record = f" Its record up to there: {self._path}." if self._path else ""
                raise RLMError(f"The process that drove the run has ended {gone}; the variables stay.{record}")
        raise KeyboardInterrupt("the run is being stopped in the background")

    def _outcome(self, trajectory: Trajectory, path: Path | None, unsaved: str = "") -> HereResult:
        answer_type = self._question.answer_type
        return HereResult.of(result_of(trajectory, path, unsaved=unsaved, answer_type=answer_type))

    async def _replay(self, path: Path) -> ShownResult:
        """Show the recorded run, and do again what its cells did to the variables."""
        trajectory = Trajectory.load(path)
        again = await replay(self._shell, trajectory, self._question.context, lambda: self._shown.is_live)
        for record in trajectory.records:
            self._shown(again.now(record))
        differing = fragments.output("\n".join(again.differences)[:_DIFFERENCES_CHARS])
        self._shown.end(
            path,
            title=f"The recorded run of {trajectory.started.moment}: nothing was asked or spent; {again}. "
            "--rerun runs it again.",
            below=fragments.folded("What differs", differing) if differing else "",
        )
        return self._outcome(trajectory, path)

    def _put(self, news: object) -> None:
        with contextlib.suppress(RuntimeError):  # the kernel is being shut down
            self._loop.call_soon_threadsafe(self._news.put_nowait, news)

    def _hear(self, message: object) -> None:
        """Take a message of the driver (on a thread of its own)."""
        if isinstance(message, Event):
            if isinstance(message, Record):
                self._trajectory.apply(message)
            self._on_event(message)
            self.control.see(message)
            self._shown(message)
            if isinstance(message, CellProposed):
                self._approvals(message)
                self._put(_Proposed())
            return
        self._put(message)
        if isinstance(message, Gone):
            self._guest.host_gone()
            self._end_cell()

    def _end_cell(self) -> None:
        """Interrupt the cell that nobody waits for any more; again where its code had not begun, or caught that."""
        for _ in range(_INTERRUPTS):
            if not (cell := self._guest.cells.id):
                return
            self._guest.cells.interrupt(cell)
            time.sleep(_AGAIN_SECONDS)

    def _stop(self) -> None:
        """Stop the run: the user interrupted (in a signal handler)."""
        self._interrupts += 1
        self.control.stop()
        self._put(_Interrupted())
        if self._asks_user:
            raise KeyboardInterrupt

    def _send(self, steered: Steered) -> None:
        if self._driver is not None:
            self._driver.send(steered)


def _error(kind: str, text: str) -> RLMError:
    """Return the error that the driver met."""
    found = getattr(errors, kind, None)
    takes_text = isinstance(found, type) and issubclass(found, RLMError) and found is not errors.LimitReached
    return found(text) if takes_text and found is not None else RLMError(text)
