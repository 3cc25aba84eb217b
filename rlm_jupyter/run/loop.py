"""The algorithm: ask, execute, show, judge, until there is an answer or a limit (arXiv 2512.24601, Algorithm 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, TypeVar

from rlm_jupyter import parsing
from rlm_jupyter.prompts import cues, notices
from rlm_jupyter.run import cells, root_model
from rlm_jupyter.run.budget.deadline import TIME_IS_UP
from rlm_jupyter.run.budget.request import Completion
from rlm_jupyter.run.grounding import is_question, made_up
from rlm_jupyter.run.iteration import carry_out
from rlm_jupyter.run.judge import judge
from rlm_jupyter.run.state import INTERRUPT_MARGIN, Run
from rlm_jupyter.types.errors import KernelDiedError, KernelError, LimitReached, ModelError, PolicyError
from rlm_jupyter.types.values import StopReason, Value

_T = TypeVar("_T")
_OVERTIME = 0.75
"""Grace period after the deadline, in seconds; then the run is cancelled."""
_POLL_SECONDS = 0.75
"""Seconds between two looks at whether the record of an earlier run is still being played back."""
_LAST_LOOK = 0.5
"""Seconds that the kernel of a run that was cancelled so has to return the best answer."""
_LEAST_FOR_LAST_REPLY = 0.1
"""Seconds that must be left for a last reply to be requested."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    stop_reason: StopReason
    answer: Value | None = None
    message: str = ""
    confidence: float | None = None
    """The share of the samples that agree; `None`: there was one."""
    is_judged: bool = True
    """Whether the reward policy judges it: not where a policy has failed (`RunEnded.is_judged`)."""


async def solve(run: Run) -> Ending:
    """Answer the prompt of `run`. An answer is judged before limits are checked for the next iteration."""
    while True:
        root_model.hold_back_last_reply(run)
        await run.checkpoint()
        if not run.is_replaying and (stop := _limit_reached(run)) is not None:
            return await _salvage(run, stop)
        run.iteration += 1
        run.cell_state.begin()
        try:
            reply = await root_model.next_reply(run)
            root_model.hold_back_last_reply(run, has_cells=True)
            outcome = await carry_out(run, reply)
        except LimitReached as limit:
            run.iteration = run.trajectory.iterations[-1].index if run.trajectory.iterations else 0
            why = "" if str(limit) == TIME_IS_UP else str(limit)
            return await _salvage(run, limit.stop_reason, why, may_ask=not limit.model_has_given_up)
        except KernelDiedError as death:
            return await _salvage(run, "kernel_died", str(death))
        await cells.show(run)
        try:
            verdict = await judge(run, outcome)
        except (PolicyError, LimitReached) as fault:
            stop = fault.stop_reason if isinstance(fault, LimitReached) else "failed"
            return Ending(stop, outcome.answer or run.best, str(fault), is_judged=False)
        if run.playback is not None and run.playback.went_on():  # the recorded run went on here, so this one does
            run.replies.accepted = {}
            if outcome.answer is not None and run.kernel.declared is not None:
                await cells.send_back(run, outcome.answer)
        elif verdict.answer is not None:
            stop = "answer_invalid" if verdict.is_invalid else "answered" if outcome.answer else "terminated"
            return Ending(stop, verdict.answer, verdict.message)
        elif verdict.ends:
            return await _salvage(run, "terminated", verdict.message)
        if not outcome.denied:
            run.errors = (run.errors + 1) if outcome.failed else 0


async def until_stopped(run: Run, work: Callable[[Run], Coroutine[Any, Any, _T]]) -> _T | Ending:
    """Run `work`, such as `solve`, until it returns, the run is stopped, or its time is up; the best answer is kept."""
    stop_event = run.control.stopping
    if stop_event.is_set():
        return Ending("cancelled", message=run.control.why_stopped)
    solving = asyncio.create_task(work(run))
    stopping = asyncio.create_task(stop_event.wait())
    expiring = asyncio.create_task(_expired(run))
    try:
        await asyncio.wait([solving, stopping, expiring], return_when="FIRST_COMPLETED")
        if solving.done():
            return solving.result()
        solving.cancel()
        await asyncio.wait([solving])
        if stopping.done():
            return Ending("cancelled", await cells.latest_best(run), message=run.control.why_stopped)
        return Ending("seconds", await cells.latest_best(run, _LAST_LOOK))
    finally:
        for task in (solving, stopping, expiring):
            task.cancel()
        await asyncio.gather(solving, stopping, expiring, return_exceptions=True)


async def _expired(run: Run) -> None:
    """Wait until the time is up, and `_OVERTIME` more."""
    await run.ledger.deadline.expired(_OVERTIME)
    while run.is_replaying:  # nothing is spent meanwhile, and the clock will begin anew
        await asyncio.sleep(_POLL_SECONDS)
        await run.ledger.deadline.expired(_OVERTIME)


def _limit_reached(run: Run) -> StopReason | None:
    """Return the limit that allows no further iteration, if there is one."""
    if (stop := run.ledger.reached) is not None:
        return stop
    left = run.ledger.deadline.left
    if left is not None and left <= INTERRUPT_MARGIN + run.requests.held_back.seconds:
        return "seconds"
    if run.limits.max_errors is not None and run.errors >= run.limits.max_errors:
        return "errors"
    return "iterations" if run.iteration >= run.limits.max_iterations else None


async def _salvage(run: Run, stop: StopReason, message: str = "", *, may_ask: bool = True) -> Ending:
    """Return the best answer there is (`Run.best`), else that of a last reply, or none."""
    answer = run.best
    # a cell that was interrupted in time may have used part of the margin that was reserved for this reply
    least = min(INTERRUPT_MARGIN, max(run.requests.held_back.seconds, _LEAST_FOR_LAST_REPLY))
    # where no output was shown and the kernel has no variables, an answer would be made up (`can_conclude`)
    if may_ask and answer is None and run.can_conclude and run.ledger.deadline.has(least):
        answer, why = await _request_last_reply(run)
        message = "; ".join(filter(None, [message, why]))
    return Ending(stop, answer, message)


async def _request_last_reply(run: Run) -> tuple[Value | None, str]:
    """Ask for a last reply, the answer alone; return the answer, or why what was said is none."""
    run.notice(notices.LAST_REPLY)
    answered = None
    while answered is None:
        try:
            answered = await root_model.request_reply(run, last=True)
        except LimitReached as limit:
            if limit.stop_reason not in {"tokens", "cost"} or not root_model.drop_oldest(run):
                return None, ""
        except ModelError:
            return None, ""
    root_model.received(run, answered, read=None, forced=True)
    found = await _read_last_reply(run, answered)
    if isinstance(found, Value):
        return found, ""
    said = (found or "").strip()
    if said and (why := _no_answer(run, said)):
        return None, f"the model's last reply, {shorten(said, 80)!r}, is not taken for an answer: {why}"
    return (Value(said, said, is_json=True) if said else None), ""


def _no_answer(run: Run, said: str) -> str:
    """Return why a text, of a literal FINAL or of prose, is no answer; empty where it may be one."""
    if not run.has_seen:
        return "no code has shown anything that it could come from"
    if cues.says_nothing_found(said) and not any(map(str.isdigit, said)):
        return "it only says that nothing was found"
    if is_question(said, run.trajectory.started.prompt):
        return "it only says the question again"
    figure = made_up(said, run.trajectory)
    return "" if figure is None else f"{figure} stands in nothing that it was shown"


async def _read_last_reply(run: Run, answered: Completion) -> Value | str | None:
    """Return the answer in such a last reply: a FINAL in it, a variable it names, else its prose; never its code."""
    reply = parsing.parse(answered.reply.text)
    names = {variable.name for variable in run.cell_state.variables}
    declared = parsing.declared_in_prose(reply.prose)
    if declared is None and not reply.blocks:
        # a block that was cut off has not answered
        return None if reply.unclosed else reply.prose
    sources = reply.blocks if declared is None else (parsing.literal_cell(declared, names),)
    for source in (parsing.mend_prose_final(block) or block for block in sources):
        if (text := parsing.constant_final(source)) is not None:
            return text
    name = parsing.named_final(sources[0]) if len(sources) == 1 else None
    if name not in names:
        return None
    try:
        return await run.kernel.get(name)
    except KernelError:
        return None
