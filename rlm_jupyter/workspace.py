"""`Workspace`: a kernel with a context in it, in which one prompt after another is answered."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rlm_jupyter import prompts
from rlm_jupyter.answering import Answering, ChildAnswer
from rlm_jupyter.context import Context
from rlm_jupyter.control import Control
from rlm_jupyter.errors import KernelDiedError, RLMError
from rlm_jupyter.events import Event, RunEnded, RunStarted
from rlm_jupyter.kernel.session import Kernel
from rlm_jupyter.ledger import Ledger
from rlm_jupyter.limits import Limits
from rlm_jupyter.loop import Ending, solve
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.policies import RewardPolicy, Shared, TerminationPolicy
from rlm_jupyter.record import Recorder, recording
from rlm_jupyter.run import Run
from rlm_jupyter.tokens import fitting_chars
from rlm_jupyter.trajectory import Trajectory
from rlm_jupyter.types import AnswerSubcall, PackedContext
from rlm_jupyter.verdicts import begin, end

log = logging.getLogger(__name__)

CHILD_PROMPT = "Your task stands at the beginning of `context`, and so does what it is about. Do it."
"""What a child run is asked: the text that `rlm_query` was given is its context."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is configured with, and its children inherit."""

    routing: Routing
    limits: Limits
    termination: Shared[TerminationPolicy]
    reward: Shared[RewardPolicy]
    save: Path | bool = True
    """Where the notebook goes: a path, the default place, or nowhere."""
    kernel_name: str | None = None
    cwd: Path | None = None


@dataclass
class Workspace:
    """A kernel, its context, and what was answered in it. Made by `open_workspace`."""

    settings: Settings
    context: Context | PackedContext
    depth: int
    kernel: Kernel
    answering: Answering
    surroundings: str = ""
    """What the model is told of a kernel that was there before it, and is not ours."""
    history: list[dict[str, str | None]] = field(default_factory=list)

    async def answer(
        self,
        prompt: str,
        *,
        ledger: Ledger | None = None,
        recorder: Recorder | None = None,
        emit: Callable[[Event], None] | None = None,
        control: Control | None = None,
        parent: str | None = None,
    ) -> Trajectory:
        """Answer one prompt.

        Parameters
        ----------
        ledger
            The tree's; a new one when this run is the root.
        recorder
            Keeps the record on disk.
        emit
            Told every event.
        control
            What people may do to the run: stop it, pause it, approve its cells, speak to the model.

        Raises
        ------
        RLMError
            The host failed (a provider, the kernel); the record is complete up to there.
        """
        settings = self.settings
        asked: list[threading.Thread] = []
        with settings.termination.lend(asked) as policy, settings.reward.lend(asked) as reward:
            run = Run(
                trajectory=Trajectory(),
                model=settings.routing.model_for(self.depth),
                limits=settings.limits,
                ledger=ledger or Ledger(settings.limits),
                kernel=self.kernel,
                policy=policy,
                reward=reward,
                emit=_guarded(emit),
                recorder=recorder,
                history=self.history,
                control=control or Control(),
                asked=asked,
            )
            run.control.attach(run.take_limits)
            await begin(run, prompt)
            await self._solve(run, prompt, parent)
        self.history.append({"prompt": prompt, "answer": run.trajectory.answer})
        return run.trajectory

    async def _solve(self, run: Run, prompt: str, parent: str | None) -> None:
        self.answering.run = run
        restarted = False
        try:
            await self.kernel.begin()
        except KernelDiedError:  # before, or just now
            restarted = True
            await self.kernel.restart()
            await self.kernel.begin()
        if self.history:
            await self.kernel.put("history", self.history)
        run.record(self._started(prompt, run.ledger, run.recorder, parent, restarted))
        ending = Ending("failed")
        try:
            ending = await _until_stopped(run)
        except asyncio.CancelledError:
            ending = Ending("cancelled")
            raise
        except RLMError as error:
            ending = Ending("failed", message=str(error))
            raise
        finally:
            self.answering.run = None
            # nothing may settle, and be billed, after the last record
            await self.kernel.drop_calls()
            run.record(_ended(run, ending))
            await end(run)

    def _started(
        self, prompt: str, ledger: Ledger, recorder: Recorder | None, parent: str | None, restarted: bool
    ) -> RunStarted:
        settings, limits = self.settings, self.settings.limits
        model = settings.routing.model_for(self.depth)
        sub_model = settings.routing.model_for(self.depth + 1)
        return RunStarted(
            run_id=recorder.run_id if recorder else "unsaved",
            prompt=prompt,
            system=prompts.system(
                self.context.info.type_name,
                output_chars=limits.output_chars,
                sub_chars=fitting_chars(sub_model.window, min(limits.max_output_tokens, sub_model.window // 4)),
                recursive=self.depth + 1 < limits.max_depth,
            ),
            opening=self.surroundings
            + prompts.opening(
                prompt,
                self.context.info,
                max_iterations=limits.max_iterations,
                left=ledger.left(at_start=True),
                history=len(self.history),
                restarted=restarted,
            ),
            context=self.context.info,
            model=model.name,
            sub_model=sub_model.name,
            depth=self.depth,
            limits=dataclasses.asdict(limits),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            request=""
            if self.history
            else request_digest(settings, prompt, self.context, lent=bool(self.surroundings)),
            parent=parent,
            version=version("rlm_jupyter"),
        )


@asynccontextmanager
async def open_workspace(
    settings: Settings,
    context: Context | PackedContext,
    *,
    depth: int = 0,
    ledger: Ledger | None = None,
    join: Callable[[AnswerSubcall], Awaitable[Kernel]] | None = None,
    surroundings: str = "",
) -> AsyncIterator[Workspace]:
    """Start a kernel with this context in it; everything is closed on leaving.

    Parameters
    ----------
    join
        Joins a kernel that is there already, with the context in it, instead of starting one.
    surroundings
        As in `Workspace`.

    Raises
    ------
    ContextError, KernelStartError
        The kernel can't load the context, or didn't come up.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(settings.routing.lease())
        recursive = depth + 1 < settings.limits.max_depth
        answering = Answering(settings.routing, depth, child_of(settings, depth) if recursive else None)
        if join is not None:
            kernel = await join(answering.answer)
            stack.push_async_callback(kernel.close)
        else:
            kernel = await Kernel.start(answering.answer, kernel_name=settings.kernel_name, cwd=settings.cwd)
            stack.push_async_callback(kernel.close)
            await kernel.set_context(context)
        if isinstance(context, Context):
            context.release()
        yield Workspace(settings, context, depth, kernel, answering, surroundings)


def request_digest(settings: Settings, prompt: str, context: Context | PackedContext, *, lent: bool = False) -> str:
    """What is asked, as one digest: the same prompt, context, models and options give the same."""
    asked: dict[str, Any] = {
        "prompt": prompt,
        "context": context.info.sha256,
        "kind": context.kind,
        "models": [model.name for model in settings.routing.models],
        "limits": dataclasses.asdict(settings.limits),
        "policies": [settings.termination.digest, settings.reward.digest],
        "kernel": "lent" if lent else settings.kernel_name,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def child_of(settings: Settings, depth: int) -> Callable[[Run, str], Any]:
    """What starts the children of a run at `depth`."""

    async def start_child(parent: Run, text: str) -> ChildAnswer:
        context = Context(text)
        save = parent.recorder is not None
        async with (
            parent.ledger.kernel(depth + 1),
            recording(CHILD_PROMPT, context, save, parent.recorder) as recorder,
            open_workspace(settings, context, depth=depth + 1, ledger=parent.ledger) as workspace,
        ):
            trajectory = await workspace.answer(
                CHILD_PROMPT, ledger=parent.ledger, recorder=recorder, parent=parent.trajectory.run_id
            )
        ended = trajectory.ended
        return ChildAnswer(
            trajectory.answer,
            ended.stop_reason if ended else "failed",
            trajectory.run_id,
            trajectory.usage,
            trajectory.cost,
        )

    return start_child


async def _until_stopped(run: Run) -> Ending:
    """Solve the run, or end it with what it has as soon as it is stopped."""
    stop = run.control.stopping
    if stop.is_set():
        return Ending("cancelled")
    solving = asyncio.create_task(solve(run))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([solving, stopping], return_when="FIRST_COMPLETED")
        if solving.done():
            return solving.result()
        solving.cancel()
        await asyncio.wait([solving])
        return Ending("cancelled", await run.latest_best())
    finally:
        for task in (solving, stopping):
            task.cancel()
        await asyncio.gather(solving, stopping, return_exceptions=True)


def _guarded(emit: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """What tells the events: a watcher that fails must cost nobody the run."""
    if emit is None:
        return lambda _: None

    def tell(event: Event) -> None:
        try:
            emit(event)
        except Exception:
            log.exception("on_event failed")

    return tell


def _ended(run: Run, ending: Ending) -> RunEnded:
    answer = ending.answer
    return RunEnded(
        stop_reason=ending.stop_reason,
        answer=answer.text if answer else None,
        value=answer.json if answer else None,
        is_json=answer.is_json if answer else False,
        iteration=run.iteration,
        seconds=time.monotonic() - run.began,
        usage=run.ledger.usage if run.trajectory.started.depth == 0 else run.trajectory.usage,
        cost=run.ledger.cost if run.trajectory.started.depth == 0 else run.trajectory.cost,
        message=ending.message,
    )
