"""`Session`: a kernel with a context in it, in which one prompt after another is answered.

Long because the whole course of a prompt, from a kernel that may have died to its last record, is to be read in one
place.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.running_cell import OnMessage
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.prompts import notices
from rlm_jupyter.record.event_log import EventLog
from rlm_jupyter.record.recorder import Recorder
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run import cells, living, output_files, undo
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.cells import restoration
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.conversation import Conversation
from rlm_jupyter.run.direct import ask_directly
from rlm_jupyter.run.figures import image_counter
from rlm_jupyter.run.history import History
from rlm_jupyter.run.judge import conclude_policies, remark_on_draft, reset_policies
from rlm_jupyter.run.lifecycle import ended, never_begun, run_started
from rlm_jupyter.run.loop import Ending, solve, until_stopped
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.samples import StartSample, best_of
from rlm_jupyter.run.settings import Settings, as_far_as_given
from rlm_jupyter.run.state import INTERRUPT_MARGIN, Playback, Run
from rlm_jupyter.run.subcalls import SubcallService
from rlm_jupyter.run.substates import CellState, PolicyState, ReplyState, RequestState
from rlm_jupyter.run.vote import SETTLED
from rlm_jupyter.types.errors import ContextError, KernelDiedError, KernelError, RLMError
from rlm_jupyter.types.events import Event, RequestDelayed, RunStarted
from rlm_jupyter.types.recorded_options import RecordedOptions
from rlm_jupyter.types.values import AnswerSubcall, CellRun, ContextInfo, Value, Variable

_ONCE = "samples are made of the first prompt alone, and this one was asked once"


@dataclass
class Session:
    """A kernel, its context, and what was answered in it. Made by `open_session`."""

    settings: Settings
    context: AnyContext
    depth: int
    kernel: Kernel
    answering: SubcallService
    surroundings: str = ""
    """What the model is told of a kernel that was there before it, and is not ours."""
    sandbox: Sandbox = NO_SANDBOX
    """That of the kernel."""
    start_sample: StartSample | None = None
    """Runs the question once more; `None`: it is asked once."""
    sample: int = 0
    """Which sample this is, of a run that has others; 0: none."""
    templates: Templates | None = None
    """That its kernels are forked from, and no other run's."""
    history: History = field(default_factory=History)
    runs_before: list[dict[str, Any]] = field(default_factory=list)
    """The runs of this kernel so far, by `run_id`, and whether `history` has them (`told`), as they are recorded."""
    variables: tuple[Variable, ...] = ()
    """In the kernel, after the last prompt."""
    remark: str = ""
    """For the model, at the beginning of its next prompt: how the kernel differs from what was recorded of it."""
    records: list[Trajectory] = field(default_factory=list)
    """Of all prompts so far, the one that is being answered included."""
    earlier: list[ContextInfo] = field(default_factory=list)
    """The contexts that the kernel was given before `context`: `context_0` and so on."""
    pending: list[AnyContext] = field(default_factory=list)
    """Contexts that it has not been given yet."""
    is_branch: bool = False
    """Its kernel is a fork of another run's, with all that its first prompt is to go on from."""
    is_touched: bool = False
    """A person's cell was executed in the kernel, which is in no record."""
    loop: asyncio.AbstractEventLoop | None = None
    """On which it is used."""

    @property
    def contexts(self) -> list[ContextInfo]:
        """What the kernel has as `context_0`, `context_1`…; the last is `context`."""
        return [*self.earlier, *([] if self.context.kind == "none" else [self.context.info])]

    async def take_contexts(self) -> None:
        """Give the kernel the contexts that it has not been given yet.

        Raises
        ------
        ContextError
            It can't load one, which is left out.
        KernelDiedError
            It had died.
        """
        while self.pending:
            try:
                await self.kernel.set_context(self.pending[0])
            except ContextError:
                del self.pending[0]
                raise
            self.earlier, self.context = self.contexts, self.pending.pop(0)
            if isinstance(self.context, Context):
                self.context.release()

    async def answer(
        self,
        prompt: str,
        *,
        ledger: Ledger | None = None,
        recorder: Recorder | None = None,
        emit: Callable[[Event], None] | None = None,
        control: Control | None = None,
        parent: str | None = None,
        run_id: str | None = None,
        playback: Playback | None = None,
        above: HeldBack | None = None,
    ) -> Trajectory:
        """Answer one prompt.

        Parameters
        ----------
        ledger
            The tree's; a new one when this run is the root.
        recorder
            Keeps the record on disk.
        emit
            Told every event; those of children as `ChildReported`.
        control
            What people may do to the run: stop it, pause it, approve its cells, speak to the model.
        parent
            The run that asked, by its id.
        run_id
            Of a run that is not saved. Default: `unsaved`.
        playback
            Plays a recorded run back, which then goes on. Default: a new run.
        above
            What the run that asked holds back for its last reply.

        Raises
        ------
        RLMError
            The host failed (a provider, the kernel); the record is complete up to there.
        """
        settings = self.settings
        policy_threads: list[threading.Thread] = []
        ledger = ledger or Ledger(settings.limits, whole=settings.whole_limits)
        with (
            settings.termination.acquire(policy_threads) as policy,
            settings.reward.acquire(policy_threads) as reward,
            HeldBack(ledger, above) as held_back,
        ):
            trajectory, model = Trajectory(), settings.routing.model_for(self.depth)
            conversation = Conversation(image_counter(model, settings.see_figures))
            run = Run(
                trajectory=trajectory,
                model=model,
                limits=settings.limits,
                ledger=ledger,
                control=control or Control(),
                event_log=EventLog(trajectory, recorder, guarded(emit), lambda: run.iteration),
                cell_state=CellState(self.kernel, self.history, self.variables),
                requests=RequestState(
                    held_back,
                    settings.limits.max_output_tokens,
                    settings.compact_at,
                    conversation=conversation,
                ),
                policies=PolicyState(policy, reward, policy_threads),
                replies=self._what_replies_must_bring(),
                playback=playback,
                began=0.0 if parent is None else ledger.deadline.seconds,
            )
            if parent is None:
                run.ledger.delays.on_change = lambda text: run.emit(RequestDelayed(text))
            self.records.append(run.trajectory)
            run.control.attach(
                run.take_limits,
                notebook=recorder.files.notebook if recorder else None,
                unpriced=settings.routing.unpriced,
            )
            await reset_policies(run, prompt)
            if self.depth == 0 and not self.sample and recorder is not None:
                living.note(recorder.run_id, self)
            entry: dict[str, Any] = {"run_id": recorder.run_id if recorder else run_id or "unsaved", "told": False}
            try:
                await self._run_prompt(run, prompt, parent, entry["run_id"])
            finally:
                self.runs_before.append(entry)
        self.history.add(run.trajectory)
        entry["told"] = True
        return run.trajectory

    def _what_replies_must_bring(self) -> ReplyState:
        """Return what the first prompt's answer is checked for; a further one is free."""
        if self.runs_before:
            return ReplyState()
        return ReplyState(answer_type=self.settings.answer, outputs=self.settings.outputs)

    async def execute(
        self, source: str, answer_subcall: AnswerSubcall, on_message: OnMessage
    ) -> tuple[CellRun, Value | None]:
        """Run a person's cell. Nothing of it enters a record, no model is asked, and FINAL ends nothing.

        Only where no cell of a run can begin meanwhile: whoever calls this holds `kernel.user_cell_lock`.

        Parameters
        ----------
        answer_subcall
            Answers its sub-calls.
        on_message
            Told each message that it brings.

        Returns
        -------
        tuple
            What came of it, and the value that it gave to FINAL, if it did.

        Raises
        ------
        KernelDiedError
            There was no kernel any more; one that the cell takes along is a status of its own.
        """
        await self.kernel.forks.insurance.settled()
        self.is_touched = True
        await self.kernel.reopen()  # after an answer no sub-call is let through
        self.answering.instead = answer_subcall
        ok = False
        try:
            run = await self.kernel.execute(source, on_message=on_message)
            ok = run.status == "ok"
            return run, self.kernel.declared
        finally:
            self.answering.instead = None
            with contextlib.suppress(KernelError):
                await self.kernel.reopen()
                # what there is to say of this cell is nothing for the model
                self.variables = (await self.kernel.inspect()).variables
                paused = self.answering.run
                if paused is not None:
                    await undo.forget(paused, "a cell of yours was executed since")
                if ok:
                    self.kernel.forks.insure((0, 0) if paused is None else (paused.iteration, paused.cell_state.block))

    def stopped(self, prompt: str, emit: Callable[[Event], None] | None, why: str = "") -> Trajectory:
        """Return what came of a prompt that was stopped before its turn: a record of no cost, which is kept nowhere."""
        started = self._started(prompt, Ledger(self.settings.limits), "unsaved", None, "")
        return never_begun(started, "cancelled", why or "its turn had not come", tell=guarded(emit))

    async def _run_prompt(self, run: Run, prompt: str, parent: str | None, run_id: str) -> None:
        """Prepare the kernel, enter the first record of the run, solve it, and enter the last."""
        self.answering.run, self.answering.trajectory = run, run.trajectory
        restarted, restored = "", dict[str, Any]()
        await self.kernel.forks.insurance.settled()
        if self.is_branch:
            self.is_branch = False
            await self.kernel.reopen()  # the answer of the run that it branches from is not its own
            await cells.inspect_kernel(run)
        else:
            restarted, restored = await self._begin(run)
        self.kernel.forks.insure(None)
        if run.playback is not None:
            run.playback.begin(run)
        else:
            started = self._started(prompt, run.ledger, run_id, parent, restarted)
            self.remark = ""
            run.record(replace(started, options=started.options | ({"restarted": restored} if restored else {})))
        ending = Ending("failed")
        try:
            ending = await self._solve(run, parent)
        except asyncio.CancelledError as error:
            # the cell that asked is interrupted a moment before the deadline, and takes its children along
            in_time = parent is None or run.ledger.deadline.has(INTERRUPT_MARGIN)
            message = SETTLED if in_time and SETTLED in error.args else ""
            ending = Ending("cancelled" if in_time else "seconds", message=message)
            raise
        except RLMError as error:
            ending = Ending("failed", run.best, str(error))
            error.trajectory = run.trajectory
            raise
        finally:
            self.answering.run, self.variables = None, run.cell_state.variables
            # nothing may settle, and be billed, after the last record
            await self.kernel.cancel_subcalls()
            try:
                if run.replies.outputs is not None:
                    await output_files.deliver(run, run.replies.outputs)
                if ending.stop_reason not in {"answered", "answer_invalid"}:
                    await remark_on_draft(run, ending.answer, ending.message)
            finally:
                run.record(ended(run, ending))
                await conclude_policies(run)
                if parent is None:
                    await run.ledger.kernels.closings.finish()

    async def _begin(self, run: Run) -> tuple[str, dict[str, Any]]:
        """Prepare the kernel for a prompt; return what is to be said where it had died."""
        restarted, restored = "", dict[str, Any]()
        await self.kernel.forks.unmark()
        wanted, played = run.replies.answer_type, run.playback
        takes_none = (wanted is not None and wanted.takes_none) or (played is not None and played.takes_none)
        try:
            await self.kernel.begin(takes_none=takes_none)
            await self.take_contexts()
        except KernelDiedError:  # before, or just now
            restarted, restored = await self.restart()
            await self.take_contexts()
        await self.history.put(self.kernel)
        return restarted, restored

    async def _solve(self, run: Run, parent: str | None) -> Ending:
        """Solve the run: by asking directly, by several runs of the question, or by itself."""
        if parent is not None or self.history:  # a further prompt is about the variables of this one kernel
            if self.settings.samples > 1 and parent is None:
                run.ledger.remarks["samples"] = _ONCE
            return await until_stopped(run, solve)
        if self.settings.strategy == "auto" and self.settings.answer is None and self.settings.outputs is None:
            ending = await until_stopped(run, lambda run: ask_directly(run, self.context))
            if ending is not None:
                return ending
        if self.start_sample is None:
            return await until_stopped(run, solve)
        return await best_of(
            run, self.settings.samples, self.start_sample, require_agreement=self.settings.require_agreement
        )

    def _session_options(self) -> RecordedOptions:
        """Return what else it takes to resume a run that has others before it in its kernel, or beside it."""
        options: RecordedOptions = {
            "prompts_before": len(self.history),
            "after": [dict(one) for one in self.runs_before],
            "sample": self.sample,
            # with lists in place of tuples, as it is read back
            "contexts": [asdict(info) | {"details": list(info.details)} for info in self.earlier],
        }
        return as_far_as_given(options)

    async def restart(self, *, from_fork: bool = True) -> tuple[str, dict[str, Any]]:
        """Bring the kernel back, that died since the last prompt; what is back, for the model and the record.

        Parameters
        ----------
        from_fork
            Go on in the fork that was kept of it, where there is one; else it is empty.
        """
        fork = await self.kernel.forks.revive() if from_fork else None
        if fork is None:
            await self.kernel.restart()
        await self.kernel.begin()
        now = () if fork is None else (await self.kernel.inspect()).variables
        before, self.variables = self.variables, now
        said = notices.since_died(before, now)
        return said, {"said": said, "names": [], **restoration(now, fork)}

    def started(self, prompt: str, run_id: str, restarted: str = "") -> RunStarted:
        """Return how a run of this prompt would begin; `restarted` as for `initial.opening`."""
        return self._started(prompt, Ledger(self.settings.limits), run_id, None, restarted)

    def _started(self, prompt: str, ledger: Ledger, run_id: str, parent: str | None, restarted: str) -> RunStarted:
        started = run_started(
            self.settings,
            self.context,
            prompt,
            ledger,
            run_id,
            depth=self.depth,
            parent=parent,
            surroundings=self.surroundings,
            sandbox=self.sandbox,
            history=len(self.history),
            runs_before=[one["run_id"] for one in self.runs_before],
            earlier=self.earlier,
            restarted=restarted,
            remark=self.remark,
        )
        options = started.options | self._session_options()
        if self.kernel.is_forked:
            options["kernel"] = "forked"
        return replace(started, options=options)
