"""`RLM`: what a run is configured with, and the ways to start one.

Long for its docstrings: they are the reference of the public class.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args
from weakref import WeakSet

from rlm_jupyter.batch.of_rlm import InBatches
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models import Model
from rlm_jupyter.models.endpoint import unusual_address
from rlm_jupyter.models.pricing import own_prices
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.policies import PolicyRegistry, RewardPolicy, SharedPolicy, TerminationPolicy
from rlm_jupyter.replay.from_saved import FromRecord
from rlm_jupyter.run import ctrl_c
from rlm_jupyter.run.approval import Approve
from rlm_jupyter.run.arguments import (
    answer_of,
    check_attempts,
    check_figures,
    check_models,
    check_types,
    contained,
    modules_of,
    named,
    outputs_of,
    served,
    server_of,
    share_of,
)
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.figures import SeeFigures
from rlm_jupyter.run.mcp.config import servers_of
from rlm_jupyter.run.question import Prompt, context_of, is_none, question_and_context
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import RunHandle, waited
from rlm_jupyter.run.settings import COMPACT_AT, LedgerOf, Settings, Strategy
from rlm_jupyter.run.toolbox import Toolbox, Tools
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.here import here
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

if TYPE_CHECKING:  # what a plain run needs nothing of is loaded where it is used
    from rlm_jupyter.kernel.process import KernelProcess
    from rlm_jupyter.policies.reward import RewardFunction
    from rlm_jupyter.replay.prompt_session import AsyncPromptSession, PromptSession
    from rlm_jupyter.replay.recorded_session import RecordedSession
    from rlm_jupyter.run.background_session import BackgroundSession
    from rlm_jupyter.run.estimate import Estimate


@names_keywords(limits=Limits)
class RLM(FromRecord, InBatches):
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
        A termination policy, its name (registered, or `package.module:Class`), or `{"name": …, "config": {…}}`.
        Default: `declared`, where a run ends by FINAL alone.
    reward
        How each iteration is rated: a reward policy, its name, `{"name": …, "config": {…}}`, or a function
        `(action, result, context) -> float`. Default: the registry's, `default`. It steers nothing by itself.
    save
        Where the run's notebook goes: its path, a folder (one that exists, or a path that ends with a slash),
        `True` for `rlm_runs/` in the working directory, `False` for nowhere. A path that another run has is
        left to it: the new run is saved as `NAME-2`, which `result.path` and `result.message` say.
    kernel_name
        A kernelspec whose Python runs the model's code, looked up when a run starts. Default: the interpreter
        that runs this.
    kernel
        The address of a Jupyter server (a Kernel Gateway, a user's server of a JupyterHub), as
        `https://hub.example/user/me`: the model's code runs in kernels that are started there, and there alone; keys,
        limits and the record stay here. `kernel_name` is then a kernelspec of that server's. It has no `sandbox`,
        `insurance`, `preload` or `cwd` of ours. Needs the extra `remote`; see docs/remote-kernels.md.
    token
        That server's token. It is neither recorded nor shown nor passed to a kernel. Default: `JUPYTER_TOKEN` in the
        environment.
    cwd
        The kernel's working directory. Default: the caller's. In a sandbox, only where that folder is shown there.
    sandbox
        What the model's code is kept in: `bwrap` (Linux, bubblewrap: no network, none of your files), `docker` or
        `podman` (a container, likewise), `none`, or `auto`, which is `bwrap` where that works; `Sandbox(...)` shows
        folders, bounds memory, and names an image. Default: `RLM_SANDBOX`, else `auto`.
    insurance
        After each cell that went well, keep a sleeping fork of the kernel in place of the one before. When the kernel
        dies it goes on with all variables, and only what the last cell did is lost; the model is told. It takes
        memory as cells change what it shares. Linux only. See docs/performance.md for what it costs.
    preload
        Modules, as `["pandas"]`, that are imported once before kernels are forked: each has them at no cost, and still
        imports them by name. Only where kernels are forked (`warm`). One that can't be imported ends the run before it
        begins, with its name.
    warm
        On Linux, fork kernels from a process that has imported what they need, in place of starting each anew. Inside
        a sandbox such a process serves one run. `RLM_TEMPLATES=0` in the environment switches it off, too.
    prices
        What models cost, where the price list is wrong or has none: `{"provider/model": (input, output)}` or
        `(input, output, cached)`, in US dollars for a million tokens.
    base_url
        Where the model is served, and a sub-model of the same provider. Default: the provider's variable in the
        environment, else its usual address.
    window
        The context window of these models in tokens, input and reply together, where the one that their server or the
        price list tells is wrong.
    api_key
        The key of the model's provider, also used for sub-models of the same provider. It is neither recorded nor
        shown nor passed to a kernel, so `resume` and `fork` take it again. Default: the provider's environment
        variable.
    model_options, sub_model_options
        Sampling options that the SDK of the model's provider is given with every request, by the SDK's names, such as
        `{"temperature": 0.2, "reasoning_effort": "low", "extra_body": {…}}`; those of the sub-models. Where no
        `sub_model` is named, the model answers sub-calls with its own, unless `sub_model_options` says otherwise. They
        are recorded.
    system_prompt_extra
        A paragraph that is added to the system message of the run and of its children (`rlm_query`). It is recorded.
        A plain `llm_query` has no system message.
    samples
        How many runs answer the question at once, each in a kernel of its own, within one set of limits: the answer is
        the one that most of them give (self-consistency, arXiv 2203.11171), `result.confidence` their share. They stop
        as soon as the rest can't change it. A follow-up (`result.ask`) goes to the kernel of the first, once.
    require_agreement
        Where no two samples agree, or as many say something else, there is no answer (`stop_reason="no_agreement"`).
    strategy
        `loop`: the model works in a kernel, whatever the text is. `auto`: where the whole text takes at most half of
        the model's window, it is first asked directly, twice; the answer is taken if both replies say the same, else
        the model works in the kernel and is told what they said.
    compact_at
        Beyond this share of the model's window the older iterations are summarized by the model, in its conversation
        alone; the record and `trajectory` in the kernel keep all of them. `None` or 0: never, a run whose conversation
        is too long then ends.
    see_figures
        Whether the model is shown the figures that cells draw (PNG and JPEG, at most 1,568 pixels a side, the last four
        of an iteration): `auto`, where it is known to see; `always`; `never`.
    answer
        What the answer must be: a pydantic model, a dataclass, `list[str]`, `Literal["yes", "no"]`, `dict[str, float]`,
        any type that pydantic's `TypeAdapter` takes, or a JSON schema as a dict. The model is shown its form; an answer
        of another form is sent back with the reasons (`Limits.max_answer_errors` times), and `result.value` is an
        instance. With `answer`, `strategy` is `loop`. Follow-ups and children have no form to keep.
    outputs
        Files that the run is to make: their names, or `Artefact(…)` with a description and a check. The model's code
        leaves them in a folder of its kernel; they are checked when it declares its answer, and a missing or broken one
        is sent back like an answer of another form. With `outputs`, `strategy` is `loop`; follow-ups and children make
        none.
    output_dir
        Where those files go. Default: the working directory.
    replace
        Replace files of those names that are there. Default: then the run does not begin.
    tools
        Functions, sync or async, or `Tool(function, …)`, that the model's code may call by name. They run here, not
        in the kernel, with your rights; each call and its result is recorded, and on `resume` and `fork`, which take
        them again, the recorded results are used and nothing is called a second time (unless `repeatable`).
    sub_tools
        Those that children (`rlm_query`) may call. Default: none.
    mcp
        Servers of the Model Context Protocol by name, each a command (`"npx -y some-server"`), an address, or a dict
        with `command`, `args`, `env`, `cwd`, or `url`, `headers`: their tools are modules in the kernel. They run here
        as long as the run (with `keep_kernel`, its kernel) does. Needs the extra `mcp`.

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
        termination: str | Mapping[str, Any] | TerminationPolicy | None = None,
        reward: str | Mapping[str, Any] | RewardPolicy | RewardFunction | None = None,
        save: str | Path | bool = True,
        kernel_name: str | None = None,
        kernel: str | None = None,
        token: str | None = None,
        cwd: str | Path | None = None,
        sandbox: str | Mapping[str, Any] | Sandbox | None = None,
        insurance: bool = False,
        preload: Sequence[str] = (),
        warm: bool = True,
        prices: Mapping[str, Sequence[float]] | None = None,
        base_url: str | None = None,
        window: int | None = None,
        api_key: str | None = None,
        model_options: Mapping[str, Any] | None = None,
        sub_model_options: Mapping[str, Any] | None = None,
        system_prompt_extra: str = "",
        samples: int = 1,
        require_agreement: bool = False,
        strategy: Strategy = "loop",
        compact_at: float | None = COMPACT_AT,
        see_figures: SeeFigures = "auto",
        answer: object = None,
        outputs: object = None,
        output_dir: str | Path | None = None,
        replace: bool = False,
        tools: Tools | None = None,
        sub_tools: Tools | None = None,
        mcp: Mapping[str, Any] | None = None,
    ) -> None:
        limits = Limits() if limits is None else limits
        check_types(limits, save, cwd, insurance, system_prompt_extra)
        check_attempts(samples, require_agreement, strategy, limits)
        check_figures(see_figures)
        given, own = {"base_url": base_url, "window": window, "api_key": api_key}, own_prices(prices)
        models = served(model, sub_model, given, root=model_options or None, sub=sub_model_options or None)
        routing = Routing(*models, prices=own)
        check_models(routing, limits, samples)
        self._settings = Settings(
            routing=routing,
            limits=limits,
            termination=SharedPolicy(PolicyRegistry.termination_from(termination, "declared")),
            reward=SharedPolicy(PolicyRegistry.reward_from(reward)),
            save=save,
            kernel_name=kernel_name,
            server=server_of(kernel, token, cwd=cwd, sandbox=sandbox, insurance=insurance, preload=preload),
            cwd=None if cwd is None else Path(cwd),
            sandbox=contained(Sandbox.of(sandbox), kernel_name=kernel_name, insurance=insurance, preload=preload),
            insurance=insurance,
            preload=modules_of(preload),
            warm=warm,
            prices=own,
            policies={"termination": named(termination), "reward": named(reward)},
            served=(base_url or unusual_address(routing.root), window),
            model_options=dict(model_options or {}),
            sub_model_options=dict(sub_model_options or {}),
            system_prompt_extra=system_prompt_extra.strip(),
            samples=samples,
            require_agreement=require_agreement,
            strategy=strategy,
            compact_at=share_of(compact_at),
            see_figures=see_figures,
            answer=answer_of(answer, routing.root),
            outputs=outputs_of(outputs, output_dir, replace, samples, routing.root),
            tools=Toolbox.of(tools),
            sub_tools=Toolbox.of(sub_tools, "sub_tools"),
            mcp=servers_of(mcp),
        )
        self._kept: WeakSet[BackgroundSession] = WeakSet()

    @property
    def settings(self) -> Settings:
        """The configuration, resolved."""
        return self._settings

    def __repr__(self) -> str:
        routing = self._settings.routing
        sub = routing.model_for(1).name
        return f"RLM({routing.root.name!r}{f', sub_model={sub!r}' if sub != routing.root.name else ''})"

    def __getstate__(self) -> dict[str, Settings]:
        """Return what goes to another process: the configuration, and no kernel that was kept."""
        return {"_settings": self._settings}

    def __setstate__(self, state: dict[str, Settings]) -> None:
        self._settings, self._kept = state["_settings"], WeakSet()

    def warm(self) -> None:
        """Start in the background what the next run's kernel is forked from, so that it need not wait for that.

        It waits for nothing but its own imports, and does nothing with `warm=False`, `kernel=…` or in containers.
        The process takes 30 MB and ends with this one, or after ten minutes in which nobody has used it; a kernel of it
        waits for the next run, five minutes at most, and takes another 15 MB. Where kernels are not forked, as on
        macOS, one waits that was started, and takes 35 MB; on Windows none does.

        Raises
        ------
        ConfigurationError, KernelStartError
            No kernel could be started.
        """
        from rlm_jupyter.kernel.templates import Templates

        settings = self._settings
        if not settings.forks_kernels:
            return
        templates = Templates(settings.preload)
        sandbox = settings.sandbox.chosen()
        environment = templates.environment(settings.kernel_name, settings.cwd or here(), None, sandbox)

        async def start() -> KernelProcess:
            from rlm_jupyter.kernel.process import KernelProcess  # it takes longer than all else here

            return await KernelProcess.anew(environment)

        templates.warm(environment, start)
        import rlm_jupyter.run.background_session  # noqa: F401  the next run's first need, while that process starts

    def _warm_while_importing(self) -> None:
        """Start the template process of the first kernel now; our own larger imports run beside it."""
        if self._settings.strategy == "loop" and "rlm_jupyter.run.open_session" not in sys.modules:
            with contextlib.suppress(RLMError, OSError):  # it is said when the kernel is to be started
                self.warm()

    def estimate(
        self,
        prompt: Prompt,
        context: object = None,
        *,
        root_prompt: str | None = None,
        answer: object = None,
        outputs: object = None,
    ) -> Estimate:
        """Return what answering `prompt` may cost: the first request, and the whole run at most. No model is asked.

        Only a server of one's own is asked how much its model reads.

        Parameters
        ----------
        prompt, context, root_prompt, answer, outputs
            As for `completion`.

        Raises
        ------
        ConfigurationError
            There is no prompt, or the context can't be handed to a kernel.
        """
        from rlm_jupyter.run.estimate import estimate

        return estimate(self._asked_for(answer, outputs), *question_and_context(prompt, context, root_prompt))

    def completion(
        self,
        prompt: Prompt,
        context: object = None,
        *,
        root_prompt: str | None = None,
        answer: object = None,
        outputs: object = None,
        output_dir: str | Path | None = None,
        replace: bool | None = None,
        on_event: OnEvent | None = None,
        keep_kernel: bool = False,
    ) -> Result:
        """Answer `prompt` about `context`; works in a script and in a running notebook.

        Parameters
        ----------
        prompt
            The question; or chat messages (`[{"role": …, "content": …}]`): the last is the question, what system
            messages say stands above it, and the conversation before it is the context.
        context
            What it is about: str, list, dict, bytes, a pandas or polars frame, any object that can be pickled. A
            `Path`, or a list of them, is read: a file, a folder, a pattern (`Path("docs/**/*.md")`).
        root_prompt
            With it, `prompt` is the context, as in the reference implementation.
        answer
            What the answer must be, as for `RLM`; default: what that says.
        outputs, output_dir, replace
            The files that the run is to make, and where they go, as for `RLM`; default of each: what that says.
            `result.outputs` has their paths.
        on_event
            Told every event, on a thread of ours; as `stream`, those of children as `ChildReported`.
        keep_kernel
            Leave the kernel running for `result.ask(...)`, until `result.close()`.

        Raises
        ------
        ConfigurationError
            Before anything is started or spent.
        ModelError, KernelError
            The host failed. The record on disk is complete up to there; `error.result` is the result so far.
        """

        def start(tell: OnEvent | None, *, approve: Approve) -> RunHandle:
            return self.start(
                prompt,
                context,
                root_prompt=root_prompt,
                answer=answer,
                outputs=outputs,
                output_dir=output_dir,
                replace=replace,
                on_event=tell,
                keep_kernel=keep_kernel,
                approve=approve,
            )

        return waited(start, on_event, self._settings, close=True)

    async def acompletion(
        self,
        prompt: Prompt,
        context: object = None,
        *,
        root_prompt: str | None = None,
        answer: object = None,
        outputs: object = None,
        output_dir: str | Path | None = None,
        replace: bool | None = None,
        on_event: OnEvent | None = None,
        control: Control | None = None,
    ) -> Result:
        """Do what `completion` does, to be awaited; cancelling it stops the run, its kernel and its bill.

        Parameters
        ----------
        control
            Made by `Control()`; from any thread it stops the run with the best answer so far
            (`stop_reason="cancelled"`), pauses it, approves its cells, speaks to the model, raises a limit.
        """
        question, given = question_and_context(prompt, context, root_prompt)
        with ctrl_c.deferring_second_ctrl_c():
            settings = self._for(answer, outputs, output_dir, replace)
            self._warm_while_importing()
            from rlm_jupyter.run.alone import answer_alone

            return await answer_alone(settings, question, given, on_event, control)

    def _for(self, answer: object, outputs: object, output_dir: str | Path | None, replaces: bool | None) -> Settings:
        """Return the settings of one run; the names of the files that it makes are reserved for it."""
        settings = self._asked_for(answer, outputs, output_dir, replaces)
        if settings.outputs is not None:
            settings = dataclasses.replace(settings, outputs=settings.outputs.claimed())
        return settings

    def _asked_for(
        self,
        answer: object,
        outputs: object,
        output_dir: str | Path | None = None,
        replaces: bool | None = None,
    ) -> Settings:
        settings = self._settings
        if answer is not None:
            settings = dataclasses.replace(settings, answer=answer_of(answer, settings.routing.root))
        if outputs is not None or output_dir is not None or replaces is not None:
            found = self._other_outputs(outputs, output_dir, replaces)
            settings = dataclasses.replace(settings, outputs=found)
        return settings

    def _other_outputs(self, wanted: object, output_dir: str | Path | None, replaces: bool | None) -> Outputs | None:
        """Return the files of one run: each argument that is `None` falls back to what `RLM` was given."""
        before = self._settings.outputs
        if wanted is None and before is not None:
            wanted = before.artefacts
        root, samples = self._settings.routing.root, self._settings.samples
        found = outputs_of(wanted, output_dir, replaces is not None and replaces, samples, root)
        if found is None or before is None:
            return found
        return dataclasses.replace(
            found,
            folder=before.folder if output_dir is None else found.folder,
            replace=before.replace if replaces is None else replaces,
        )

    async def stream(
        self,
        prompt: Prompt,
        context: object = None,
        *,
        root_prompt: str | None = None,
        answer: object = None,
        outputs: object = None,
        output_dir: str | Path | None = None,
        replace: bool | None = None,
    ) -> AsyncIterator[Event]:
        """Yield the events of a run as they happen; the last is `RunEnded`. Closing the iterator stops the run.

        What happens in a child (`rlm_query`), at any depth, comes in between as `ChildReported`: whose child it is,
        which sub-call it answers, and in `event` the child's own event.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        run = asyncio.create_task(
            self.acompletion(
                prompt,
                context,
                root_prompt=root_prompt,
                answer=answer,
                outputs=outputs,
                output_dir=output_dir,
                replace=replace,
                on_event=queue.put_nowait,
            )
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
        prompt: Prompt,
        context: object = None,
        *,
        root_prompt: str | None = None,
        answer: object = None,
        outputs: object = None,
        output_dir: str | Path | None = None,
        replace: bool | None = None,
        on_event: OnEvent | None = None,
        keep_kernel: bool = False,
        approve: Approve = False,
    ) -> RunHandle:
        """Begin a run in the background and return at once; further parameters are those of `completion`.

        Parameters
        ----------
        approve
            Each cell waits for `running.control.approve()` or `refuse()`, and so do calls of tools with an `approval`;
            `"calls"`: these alone.
        """
        question, held = question_and_context(prompt, context, root_prompt)
        if approve is True and self._settings.samples > 1:
            raise ConfigurationError("approve=True shows the cells of one run: leave samples out.")
        settings = self._for(answer, outputs, output_dir, replace)
        self._warm_while_importing()
        from rlm_jupyter.run.background_session import BackgroundSession

        session = BackgroundSession(settings, held, keep_kernel)
        if keep_kernel:
            self._kept.add(session)
        return RunHandle(session, question, on_event, approve=approve)

    def session(
        self,
        context: object = None,
        *,
        ledger: LedgerOf | None = None,
        name: str | None = None,
        resume: str | Path | None = None,
    ) -> PromptSession:
        """Return a session: one prompt after the other with one kernel, each a run of its own, in one record.

        `with rlm.session(book) as s: s.ask("…"); s.add_context(more); s.ask("…")`

        Parameters
        ----------
        context
            What its prompts are about, as for `completion`; `add_context` adds more.
        ledger
            What the limits of cost, tokens, seconds, sub-calls and calls of tools hold for: each `prompt` (the
            default), or all of the `session` together.
        name
            Its record is called so: `rlm_runs/NAME.ipynb`.
        resume
            A saved session, or run, to resume: its notebook, its name, or the id of a prompt. Its cells are
            executed again in a new kernel with the next prompt; contexts and name are as they were,
            and so is the ledger, unless another is given.

        Raises
        ------
        ConfigurationError
            Something is wrong or missing, or that session can't be resumed; nothing was started or spent.
        RecordError
            There is no such session, or a context of it is missing.
        """
        from rlm_jupyter.replay.prompt_session import PromptSession

        return PromptSession(self._session(context, ledger, name, resume))

    def asession(
        self,
        context: object = None,
        *,
        ledger: LedgerOf | None = None,
        name: str | None = None,
        resume: str | Path | None = None,
    ) -> AsyncPromptSession:
        """Open a session for async code, as `session`: `async with rlm.asession(book) as s: await s.ask("…")`."""
        from rlm_jupyter.replay.prompt_session import AsyncPromptSession

        return AsyncPromptSession(self._session(context, ledger, name, resume))

    def _session(
        self, context: object, ledger: LedgerOf | None, name: str | None, resume: str | Path | None
    ) -> RecordedSession:
        from rlm_jupyter.replay.recorded_session import RecordedSession
        from rlm_jupyter.replay.session_record import in_session, resumed_session

        if ledger not in {None, *get_args(LedgerOf)}:
            raise ConfigurationError(f"ledger is {' or '.join(get_args(LedgerOf))}, not {quoted(ledger)}.")
        for option, given in {"name": name, "resume": resume}.items():
            if isinstance(given, str) and not given.strip():
                raise ConfigurationError(f"{option}={quoted(given)} names no session: leave it out, or give a name.")
        if resume is None:
            session = RecordedSession(in_session(self._settings, name or "", ledger or "prompt"), context_of(context))
        else:
            if name or not is_none(context):
                raise ConfigurationError(
                    "With resume, context and name are those of the session: add_context(…) adds another context."
                )
            session = resumed_session(self._settings, resume, ledger)
        self._kept.add(session)
        return session

    def close(self) -> None:
        """End every kernel that was kept through this object (`keep_kernel=True`, `session`), and what runs in it."""
        for session in list(self._kept):
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
