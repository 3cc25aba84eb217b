"""`RLM`: what a run is configured with, and the ways to start one."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter import background
from rlm_jupyter import context as contexts
from rlm_jupyter.errors import ConfigurationError, RLMError
from rlm_jupyter.events import Event, RunEnded
from rlm_jupyter.limits import Limits
from rlm_jupyter.models import Model
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.policies import PolicyRegistry, TerminationPolicy
from rlm_jupyter.record import Recorder
from rlm_jupyter.trajectory import Trajectory
from rlm_jupyter.types import PackedContext, StopReason, Usage
from rlm_jupyter.workspace import Settings, Workspace, open_workspace

OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Result:
    """What a run brought home."""

    answer: str | None
    """The answer as text; `None` when there is none."""
    value: Any
    """The answer as plain data where it is JSON-able (a dict, a number), else its text."""
    stop_reason: StopReason
    """`answered`, or what ended the run."""
    usage: Usage
    """Tokens of root, sub-calls and children."""
    cost: float | None
    """US dollars; `None` when a model's price is not known."""
    seconds: float
    trajectory: Trajectory = field(repr=False)
    """The record: iterations, cells, sub-calls; `.save("run.ipynb")`."""
    path: Path | None = None
    """The notebook, where the run was saved."""
    message: str = ""
    """In one line, why the run ended, when that is not plain."""
    _sitting: _Sitting | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.answer if self.answer is not None else f"(no answer: {self.stop_reason})"

    def ask(self, prompt: str, *, on_event: OnEvent | None = None) -> Result:
        """Put another prompt to the same kernel: its variables are still there.

        Only for a result whose kernel was kept (`keep_kernel=True`, as `%rlm` does).

        Raises
        ------
        ConfigurationError
            The kernel was not kept, or is closed.
        """
        if self._sitting is None or self._sitting.closed:
            raise ConfigurationError(
                "The kernel of this run is closed. Run it with keep_kernel=True to put further prompts to it."
            )
        return self._sitting.ask(prompt, on_event)

    def close(self) -> None:
        """End the kept kernel. Does nothing when there is none."""
        if self._sitting is not None:
            self._sitting.close()

    def _repr_markdown_(self) -> str:
        cost = "" if self.cost is None or not self.cost else f" · ${self.cost:.4f}"
        tokens = f"{self.usage.total_tokens:,} tokens"
        place = f" · {self.path}" if self.path else ""
        ended = "" if self.stop_reason == "answered" else f" · ended by {self.stop_reason}"
        iterations = len(self.trajectory.iterations)
        facts = f"{iterations} iterations · {tokens}{cost} · {self.seconds:.1f} s{ended}{place}"
        return f"{self}\n\n<small>{facts}</small>"


class RLM:
    """A recursive language model (arXiv 2512.24601): a model that drives a Jupyter kernel over a long text.

    Parameters
    ----------
    model
        `provider/model`, or a `Model`. It drives the run.
    sub_model
        Answers `llm_query` and drives children, at every depth; a sequence gives one for each depth.
        Default: `model`.
    limits
        What the whole tree of runs may use. Default: `Limits()`.
    termination
        A termination policy, or a registered name. Default: `declared`, where a run ends by FINAL alone.
    save
        Where the run's notebook goes: a path, `True` for `rlm_runs/` in the working directory, `False` for
        nowhere.
    kernel_name
        A kernelspec whose Python runs the model's code. Default: the interpreter that runs this.
    cwd
        The kernel's working directory. Default: the caller's.

    Raises
    ------
    ConfigurationError
        Something is wrong or missing; found before anything is started or spent.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        sub_model: str | Model | Sequence[str | Model] | None = None,
        limits: Limits | None = None,
        termination: str | TerminationPolicy | None = None,
        save: str | Path | bool = True,
        kernel_name: str | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        limits = limits or Limits()
        routing = Routing(model, sub_model)
        _check_prices(routing, limits)
        policy, name = _policy(termination)
        self._settings = Settings(
            routing=routing,
            limits=limits,
            policy=policy,
            policy_name=name,
            save=save if isinstance(save, bool) else Path(save),
            kernel_name=kernel_name,
            cwd=None if cwd is None else Path(cwd),
        )

    @property
    def settings(self) -> Settings:
        """The configuration, resolved."""
        return self._settings

    def __repr__(self) -> str:
        routing = self._settings.routing
        sub = routing.model_for(1).name
        return f"RLM({routing.root.name!r}{f', sub_model={sub!r}' if sub != routing.root.name else ''})"

    def completion(
        self,
        prompt: str,
        context: object = None,
        *,
        root_prompt: str | None = None,
        on_event: OnEvent | None = None,
        keep_kernel: bool = False,
    ) -> Result:
        """Answer `prompt` about `context`; works in a script and in a running notebook.

        Parameters
        ----------
        prompt
            The question.
        context
            What it is about: str, list, dict, bytes, a pandas or polars frame, any object that can be pickled.
        root_prompt
            With it, `prompt` is the context, as in the reference implementation.
        on_event
            Told every event, on a thread of ours.
        keep_kernel
            Leave the kernel running for `result.ask(...)`, until `result.close()`.

        Raises
        ------
        ConfigurationError
            Before anything is started or spent.
        ModelError, KernelError
            The host failed; the record on disk is complete up to there.
        """
        running = self.start(prompt, context, root_prompt=root_prompt, on_event=on_event, keep_kernel=keep_kernel)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.stop()
            running.result()
            raise

    async def acompletion(
        self,
        prompt: str,
        context: object = None,
        *,
        root_prompt: str | None = None,
        on_event: OnEvent | None = None,
        stop: asyncio.Event | None = None,
    ) -> Result:
        """`completion`, to be awaited; cancelling it stops the run, its kernel and its bill.

        Parameters
        ----------
        stop
            Set it, and the run ends with the best answer so far (`stop_reason="cancelled"`).
        """
        prompt, packed = _asked(prompt, context, root_prompt)
        recorder = Recorder.create(prompt, packed, self._settings.save)
        async with open_workspace(self._settings, packed) as workspace:
            return await _answer(workspace, prompt, recorder, on_event, stop)

    async def stream(
        self, prompt: str, context: object = None, *, root_prompt: str | None = None
    ) -> AsyncIterator[Event]:
        """The events of a run as they happen; the last is `RunEnded`. Closing the iterator stops the run."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        run = asyncio.create_task(
            self.acompletion(prompt, context, root_prompt=root_prompt, on_event=queue.put_nowait)
        )
        run.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await run
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    def start(
        self,
        prompt: str,
        context: object = None,
        *,
        root_prompt: str | None = None,
        on_event: OnEvent | None = None,
        keep_kernel: bool = False,
    ) -> Running:
        """Begin a run in the background and return at once. Parameters as for `completion`."""
        prompt, packed = _asked(prompt, context, root_prompt)
        return Running(_Sitting(self._settings, packed, keep_kernel), prompt, on_event)


class Running:
    """A run under way in the background.

    Made by `RLM.start`.
    """

    def __init__(self, sitting: _Sitting, prompt: str, on_event: OnEvent | None) -> None:
        self._stop = asyncio.Event()
        self._future = background.submit(sitting.answer(prompt, on_event, self._stop))

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._future.done()

    def stop(self) -> None:
        """End the run with the best answer so far; `result()` then has it. Thread-safe."""
        background.loop().call_soon_threadsafe(self._stop.set)

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


class _Sitting:
    """A workspace in the background loop, opened by its first prompt and kept for more if asked to."""

    def __init__(self, settings: Settings, packed: PackedContext, keep: bool) -> None:
        self._settings = settings
        self._packed = packed
        self._keep = keep
        self._stack = AsyncExitStack()
        self._workspace: Workspace | None = None
        self.closed = False

    async def answer(self, prompt: str, on_event: OnEvent | None, stop: asyncio.Event) -> Result:
        """Answer one prompt; on the background loop."""
        recorder = Recorder.create(prompt, self._packed, self._settings.save)
        try:
            if self._workspace is None:
                opening = open_workspace(self._settings, self._packed)
                self._workspace = await self._stack.enter_async_context(opening)
            result = await _answer(self._workspace, prompt, recorder, on_event, stop, self if self._keep else None)
        except BaseException:
            await self._close()
            raise
        if not self._keep:
            await self._close()
        return result

    def ask(self, prompt: str, on_event: OnEvent | None) -> Result:
        """Another prompt, from any thread."""
        _check_prompt(prompt)
        running = Running(self, prompt, on_event)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.stop()
            running.result()
            raise

    def close(self) -> None:
        """End the kernel, from any thread."""
        if not self.closed:
            background.submit(self._close()).result()

    async def _close(self) -> None:
        self.closed = True
        await self._stack.aclose()


async def _answer(
    workspace: Workspace,
    prompt: str,
    recorder: Recorder | None,
    on_event: OnEvent | None,
    stop: asyncio.Event | None,
    sitting: _Sitting | None = None,
) -> Result:
    trajectory = await workspace.answer(
        prompt, recorder=recorder, emit=on_event or (lambda _: None), stop=stop
    )
    ended = trajectory.ended
    if ended is None:
        raise RLMError("the run ended without a last record")
    return result_of(trajectory, ended, recorder.files.notebook if recorder else None, sitting)


def result_of(
    trajectory: Trajectory, ended: RunEnded, path: Path | None = None, sitting: _Sitting | None = None
) -> Result:
    """The result that a finished record stands for."""
    return Result(
        answer=ended.answer,
        value=ended.value if ended.is_json else ended.answer,
        stop_reason=ended.stop_reason,
        usage=ended.usage,
        cost=ended.cost,
        seconds=ended.seconds,
        trajectory=trajectory,
        path=path,
        message=ended.message,
        _sitting=sitting,
    )


def _asked(prompt: str, context: object, root_prompt: str | None) -> tuple[str, PackedContext]:
    """The question and the packed context, checked."""
    if root_prompt is not None:
        if context is not None:
            raise ConfigurationError("With root_prompt, the first argument is the context: give no other.")
        prompt, context = root_prompt, prompt
    _check_prompt(prompt)
    return prompt, contexts.pack(context)


def _check_prompt(prompt: object) -> None:
    if not isinstance(prompt, str):
        raise ConfigurationError(f"The prompt is a str, not {type(prompt).__name__}; data goes into context=.")
    if not prompt.strip():
        raise ConfigurationError("The prompt is empty: ask something.")


def _check_prices(routing: Routing, limits: Limits) -> None:
    """A limit in dollars needs prices, before the run."""
    if limits.max_cost is None:
        return
    for model in routing.models:
        if model.cost(Usage(1, 1)) is None:
            raise ConfigurationError(
                f"max_cost is set, but the price of {model.name} is not known: set max_tokens instead."
            )


def _policy(termination: str | TerminationPolicy | None) -> tuple[Callable[[], TerminationPolicy], str]:
    """What makes a policy for each run, and its name. A policy object is one for all runs, reset for each."""
    if termination is None or isinstance(termination, str):
        name = termination or "declared"
        PolicyRegistry.get_termination(name)
        return lambda: PolicyRegistry.get_termination(name), name
    if not isinstance(termination, TerminationPolicy):
        raise ConfigurationError("termination is a registered name or a TerminationPolicy.")

    def reset() -> TerminationPolicy:
        termination.reset()
        return termination

    return reset, termination.name
