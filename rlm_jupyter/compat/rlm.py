"""`RLM` with the arguments of the reference implementation (`rlms` 0.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, Self

from rlm_jupyter import rlm as ours
from rlm_jupyter.compat import arguments, checks
from rlm_jupyter.compat.callbacks import (
    Callbacks,
    OnIterationComplete,
    OnIterationStart,
    OnSubcallComplete,
    OnSubcallStart,
)
from rlm_jupyter.compat.errors import check_ended, say_once
from rlm_jupyter.compat.logger import RLMLogger
from rlm_jupyter.compat.result import RLMChatCompletion
from rlm_jupyter.models import Model
from rlm_jupyter.replay.prompt_session import PromptSession
from rlm_jupyter.run.result import Result
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.limits import Limits

_THRESHOLD = 0.85
"""The reference's own `compaction_threshold_pct`."""


class RLM:
    """A recursive language model, made and asked as with the reference implementation.

    Its arguments are those of the reference, in their order; `docs/from-the-reference.md` says what each is here. Any
    other is an option of `rlm_jupyter.RLM`: `save=`, `sandbox=`, `samples=`, `answer=`, …

    Raises
    ------
    ConfigurationError
        Something is wrong or missing, or can't be done here; found before anything is started or spent.
    """

    def __init__(
        self,
        backend: str = "openai",
        backend_kwargs: Mapping[str, Any] | None = None,
        environment: str = "local",
        environment_kwargs: Mapping[str, Any] | None = None,
        depth: int = 0,
        max_depth: int = 1,
        max_iterations: int = 30,
        max_budget: float | None = None,
        max_timeout: float | None = None,
        max_tokens: int | None = None,
        max_errors: int | None = None,
        custom_system_prompt: str | None = None,
        other_backends: Sequence[str] | None = None,
        other_backend_kwargs: Sequence[Mapping[str, Any]] | None = None,
        logger: RLMLogger | None = None,
        verbose: bool = False,
        persistent: bool = False,
        custom_tools: Mapping[str, Any] | None = None,
        custom_sub_tools: Mapping[str, Any] | None = None,
        compaction: bool = False,
        compaction_threshold_pct: float = _THRESHOLD,
        max_concurrent_subcalls: int = 4,
        on_subcall_start: OnSubcallStart | None = None,
        on_subcall_complete: OnSubcallComplete | None = None,
        on_iteration_start: OnIterationStart | None = None,
        on_iteration_complete: OnIterationComplete | None = None,
        sampling_args: Mapping[str, Any] | None = None,
        sub_sampling_args: Mapping[str, Any] | None = None,
        orchestrator: bool = True,
        user_prologue: str | None = None,
        **options: Any,
    ) -> None:
        arguments.check_options(options, [*signature(RLM.__init__).parameters][1:])
        checks.check_logger(logger)
        switches = {"verbose": verbose, "persistent": persistent, "compaction": compaction}
        checks.check_switches(switches | {"orchestrator": orchestrator})
        counts = {"max_depth": max_depth, "max_concurrent_subcalls": max_concurrent_subcalls}
        checks.check_counts({"max_depth": 0, "max_concurrent_subcalls": 1}, counts)
        checks.check_mappings(
            {
                "backend_kwargs": backend_kwargs,
                "environment_kwargs": environment_kwargs,
                "sampling_args": sampling_args,
                "sub_sampling_args": sub_sampling_args,
            }
        )
        callbacks = {
            "on_subcall_start": on_subcall_start,
            "on_subcall_complete": on_subcall_complete,
            "on_iteration_start": on_iteration_start,
            "on_iteration_complete": on_iteration_complete,
        }
        checks.check_callbacks(callbacks)
        if depth:
            say_once("depth is that of the run that is started: always 0.")
        if not max_depth:
            say_once("max_depth=0 asks no model directly: the run has a kernel, and rlm_query is a plain call.")
        if not orchestrator:
            say_once("orchestrator=False means nothing here.")
        if compaction:
            say_once("compaction: the whole conversation is `trajectory` in the kernel; `history` has earlier prompts.")
        elif compaction_threshold_pct != _THRESHOLD:
            say_once("compaction_threshold_pct means nothing without compaction=True.")
        seconds = arguments.cell_seconds(environment, environment_kwargs)
        root = arguments.model_of(backend, backend_kwargs, sampling_args)
        first = (backend, backend_kwargs)
        sub = _sub_model(first, other_backends, other_backend_kwargs, sampling_args, sub_sampling_args)
        limits: dict[str, Any] = {
            "max_depth": max_depth,
            "max_iterations": max_iterations,
            "max_cost": max_budget,
            "max_seconds": max_timeout,
            "max_tokens": max_tokens,
            "max_errors": max_errors,
            "cell_seconds": seconds,
            "max_kernels": max_concurrent_subcalls * max(max_depth, 1) + 1,
        }
        sub_tools = custom_tools if custom_sub_tools is None else custom_sub_tools
        with checks.as_named_there():
            self._limits = Limits(**{name: value for name, value in limits.items() if value is not None})
            self._ours = ours.RLM(
                root,
                sub_model=sub,
                limits=self._limits,
                tools=arguments.tools_of(custom_tools, "custom_tools"),
                sub_tools=arguments.tools_of(sub_tools, "custom_sub_tools"),
                system_prompt_extra=arguments.extra_of(custom_system_prompt, user_prologue),
                compact_at=compaction_threshold_pct if compaction else 0,
                **options,
            )
        self._model = str((backend_kwargs or {}).get("model_name"))
        self.logger, self.verbose, self.persistent = logger, verbose, persistent
        self._callbacks: dict[str, Any] = callbacks
        self._session: PromptSession | None = None

    def completion(self, prompt: Any, root_prompt: str | None = None) -> RLMChatCompletion:
        """Answer a prompt.

        Parameters
        ----------
        prompt
            A text, chat messages, or any data: it is `context` in the kernel, and the question, too, where there is no
            `root_prompt`.
        root_prompt
            The question.

        Raises
        ------
        BudgetExceededError, TimeoutExceededError, TokenLimitExceededError, ErrorThresholdExceededError
            That limit has ended the run; `partial_answer` is the best answer so far.
        CancellationError
            It was stopped.
        RLMError
            As for `rlm_jupyter.RLM.completion`.
        """
        question, context = arguments.question_of(prompt, root_prompt)
        try:
            with self._watched() as tell:
                result = self._answered(question, context, tell)
        except RLMError as error:
            if self.logger is not None and error.result is not None:
                self.logger.take(error.result)
            raise
        metadata = None
        if self.logger is not None:
            self.logger.take(result)
            metadata = self.logger.get_trajectory()
        check_ended(result, self._limits)
        return RLMChatCompletion.of(result, self._model, prompt, metadata)

    def close(self) -> None:
        """End the kernel that `persistent=True` has kept."""
        self._session = None
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _answered(self, question: str, context: Any, tell: Callable[[Event], None]) -> Result:
        if not self.persistent:
            return self._ours.completion(question, context, on_event=tell)
        if self._session is None:
            self._session = self._ours.session(context)
        else:
            self._session.add_context(context)
        return self._session.ask(question, on_event=tell)

    @contextmanager
    def _watched(self) -> Iterator[Callable[[Event], None]]:
        """Yield what is told the events: the callbacks, and the progress where it is to be shown."""
        callbacks = Callbacks(**self._callbacks)
        if not self.verbose:
            yield callbacks
            return
        from rlm_jupyter.frontends.cli.progress import TerminalProgress

        with TerminalProgress() as progress:

            def tell(event: Event) -> None:
                progress.on_event(event)
                callbacks(event)

            yield tell


def _sub_model(
    first: tuple[str, Mapping[str, Any] | None],
    backends: Sequence[str] | None,
    kwargs: Sequence[Mapping[str, Any]] | None,
    sampling: Mapping[str, Any] | None,
    sub_sampling: Mapping[str, Any] | None,
) -> Model | None:
    """Return the model for sub-calls; `None`: the root's."""
    if backends is None:
        return None if sub_sampling is None else arguments.model_of(*first, {**(sampling or {}), **sub_sampling})
    lists = [isinstance(one, list | tuple) and len(one) == 1 for one in (backends, kwargs)]
    if not all(lists):
        raise ConfigurationError(
            "other_backends is a list of one backend, which answers sub-calls, and other_backend_kwargs one of its "
            "arguments; for one by depth, rlm_jupyter.RLM takes sub_model=[…]."
        )
    of_first = (kwargs or ())[0]
    checks.check_mappings({"other_backend_kwargs[0]": of_first})
    return arguments.model_of(backends[0], of_first, sub_sampling)
