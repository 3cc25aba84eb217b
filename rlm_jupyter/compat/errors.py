"""What a run that met a limit raises there, and what is said of arguments that mean something else here."""

from __future__ import annotations

import sys
import warnings

from rlm_jupyter.run.result import Result
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.limits import Limits

_PACKAGE = "rlm_jupyter."


class CompatWarning(UserWarning):
    """An argument of the reference implementation means something else here."""


class _StoppedError(RLMError):
    """A run was ended before it had its answer; `result` is what it has, with its record."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
        self.partial_answer = result.answer
        """The best answer so far; `None`: there is none."""


class BudgetExceededError(_StoppedError):
    """The run reached `max_budget`, which is never overspent here."""

    def __init__(self, message: str, result: Result, budget: float | None) -> None:
        super().__init__(message, result)
        self.spent, self.budget = result.cost, budget


class TimeoutExceededError(_StoppedError):
    """The run took `max_timeout`."""

    def __init__(self, message: str, result: Result, timeout: float | None) -> None:
        super().__init__(message, result)
        self.elapsed, self.timeout = result.seconds, timeout


class TokenLimitExceededError(_StoppedError):
    """The run reached `max_tokens`."""

    def __init__(self, message: str, result: Result, token_limit: int | None) -> None:
        super().__init__(message, result)
        self.tokens_used, self.token_limit = result.usage.total_tokens, token_limit


class ErrorThresholdExceededError(_StoppedError):
    """So many iterations in a row failed as `max_errors` says."""

    def __init__(self, message: str, result: Result, threshold: int | None) -> None:
        super().__init__(message, result)
        self.error_count, self.threshold, self.last_error = threshold, threshold, _last_error(result)


class CancellationError(_StoppedError):
    """The run was stopped."""


def check_ended(result: Result, limits: Limits) -> None:
    """Raise where the reference implementation would: a limit, or the user, has ended the run.

    Raises
    ------
    BudgetExceededError, TimeoutExceededError, TokenLimitExceededError, ErrorThresholdExceededError, CancellationError
        As they are called.
    """
    match result.stop_reason:
        case "cost":
            raise BudgetExceededError(f"the budget of ${limits.max_cost} is used up", result, limits.max_cost)
        case "seconds":
            raise TimeoutExceededError(f"the time of {limits.max_seconds} s is up", result, limits.max_seconds)
        case "tokens":
            said = f"{limits.max_tokens:,} tokens may be used; {result.usage.total_tokens:,} were, and no more fit"
            raise TokenLimitExceededError(said, result, limits.max_tokens)
        case "errors":
            said = f"{limits.max_errors} iterations in a row failed"
            raise ErrorThresholdExceededError(said, result, limits.max_errors)
        case "cancelled":
            raise CancellationError(result.message or "the run was stopped", result)


def say_once(line: str) -> None:
    """Warn of something, once in the life of this process."""
    if line not in _SAID:
        _SAID.add(line)
        warnings.warn(line, CompatWarning, stacklevel=_frames_of_ours())


_SAID: set[str] = set()


def _frames_of_ours() -> int:
    """Return the `stacklevel` of the caller's own line, counted from `say_once`."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _last_error(result: Result) -> str | None:
    outputs = [output for one in result.trajectory.iterations for cell in one.cells for output in cell.outputs]
    errors = [output for output in outputs if output.get("output_type") == "error"]
    return f"{errors[-1].get('ename')}: {errors[-1].get('evalue')}" if errors else None
