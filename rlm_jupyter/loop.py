"""The algorithm: ask, execute, show, until there is an answer or a limit (arXiv 2512.24601, Algorithm 1)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from rlm_jupyter import parsing, prompts
from rlm_jupyter.calls import Answered
from rlm_jupyter.errors import KernelDiedError, KernelError, LimitReached, ModelError
from rlm_jupyter.policies import ActionResult, PolicyContext
from rlm_jupyter.replies import Outcome, carry_out
from rlm_jupyter.run import INTERRUPT_MARGIN, Run
from rlm_jupyter.types import StopReason, Value

MOST_REPEATS = 3
"""Replies drawn in a row that repeat the one before them; then the run ends."""
_FORCED_TOKENS = 2_048
"""The cap of the forced final call."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    stop_reason: StopReason
    answer: Value | None = None
    message: str = ""


async def solve(run: Run) -> Ending:
    """Answer the prompt of `run`. The answer is looked at before any limit."""
    while (stop := _limit_reached(run)) is None:
        run.iteration, run.block = run.iteration + 1, 0
        try:
            reply = await _draw(run)
            outcome = await carry_out(run, reply)
        except LimitReached as limit:
            run.iteration -= 1
            return await _salvage(run, limit.stop_reason, str(limit))
        except KernelDiedError as death:
            return await _salvage(run, "kernel_died", str(death))
        await run.show()
        if outcome.answer is not None:
            return Ending("answered", outcome.answer)
        if (ended := await _policy_ends(run, outcome)) is not None:
            return ended
        run.errors = run.errors + 1 if outcome.failed else 0
    return await _salvage(run, stop)


async def _draw(run: Run) -> parsing.ParsedReply:
    """The next reply that is not the one before it over again."""
    for attempt in range(MOST_REPEATS):
        answered = await run.ask()
        reply = parsing.parse(answered.reply.text)
        if not _repeats(run, answered.reply.text[: reply.read]):
            run.received(answered, read=reply.read)
            return reply
        run.received(answered, read=reply.read, rejected=f"repeats the reply before it ({attempt + 1})")
    raise LimitReached(f"the model sent the same reply {MOST_REPEATS + 1} times", stop_reason="no_progress")


def _repeats(run: Run, text: str) -> bool:
    """Whether a reply says again what failed, or what changed nothing when it was said again."""
    before = run.trajectory.iterations[-2:]
    if not before or prompts.read_part(before[-1]).strip() != text.strip():
        return False
    last = before[-1]
    if not last.cells:
        # a FINAL that the model was asked to confirm is to be repeated
        return parsing.declared_in_prose(text) is None
    if all(cell.status == "skipped" for cell in last.cells):
        return False
    if any(cell.status != "ok" for cell in last.cells):
        return True
    return (
        len(before) == 2
        and prompts.read_part(before[0]) == prompts.read_part(last)
        and [cell.outputs for cell in before[0].cells] == [cell.outputs for cell in last.cells]
    )


def _limit_reached(run: Run) -> StopReason | None:
    if (stop := run.ledger.reached) is not None:
        return stop
    left = run.ledger.seconds_left
    if left is not None and left <= INTERRUPT_MARGIN:
        return "seconds"
    if run.limits.max_errors is not None and run.errors >= run.limits.max_errors:
        return "errors"
    return "iterations" if run.iteration >= run.limits.max_iterations else None


async def _policy_ends(run: Run, outcome: Outcome) -> Ending | None:
    """Ask the termination policy; its own words are never the answer."""
    iteration = run.trajectory.iterations[-1]
    result = ActionResult(
        action_type="code" if iteration.cells else "reason",
        success=not outcome.failed,
        output=iteration.shown,
        tokens_used=iteration.reply.usage.total_tokens,
    )
    context = PolicyContext(
        task=run.trajectory.started.prompt,
        step=run.iteration - 1,
        max_steps=run.limits.max_iterations,
        variables=await _named_values(run, iteration.shown),
    )
    ends, answer = run.policy.should_terminate(result, context)
    if not ends:
        return None
    return Ending("terminated", None if answer is None else Value(answer, answer, is_json=True))


async def _named_values(run: Run, shown: str) -> dict[str, str]:
    """The variables that a policy may look up: those that printed text names together with FINAL_VAR."""
    if "FINAL_VAR" not in shown:
        return {}
    values = {}
    for variable in run.variables:
        if variable.name in shown:
            with contextlib.suppress(KernelError):
                values[variable.name] = (await run.value(variable.name)).text
    return values


async def _salvage(run: Run, stop: StopReason, message: str = "") -> Ending:
    """The best answer there is: a draft, an unconfirmed FINAL, one forced final call, or none."""
    answer = run.draft
    if answer is None and run.unconfirmed is not None:
        text = run.unconfirmed
        answer = Value(text, text, is_json=True)
    if answer is None and stop not in {"cancelled", "seconds"} and run.trajectory.iterations:
        answer = await _forced(run)
    return Ending(stop, answer, message)


async def _forced(run: Run) -> Value | None:
    """Ask once more, for the answer alone."""
    run.notice(prompts.FORCED)
    run.room = min(run.room, _FORCED_TOKENS)
    try:
        answered = await run.ask()
    except (LimitReached, ModelError):
        return None
    run.received(answered, read=None, forced=True)
    return await _read_forced(run, answered)


async def _read_forced(run: Run, answered: Answered) -> Value | None:
    """The answer in a forced reply: a FINAL in it, a variable it names, else its prose; never its code."""
    reply = parsing.parse(answered.reply.text)
    declared = parsing.declared_in_prose(reply.prose)
    for block in reply.blocks:
        if (text := parsing.constant_final(block)) is not None:
            return _text(text)
        declared = declared or parsing.declared_in_prose(block)
    if declared is None:
        # a reply that still wants to run code has not answered
        return None if reply.blocks or reply.unclosed else _text(reply.prose)
    name = declared.content.strip("\"'")
    if declared.kind == "FINAL_VAR" or name in {variable.name for variable in run.variables}:
        try:
            return await run.value(name)
        except KernelError:
            return None
    return _text(declared.content)


def _text(text: str) -> Value | None:
    text = text.strip()
    return Value(text, text, is_json=True) if text else None
