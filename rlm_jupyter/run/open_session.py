"""`open_session`: where the sessions of a run, of its children and of its samples are opened."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.kernel.shield import run_to_completion
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.record.recorder import recording
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.children import child_of
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.observers import guarded, reporting
from rlm_jupyter.run.samples import StartSample
from rlm_jupyter.run.session import Session
from rlm_jupyter.run.settings import Settings, prepare
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.subcalls import SubcallService
from rlm_jupyter.types.errors import ConfigurationError, KernelDiedError
from rlm_jupyter.types.events import Event, RemarkMade, RunEnded, SampleSettled
from rlm_jupyter.types.values import AnswerSubcall

if TYPE_CHECKING:
    from rlm_jupyter.kernel.remote.server import JupyterServer


@asynccontextmanager
async def open_session(
    settings: Settings,
    context: AnyContext,
    *,
    depth: int = 0,
    join: Callable[[AnswerSubcall], Awaitable[Kernel]] | None = None,
    surroundings: str = "",
    branch_of: Sandbox | None = None,
    emit: Callable[[Event], None] | None = None,
    control: Control | None = None,
    sample: int = 0,
    templates: Templates | None = None,
    is_kept: bool = False,
) -> AsyncIterator[Session]:
    """Start a kernel with this context in it; everything is closed on leaving.

    Parameters
    ----------
    join
        Joins a kernel that is there already, with the context in it, instead of starting one.
    surroundings, sample
        As in `Session`.
    branch_of
        The sandbox of the kernel that the joined one is a fork of.
    emit, control
        As in `Session.answer`, of the first prompt: a model's server may have to be waited for.
    templates
        What kernels of the whole tree are forked from; default: templates of this session's own.
    is_kept
        The kernel stays when its prompt is answered, and its templates with it.

    Raises
    ------
    ModelError
        One's own server is not there, or has no such model; no kernel was started.
    ContextError, KernelStartError
        The kernel can't load the context, or didn't come up.
    """
    async with AsyncExitStack() as stack:
        if depth == 0 and not sample:
            await prepare(settings, emit, control)
        await stack.enter_async_context(settings.routing.lease())
        settings = await _with_servers(settings, stack, lambda text: guarded(emit)(RemarkMade(text)))
        own = None
        if templates is None:
            templates = own = Templates(settings.preload, are_used=settings.forks_kernels)
            stack.push_async_callback(run_to_completion, own.close)
        children = child_of(open_session, settings, depth, templates)
        answering = SubcallService(settings.routing, depth, children, settings.tools)
        sandbox = branch_of or (settings.chosen_sandbox() if join is None else NO_SANDBOX)
        kernel = await (join or partial(_start, settings, sandbox, templates, context, depth, emit))(answering.answer)
        stack.push_async_callback(kernel.close)
        _see_to_templates(own, is_kept, emit)
        await _prepare(kernel, settings, None if join else context)
        await _describe(context)
        is_one = settings.samples == 1 or depth > 0 or join is not None
        start_sample = None if is_one else sample_of(settings, context, templates)
        yield Session(settings, context, depth, kernel, answering, surroundings, sandbox, start_sample, sample, own)


async def _start(
    settings: Settings,
    sandbox: Sandbox,
    templates: Templates,
    context: AnyContext,
    depth: int,
    emit: Callable[[Event], None] | None,
    answer: AnswerSubcall,
) -> Kernel:
    if settings.server is not None:
        return await _start_there(settings, settings.server, answer, emit)
    return await Kernel.start(
        answer,
        kernel_name=settings.kernel_name,
        cwd=settings.cwd,
        sandbox=sandbox,
        insurance=settings.insurance,
        templates=templates,
        context=context,
    )


async def _start_there(
    settings: Settings, server: JupyterServer, answer: AnswerSubcall, emit: Callable[[Event], None] | None
) -> Kernel:
    """Start a kernel on a Jupyter server."""
    from rlm_jupyter.kernel.remote.kernel import RemoteKernel  # most runs have none

    def tell(text: str) -> None:
        guarded(emit)(RemarkMade(text, passes=True))

    return await RemoteKernel.launch(answer, server, settings.kernel_name, tell)


async def _prepare(kernel: Kernel, settings: Settings, context: AnyContext | None) -> None:
    """Give a kernel what it begins with; `context` is `None` where it was joined and has one.

    Raises
    ------
    KernelDiedError
        One that was joined has died, or another one a second time: what it is given may kill it.
    """
    if context is None:
        await _equip(kernel, settings)
    else:
        await _surviving_one_death(kernel, lambda: kernel.set_context(context))
        await _surviving_one_death(kernel, lambda: _equip(kernel, settings))


async def _describe(context: AnyContext) -> None:
    """Wait until it is known what a context is; its bytes are in the kernel, and not needed here any more."""
    if isinstance(context, Context):
        await context.described()
        context.release()


async def _surviving_one_death(kernel: Kernel, give: Callable[[], Awaitable[None]]) -> None:
    """Give it to a kernel that has executed nothing; one that dies, as where memory runs short, is restarted once."""
    try:
        await give()
    except KernelDiedError:
        await kernel.restart()
        await give()


async def _equip(kernel: Kernel, settings: Settings) -> None:
    """Give a kernel what its cells may call, and the folder for their files."""
    await kernel.set_tools(settings.tools.specs)
    if settings.outputs is not None:
        await kernel.open_outputs()


def _see_to_templates(own: Templates | None, is_kept: bool, emit: Callable[[Event], None] | None) -> None:
    """Make the template of the next run, where this one keeps its own, and say where kernels can't be forked."""
    if own is not None and is_kept:
        own.refill()
    if own is not None and own.problem is not None:
        guarded(emit)(RemarkMade(own.problem))


async def _with_servers(settings: Settings, stack: AsyncExitStack, note: Callable[[str], None]) -> Settings:
    """Start the servers of tools; they end with the stack. Return the settings with their tools."""
    if not settings.mcp:
        return settings
    from rlm_jupyter.run.mcp.server import running  # most runs have none

    if both := [server.name for server in settings.mcp if server.module in settings.tools.names]:
        raise ConfigurationError(f"{both[0]} is a tool and an MCP server: give one of them another name.")
    tools = await stack.enter_async_context(running(settings.mcp, note))
    return replace(settings, tools=settings.tools.joined(tools))


def sample_of(settings: Settings, context: AnyContext, templates: Templates) -> StartSample:
    """Return what runs a question about this context once more, in a kernel forked from these templates."""
    settings = replace(settings, samples=1, strategy="loop")

    async def start_sample(run: Run, number: int) -> SampleSettled:
        prompt, parent_recorder = run.trajectory.started.prompt, run.event_log.recorder
        unclaimed = run.playback.unclaimed_child(f"sample {number}") if run.playback is not None else None
        saved, playback = unclaimed or (None, None)
        began, trajectory = time.monotonic(), saved.trajectory if saved is not None else Trajectory()
        run_id = f"unsaved-{secrets.token_hex(3)}"
        session: Session | None = None
        try:
            if saved is None or not saved.has_answer:
                async with (
                    recording(prompt, context, parent_recorder is not None, parent_recorder, saved) as recorder,
                    open_session(settings, context, sample=number, templates=templates) as session,
                ):
                    run_id = recorder.run_id if recorder else run_id
                    path = recorder.files.notebook if recorder else None
                    trajectory = await session.answer(
                        prompt,
                        ledger=run.ledger,
                        recorder=recorder,
                        emit=reporting(run, (0, 0, number - 1), run_id, 1, path),
                        control=run.control.follower(),
                        parent=run.trajectory.run_id,
                        run_id=run_id,
                        playback=playback,
                    )
        finally:
            if session is not None and session.records:
                trajectory = session.records[-1]
            # also what was stopped is billed, and written down
            if (ended := trajectory.ended) is not None:
                run.event_log.add(_settled(number, trajectory, ended, time.monotonic() - began))
        return run.trajectory.samples[-1]

    return start_sample


def _settled(number: int, trajectory: Trajectory, ended: RunEnded, seconds: float) -> SampleSettled:
    return SampleSettled(
        sample=number,
        child=trajectory.run_id,
        model=trajectory.started.model,
        stop_reason=ended.stop_reason,
        answer=ended.answer,
        value=ended.value,
        is_json=ended.is_json,
        confidence=ended.confidence,
        usage=ended.usage,
        cost=ended.cost,
        seconds=seconds,
        message=ended.message,
    )
