"""The verdict on an iteration, without a model: its reward by the policies, whether the run ends, and if it may."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rlm_jupyter.policies import (
    ActionResult,
    DeclaredTerminationPolicy,
    FunctionRewardPolicy,
    PolicyContext,
    Reason,
    RewardSignal,
)
from rlm_jupyter.prompts import notices
from rlm_jupyter.record.iteration import Iteration
from rlm_jupyter.run import cells, output_files
from rlm_jupyter.run.answer_type import AnswerError
from rlm_jupyter.run.iteration import IterationOutcome
from rlm_jupyter.run.kernel_variables import KernelVariables
from rlm_jupyter.run.state import Run
from rlm_jupyter.run.user_code import in_thread, patience
from rlm_jupyter.types.errors import LimitReached, PolicyError
from rlm_jupyter.types.events import IterationRated, NoticeKind
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import Value

_REASON_CHARS = 200
"""Of what a policy says, in the run's message."""
log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the run ends now, and with what."""

    ends: bool
    answer: Value | None = None
    message: str = ""
    """Why a policy ends it, where that is no answer."""
    is_invalid: bool = False
    """The answer has not the form that was asked for, and the model has tried often enough."""


async def reset_policies(run: Run, prompt: str) -> None:
    """Reset the policies: a run begins.

    Raises
    ------
    PolicyError
        One of them failed.
    """
    context = PolicyContext(task=prompt, max_steps=run.limits.max_iterations)
    try:
        await _call(run, run.policies.termination, patience(run), run.policies.termination.reset)
        await _call(run, run.policies.reward, patience(run), run.policies.reward.on_episode_start, context)
    except Exception as error:
        raise PolicyError(f"A policy could not be reset: {type(error).__name__}: {error}") from error


async def conclude_policies(run: Run) -> None:
    """Tell the reward policy that the run has ended. What fails now costs nobody the answer."""
    state = run.policies
    context = PolicyContext(task=run.trajectory.started.prompt, history=state.steps, metrics=_metrics(run))
    try:
        await _call(run, state.reward, patience(run), state.reward.on_episode_end, context, state.total_reward)
    except Exception:
        log.exception("on_episode_end failed")


async def judge(run: Run, outcome: IterationOutcome) -> Verdict:
    """Rate the last iteration, ask the termination policy, and check an answer that ends the run: its form, its files.

    Raises
    ------
    PolicyError, LimitReached
        As `_apply_policies`.
    """
    verdict = await _apply_policies(run, outcome)
    if outcome.answer is None or verdict.answer is None:
        return verdict
    answer, reasons, told, files = verdict.answer, list[str](), dict[NoticeKind, str](), dict[str, bytes]()
    run.replies.wrong_files = []
    if run.replies.answer_type is not None:
        try:
            # validators of the user's may take their time
            answer = await in_thread(run, run.ledger.deadline.left, run.replies.answer_type.check, answer)
        except AnswerError as error:
            reasons = error.reasons
            told["wrong_form"] = notices.WRONG_FORM.format(reasons="\n".join(f"- {reason}" for reason in reasons))
    if run.replies.outputs is not None:
        wrong, files = await output_files.check(run, run.replies.outputs)
        run.replies.wrong_files = output_files.listed(wrong)
        told |= {"wrong_files": wrong} if wrong else {}
    if not told:
        run.replies.accepted = files
        return replace(verdict, answer=answer)
    run.replies.answer_errors += 1
    await cells.send_back(run, verdict.answer)
    for kind, text in told.items():
        run.notice(text, kind)
    if run.replies.answer_errors > run.limits.max_answer_errors:
        return replace(verdict, message="; ".join(reasons), is_invalid=True)
    return Verdict(ends=False)


async def remark_on_draft(run: Run, draft: Value | None, message: str) -> None:
    """Remark of an answer that nobody has accepted where it is not of the type that was asked for.

    Parameters
    ----------
    message
        Why the run has ended: a validator that has failed is not told of twice.
    """
    if run.replies.answer_type is None or draft is None:
        return
    try:
        await in_thread(run, patience(run), run.replies.answer_type.check, draft)
    except (AnswerError, PolicyError) as wrong:  # of the latter kind: a validator of the user's has failed
        why = " ".join(str(wrong).split()).rstrip(".")
        if why not in message:
            run.ledger.remarks["answer"] = f"the answer so far is not of the type that was asked for ({why})"
    except LimitReached:
        run.ledger.remarks["answer"] = (
            "whether the answer so far is of the type that was asked for was not seen in time"
        )


async def _apply_policies(run: Run, outcome: IterationOutcome) -> Verdict:
    """Rate the last iteration, record that, and ask the termination policy.

    A declared answer ends the run unless a policy that judges answers sends it back; then it is kept.

    Raises
    ------
    PolicyError
        A policy failed, or gave what is neither verdict nor reward.
    LimitReached
        The time was up before a policy had decided.
    """
    iteration = run.trajectory.iterations[-1]
    result = _result(run, iteration, outcome)
    context = PolicyContext(
        task=run.trajectory.started.prompt,
        step=run.iteration - 1,
        max_steps=run.limits.max_iterations,
        history=run.policies.steps,
        variables=KernelVariables(run),
        metrics=_metrics(run),
    )
    signal = await _call(run, run.policies.reward, run.ledger.deadline.left, _rate, run, iteration, result, context)
    context.metrics["last_reward"] = signal.value
    run.policies.total_reward += signal.value
    context.metrics["total_reward"] = run.policies.total_reward
    confidence = result.metadata.get("confidence")
    run.record(IterationRated(run.iteration, signal.value, signal.components, signal.explanation, confidence))
    run.policies.steps.append(_step(run, iteration, result, signal))
    if type(run.policies.termination) is DeclaredTerminationPolicy:  # a class made of it may say otherwise
        return Verdict(outcome.answer is not None, outcome.answer)
    # a policy may take its time, and look variables up: not in the thread that serves them
    ends, text = await in_thread(run, run.ledger.deadline.left, _ask_termination, run, result, context)
    return await _verdict_of(run, outcome, ends, text)


async def _verdict_of(run: Run, outcome: IterationOutcome, ends: bool, text: str | None) -> Verdict:
    declared = outcome.answer
    if declared is not None:
        if not ends and run.policies.termination.judges_final:
            await cells.send_back(run, declared)
            run.notice(notices.SENT_BACK.format(policy=run.policies.termination.name), "sent_back")
            return Verdict(ends=False)
        own = ends and run.policies.termination.judges_final and text is not None and not isinstance(text, Reason)
        return Verdict(True, declared if not own or text == declared.text else Value(str(text), text, is_json=True))
    if not ends:
        return Verdict(ends=False)
    if text is None or isinstance(text, Reason):
        why = textwrap.shorten(text or "", _REASON_CHARS, placeholder="…")
        return Verdict(True, message=f"The policy {run.policies.termination.name} ended it{f': {why}' if why else '.'}")
    return Verdict(True, Value(text, text, is_json=True))


def _result(run: Run, iteration: Iteration, outcome: IterationOutcome) -> ActionResult:
    executed = [cell for cell in iteration.cells if cell.status != "skipped"]
    failed = [cell for cell in executed if cell.status != "ok"]
    metadata: dict[str, Any] = {"iteration": run.iteration, "cells": len(executed)}
    if failed and len(failed) < len(executed):
        metadata["partial"] = True
    if run.cell_state.confidence is not None:
        metadata["confidence"] = run.cell_state.confidence
    if run.requests.token_confidence is not None:
        metadata["token_confidence"] = run.requests.token_confidence
    return ActionResult(
        action_type="code" if outcome.answer is None else "final",
        success=not outcome.failed,
        output=run.cell_state.rendered if outcome.answer is None else outcome.answer.text,
        error=_error(failed[-1].status, failed[-1].outputs) if failed else None,
        duration_ms=1000 * sum(cell.seconds for cell in executed),
        tokens_used=iteration.reply.usage.total_tokens,
        metadata=metadata,
    )


def _error(status: str, outputs: tuple[dict[str, Any], ...]) -> str:
    for output in reversed(outputs):
        if output["output_type"] == "error" and status == "error":
            return f"{output['ename']}: {output['evalue']}"
    return {"interrupted": "timeout: the cell was interrupted", "died": "the kernel died"}.get(status, status)


def _metrics(run: Run) -> dict[str, float]:
    usage = run.trajectory.usage
    return {
        "last_reward": 0.0,
        "total_reward": run.policies.total_reward,
        "errors": float(run.errors),
        "tokens": float(usage.total_tokens),
        "cost": run.trajectory.cost or 0.0,
        "subcalls": float(len(run.trajectory.subcalls)),
    }


def _step(run: Run, iteration: Iteration, result: ActionResult, signal: RewardSignal) -> dict[str, Any]:
    return {
        "step": run.iteration - 1,
        "action": result.action_type,
        "code": _code(iteration),
        "output": iteration.shown,
        "success": result.success,
        "error": result.error,
        "reward": signal.value,
    }


def _code(iteration: Iteration) -> str:
    return "\n\n".join(cell.source for cell in iteration.cells)


async def _call(run: Run, policy: object, seconds: float | None, function: Callable[..., _T], *args: Any) -> _T:
    """Call a policy: in a thread of its own, where it holds code of the user's."""
    if isinstance(policy, FunctionRewardPolicy) or not _is_ours(policy):
        return await in_thread(run, seconds, function, *args)
    return function(*args)


def _is_ours(policy: object) -> bool:
    return type(policy).__module__.startswith("rlm_jupyter.")


def _rate(run: Run, iteration: Iteration, result: ActionResult, context: PolicyContext) -> RewardSignal:
    reward = run.policies.reward
    try:
        signal = reward.calculate({"action": result.action_type, "code": _code(iteration)}, result, context)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"The reward policy {reward.name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(signal, RewardSignal):
        raise PolicyError(f"The reward policy {reward.name} gave {type(signal).__name__}, not a RewardSignal.")
    return signal


def _ask_termination(run: Run, result: ActionResult, context: PolicyContext) -> tuple[bool, str | None]:
    name = run.policies.termination.name
    try:
        verdict = run.policies.termination.should_terminate(result, context)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"The termination policy {name} failed: {type(error).__name__}: {error}") from error
    match verdict:
        case (bool() as ends, None | str() as text):
            return ends, text
    raise PolicyError(f"The termination policy {name} returns (True or False, a text or None), not {quoted(verdict)}.")
