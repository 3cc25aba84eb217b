"""`Driven`: the kernel behind, which the model drives and a person looks into.

It lives in the background loop, starts when something needs it first, and is kept from cell to cell with its
variables, its contexts and the history of prompts. It holds no key: the models are asked from this process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.running_cell import OnMessage
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.record.prompts_beside import PromptsBeside
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run import background
from rlm_jupyter.run.children import child_of
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.history import History
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.outcome import recorded_outcome
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings, prepare
from rlm_jupyter.run.subcalls import SubcallService
from rlm_jupyter.types.errors import ContextError, KernelDiedError, KernelError
from rlm_jupyter.types.values import CellRun, ContextInfo, PackedContext, Subcall, SubcallFailure

ASK_SECONDS = 10.0
"""How long the kernel behind may take to complete or to inspect."""
_CLOSE_SECONDS = 3.0
"""How long a run may take to write its record when its kernel is shut down."""
_COUNT = "__import__('IPython').get_ipython().execution_count = {}"
_NO_CONTEXT = Context(None)
_NOT_ASKED = "sub-calls are answered while a prompt is, not in a cell of your own"

Note = Callable[[str], None]
"""Told, in a line, what a person should know."""


class Driven:
    """All methods are for the background loop, unless they say otherwise."""

    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._sandbox = NO_SANDBOX
        self._given: list[AnyContext] = []
        """`context_0`, `context_1`…; the last is `context`."""
        self._recorded = 0
        """So many of them stand in the record."""
        self._answering: SubcallService | None = None
        self._history = History()
        self._runs_before: list[dict[str, Any]] = []
        self._first: RunFiles | None = None
        """The first prompt, whose record the others stand in."""
        self._turn = asyncio.Lock()
        self._beside = PromptsBeside()
        self._stop: Callable[[], object] | None = None
        self._closed = False

    @property
    def context(self) -> ContextInfo:
        """What `context` is; from any thread."""
        return self._context.info

    @property
    def _context(self) -> AnyContext:
        return self._given[-1] if self._given else _NO_CONTEXT

    async def answer(self, prompt: str, settings: Settings, count: int, on_event: OnEvent, note: Note) -> Result:
        """Answer a prompt; an interrupt ends it with what there is.

        Parameters
        ----------
        count
            The execution count of the prompt; the model's cells have those after it.
        """
        control = Control()
        async with self._turn:
            with self._interrupted_by(control.stop):
                await prepare(settings, on_event, control)
                kernel = await self._ready(note)
                await self._count_from(kernel, count + 1)
                self._answering = SubcallService(
                    settings.routing, 0, child_of(open_session, settings, 0), settings.tools
                )
                session = Session(
                    settings,
                    self._context,
                    0,
                    kernel,
                    self._answering,
                    sandbox=self._sandbox,
                    history=self._history,
                    runs_before=self._runs_before,
                    earlier=[context.info for context in self._given[:-1]],
                )
                unkept = self._given[self._recorded : -1]
                async with (
                    settings.routing.lease(),
                    recorded_outcome(
                        prompt,
                        self._context,
                        settings.save,
                        first=self._first,
                        earlier=unkept,
                        beside=self._beside,
                    ) as outcome,
                ):
                    try:
                        trajectory = await session.answer(
                            prompt, recorder=outcome.recorder, emit=on_event, control=control
                        )
                    finally:
                        self._answering = None
                        self._count(outcome.recorder)
            with contextlib.suppress(KernelError):  # where it died at the end, the next cell says so
                await self._history.put(kernel)
        return outcome.result(trajectory)

    def _count(self, recorder: Recorder | None) -> None:
        """Take note that a prompt, and its contexts, stand in the record."""
        if recorder is not None and recorder.has_begun:
            self._first, self._recorded = recorder.files.root, len(self._given)

    async def execute(self, source: str, count: int, on_message: OnMessage, note: Note, hint: Note) -> CellRun | None:
        """Run a person's cell; an interrupt is passed on to it. `note` is told what is wrong, `hint` what is not.

        Returns
        -------
        CellRun or None
            `None`: it was interrupted before it began, as while its kernel was started.

        Raises
        ------
        KernelDiedError
            The cell ended its kernel; it is started again.
        """
        async with self._turn:
            signals: list[asyncio.Task[None]] = []
            has_begun = is_given_up = False

            def interrupt() -> None:
                nonlocal is_given_up
                if has_begun:
                    signals.append(asyncio.create_task(kernel.interrupt_once()))
                else:
                    is_given_up = True

            with self._interrupted_by(interrupt):
                kernel = await self._ready(note)
                await self._count_from(kernel, count)
                if is_given_up:
                    return None
                has_begun = True
                run = await kernel.execute(source, on_message=on_message)
            if run.status != "died":
                await self._take_context(kernel, note, hint)
                await self._say_restored(kernel, note)
                return run
            await kernel.restart()
            raise KernelDiedError(f"the kernel behind died in this cell. {self._back()}")

    async def set_context(self, value: object, note: Note) -> ContextInfo:
        """Make it `context`, beside those that were there.

        Raises
        ------
        ContextError
            The kernel can't load it.
        """
        context = await asyncio.to_thread(Context, value)
        async with self._turn:
            await self._set(await self._ready(note), context)
        return context.info

    async def _set(self, kernel: Kernel, context: AnyContext) -> None:
        await kernel.set_context(context)
        if isinstance(context, Context):
            context.release()
        if context.kind != "none":
            self._given.append(context)

    async def _take_context(self, kernel: Kernel, note: Note, hint: Note) -> None:
        """Make what a person's cell has assigned to `context` the context of the prompts to come."""
        try:
            # what comes out of a sandbox is unpickled nowhere else: not by who opens the record, either
            value = await kernel.changed_context(pickles=self._sandbox.kind == "none")
            if value is None:
                return
            context = value if isinstance(value, PackedContext) else await asyncio.to_thread(Context, value)
            await self._set(kernel, context)
        except (KernelError, ContextError) as error:
            note(f"What this cell assigned to context can't be the context of the next prompts: {error}")
        else:
            hint(f"The next prompts are about this context: {context.info.type_name}, {context.info.size}.")

    async def request_shell(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any] | None:
        """Return what the kernel behind replies to a request; `None` when it is busy or gone."""
        if self._turn.locked():
            return None
        async with self._turn:
            try:
                kernel = await self._ready(lambda _: None)
                return await kernel.request_shell(msg_type, content, seconds=ASK_SECONDS)
            except KernelError:
                return None

    def interrupt(self) -> None:
        """End what is under way; nothing, when nothing is."""
        if self._stop is not None:
            self._stop()

    async def aclose(self) -> None:
        """End what is under way, and the kernel. A second time does nothing."""
        self._closed = True
        self.interrupt()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS), self._turn:
                pass
        except TimeoutError:
            pass  # a cell that is deaf to interrupts ends with its kernel
        finally:
            if self._kernel is not None:
                await self._kernel.close()

    async def _ready(self, note: Note) -> Kernel:
        """Return the kernel, alive."""
        if self._closed:
            raise KernelDiedError("the kernel is being shut down")
        if self._kernel is None:
            sandbox = Sandbox.of(None)
            # a person works in it, too, with files of theirs: it is shut off where that is asked for by name
            self._sandbox = sandbox if sandbox.shuts_off else NO_SANDBOX
            self._kernel = await Kernel.start(self._answer_subcall, sandbox=self._sandbox)
            background.close_at_exit(self)
        elif not self._kernel.is_alive:
            await self._kernel.restart()
            note(f"The kernel behind had died. {self._back()}")
        return self._kernel

    def _back(self) -> str:
        back = "context is back, all other" if self._context.info.nbytes else "its"
        return f"It was started again: {back} variables are gone."

    @contextlib.contextmanager
    def _interrupted_by(self, stop: Callable[[], object]) -> Iterator[None]:
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    async def _answer_subcall(self, call: Subcall) -> list[str | SubcallFailure]:
        if self._answering is None:
            return [SubcallFailure(_NOT_ASKED)] * len(call.prompts)
        return await self._answering.answer(call)

    @staticmethod
    async def _count_from(kernel: Kernel, count: int) -> None:
        """Make the next cell's count the one that the front end shows: `Out[7]` and `_7` are then the same."""
        content = {"code": _COUNT.format(count), "silent": True, "store_history": False, "allow_stdin": False}
        await kernel.request_shell("execute_request", content, seconds=ASK_SECONDS)

    @staticmethod
    async def _say_restored(kernel: Kernel, note: Note) -> None:
        with contextlib.suppress(KernelError):
            restored = (await kernel.inspect()).restored
            if restored:
                were = "was" if len(restored) == 1 else "were"
                note(f"{', '.join(restored)} {were} changed and {were} put back; %context sets another context.")
