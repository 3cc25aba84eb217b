"""`BackgroundSession`: a session in the background loop, opened by its first prompt and kept for more if asked to.

Long because all that uses its kernel takes turns here: prompts, a person's cells, new contexts, and its end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from rlm_jupyter.kernel.running_cell import OnMessage
from rlm_jupyter.record.prompts_beside import PromptsBeside
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run import background
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.idle import IdleTimer
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.opening import open_in_time, unopened
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.question import check_readable
from rlm_jupyter.run.result import OnEvent, Result, result_of
from rlm_jupyter.run.run_handle import Answers, RunHandle, waited
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.session_past import SessionPast
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, KernelDiedError, RLMError
from rlm_jupyter.types.events import Event, RemarkMade, RunPaused, RunUnpaused
from rlm_jupyter.types.values import AnswerSubcall, CellRun, Value

_IN_USE = "the run is using its kernel: stop or pause it first"
_STILL_RUNS = "another cell that was run by hand is not over"


class BackgroundSession(Answers):
    """Answers one prompt after the other with one kernel; its methods are called on the loop, where they don't say.

    Parameters
    ----------
    keep
        The kernel stays for more prompts, with the result.
    """

    def __init__(self, settings: Settings, context: AnyContext, keep: bool) -> None:
        self._settings = settings
        self._keep = keep
        self.past = SessionPast(context)
        """What it was given and asked."""
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._turn = asyncio.Lock()
        self._beside = PromptsBeside()
        self._controls: set[Control] = set()
        self._is_paused = False
        self._hand: asyncio.Task[object] | None = None
        """A person's cell that runs."""
        self._idle = IdleTimer(
            lambda: self.closed or self.in_use or self._session is None,
            self._expire,
        )
        self._closing: asyncio.Task[None] | None = None
        self.closed = False
        self.why_closed = ""
        """In a few words, where nobody asked for it: `after 60 min without use`."""
        self.given_up = ""
        """Why nobody is to use it any more, though it may not be closed yet."""
        self.owner = ""
        """The variable that holds the result, where one does."""

    @property
    def is_alive(self) -> bool:
        """Whether it has a kernel, or is about to start one."""
        return not self.closed

    @property
    def in_use(self) -> bool:
        """Whether something runs in it, or waits for that; from any thread."""
        return bool(self._controls) or self._hand is not None

    @property
    def used(self) -> float:
        """When it was used last, by `time.monotonic`."""
        return self._idle.used

    @property
    def records(self) -> tuple[Trajectory, ...]:
        """Of all prompts so far."""
        return () if self._session is None else tuple(self._session.records)

    @property
    def name(self) -> str:
        """The name of the session, where it has one."""
        return self._settings.session

    async def add_context(self, context: Context) -> str:
        """Make something the context of the prompts to come, beside those so far; return its name in the kernel.

        Raises
        ------
        ConfigurationError
            The kernel is closed, or a prompt is being answered.
        ContextError
            The kernel can't load it.
        """
        self._check_open()
        if self.in_use:
            raise ConfigurationError("A prompt is being answered, about the contexts that there are: add one after it.")
        if context.kind == "none":
            raise ConfigurationError("There is nothing in this context: it is None.")
        async with self._turn:
            session = self._session
            if session is not None:
                session.pending.append(context)
                with contextlib.suppress(KernelDiedError):  # the next prompt starts it again, and gives it this
                    await session.take_contexts()
            self.past.given.append(context)
        return f"context_{len(self.past.given) - 1}"

    def expect(self, control: Control) -> None:
        """Expect a prompt: the kernel is not idle any more."""
        super().expect(control)
        self._controls.add(control)

    async def answer(self, prompt: str, on_event: OnEvent | None, control: Control) -> Result:
        """Answer one prompt; on the background loop."""
        is_kept, was_closed, on_event = self._is_kept, self.closed, guarded(on_event)
        self.expect(control)
        control.attach()  # it is heard while it waits for its turn, too
        try:
            if was_closed:
                raise ConfigurationError("The kernel of this run is closed.")
            # one kernel answers one prompt at a time; another waits for its turn
            if self._turn.locked():
                on_event(RemarkMade("Waiting until its kernel is free", passes=True))
            if not await self._take_turn(control):
                return self._stopped(prompt, on_event, control.why_stopped)
            try:
                if self.closed:  # just as its turn came
                    return self._stopped(prompt, on_event, control.why_stopped)
                self.past.check_newest()
                check_readable(self.past.context, self._settings.routing.root)
                settings = self.past.limited(self._settings)
                ledger = Ledger(settings.limits, whole=settings.whole_limits)
                async with recorded_outcome(
                    prompt,
                    self.past.context,
                    settings.save,
                    answer_type=settings.answer,
                    first=self.past.first,
                    earlier=self.past.unkept,
                    beside=self._beside,
                ) as outcome:
                    outcome.session_kernel = self if self._keep and is_kept else None
                    trajectory = await self._answer(prompt, settings, ledger, outcome.recorder, on_event, control)
            finally:
                self._is_paused = False
                self._turn.release()
        except BaseException:
            self._controls.discard(control)
            # a provider that fails a further prompt must not take the kept variables along
            if not is_kept:
                await self.aclose()
            raise
        finally:
            self._controls.discard(control)
            self._rest()
        outcome.session_kernel = self if self._keep and self._is_kept else None
        if outcome.session_kernel is None:
            await self.aclose()
        return outcome.result(trajectory)

    async def _answer(
        self,
        prompt: str,
        settings: Settings,
        ledger: Ledger,
        recorder: Recorder | None,
        on_event: OnEvent | None,
        control: Control,
    ) -> Trajectory:
        if self._session is None:
            self._session = await self._open(ledger, control, on_event)
            if self._session is None:
                return unopened(
                    settings,
                    self.past.context,
                    prompt,
                    ledger,
                    control,
                    recorder=recorder,
                    emit=on_event,
                    before=self.past.options,
                )
            background.close_at_exit(self)
            background.close_when_dropped(self, self._stack)
        # only here: what has opened the kernel keeps its `on_event` as long as that lives, and must not keep us
        session, emit = self._session, self._watching(on_event)
        # its own have the tools of servers, too
        session.settings = replace(session.settings, limits=settings.limits, whole_limits=settings.whole_limits)
        uses = session.templates.in_use() if self._keep and session.templates is not None else contextlib.nullcontext()
        with uses, self.past.counting(session, ledger, recorder):
            return await session.answer(prompt, ledger=ledger, recorder=recorder, emit=emit, control=control)

    @property
    def _is_kept(self) -> bool:
        """Whether it stays when a prompt fails."""
        return self._session is not None

    async def _open(self, ledger: Ledger, control: Control, on_event: OnEvent | None) -> Session | None:
        """Start the kernel; `None`: the run was stopped, or its time was up, before it was there."""

        async def give(session: Session) -> None:
            session.pending += self.past.given[1:]

        return await open_in_time(
            self._stack,
            self._settings,
            self.past.opening,
            ledger,
            control,
            on_event,
            bring_back=give,
            is_kept=self._keep,
        )

    async def execute(
        self, source: str, answer_subcall: AnswerSubcall, on_message: OnMessage
    ) -> tuple[CellRun, Value | None]:
        """Run a person's cell, between two prompts or while the run is paused; on the background loop.

        Parameters and result are those of `Session.execute`.

        Raises
        ------
        ConfigurationError
            The kernel is closed, not there yet, or used by a run. Nothing was executed.
        KernelDiedError
            It had died.
        """
        session = self._session
        self._check_open()
        if session is None:
            raise ConfigurationError(_IN_USE)
        if self._hand is not None:
            raise ConfigurationError(_STILL_RUNS)
        async with session.kernel.user_cell_lock:
            self._check_open()
            if self._controls and not self._is_paused:
                raise ConfigurationError(_IN_USE)
            self._hand = asyncio.current_task()
            try:
                if self._is_paused:  # that run has the turn
                    return await session.execute(source, answer_subcall, on_message)
                async with self._turn:
                    return await session.execute(source, answer_subcall, on_message)
            finally:
                self._hand = None
                self._rest()

    async def interrupt(self) -> None:
        """Interrupt a person's cell, if one runs; on the background loop."""
        if self._hand is not None and self._session is not None:
            await self._session.kernel.interrupt_once()

    def ask(self, prompt: str, on_event: OnEvent | None = None) -> Result:
        """Ask another prompt, from any thread."""
        return waited(partial(RunHandle, self, prompt), on_event, self._settings)

    def close_after(self, seconds: float | None) -> None:
        """Close the kernel once it was not used for so long; `None`: never. From any thread."""
        self._idle.seconds = seconds
        background.loop().call_soon_threadsafe(self._idle.look)

    def close(self, why: str = "") -> None:
        """End the kernel, from any thread."""
        background.refuse_inside()
        if not self.closed:
            background.submit(self.aclose(why)).result()

    def close_soon(self, why: str = "") -> concurrent.futures.Future[None]:
        """End the kernel, from any thread, without waiting for it."""
        return background.submit(self.aclose(why))

    async def aclose(self, why: str = "") -> None:
        """End what is going on, and the kernel; on the background loop."""
        if not self.closed:
            self.closed, self.why_closed = True, why or self.given_up
        for control in list(self._controls):
            control.stop()
        if self._hand is not None:
            self._hand.cancel()
        self._idle.look()
        async with self._turn:
            await self._stack.aclose()

    def _check_open(self) -> None:
        if self.closed or self.given_up:
            why = self.why_closed or self.given_up
            raise ConfigurationError(f"the kernel of its run is closed{f' ({why})' if why else ''}")

    async def _take_turn(self, control: Control) -> bool:
        """Wait for the turn; `False`: stopped before it came."""
        taking = asyncio.ensure_future(self._begin_turn())
        stopping = asyncio.ensure_future(control.stopping.wait())
        try:
            await asyncio.wait([taking, stopping], return_when="FIRST_COMPLETED")
            return taking.done()
        except asyncio.CancelledError:
            if taking.done():
                self._turn.release()
            raise
        finally:
            for task in (taking, stopping):
                task.cancel()
            await asyncio.gather(taking, stopping, return_exceptions=True)

    async def _begin_turn(self) -> None:
        await self._turn.acquire()
        if self._session is None:
            return
        try:
            async with self._session.kernel.user_cell_lock:  # a person's cell may have outlived the run before
                pass
        except asyncio.CancelledError:
            self._turn.release()
            raise

    def _stopped(self, prompt: str, on_event: OnEvent | None, why: str) -> Result:
        if self._session is None:
            raise RLMError("the run was stopped before it began")
        return result_of(self._session.stopped(prompt, on_event, why), None, self if self._keep else None)

    def _watching(self, on_event: OnEvent | None) -> OnEvent:
        """Return what tells the events, and sees whether the run waits."""

        def tell(event: Event) -> None:
            if isinstance(event, RunPaused | RunUnpaused):
                self._is_paused = isinstance(event, RunPaused)
            if on_event is not None:
                on_event(event)

        return tell

    def _rest(self) -> None:
        self._idle.use()
        self._idle.look()

    def _expire(self, why: str) -> None:
        self._closing = asyncio.create_task(self.aclose(why))
