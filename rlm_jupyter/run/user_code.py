"""Calls of a user's own code, a policy's or a validator's, which may take its time, or never return."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

from rlm_jupyter.run.kernel_variables import PATIENCE
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.detached import started
from rlm_jupyter.types.errors import LimitReached, PolicyError

_T = TypeVar("_T")

_MOMENT = 0.5


def patience(run: Run) -> float:
    """Return how long that may take as a run begins and ends: no longer than the run has, and a moment."""
    left = run.ledger.deadline.left
    return PATIENCE if left is None else min(PATIENCE, max(left, _MOMENT))


async def in_thread(run: Run, seconds: float | None, function: Callable[..., _T], *args: Any) -> _T:
    """Call it in a thread of its own, which holds up neither the loop, nor the run's end, nor the interpreter's."""
    context = contextvars.copy_context()

    def call() -> _T:
        try:
            return context.run(function, *args)
        except Exception:
            raise
        except BaseException as error:
            # SystemExit would end the loop, and every run in it
            raise PolicyError(f"A policy failed: {type(error).__name__}: {error}") from error

    future, thread = started(call, "rlm_policy")
    run.policies.threads[:] = [*(other for other in run.policies.threads if other.is_alive()), thread]
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise LimitReached("the time was up before a policy had decided", stop_reason="seconds") from None
