"""What the reference's arguments must be, checked before anything is started; errors name them as the caller did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rlm_jupyter.compat.logger import RLMLogger
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.takes import takes

_CALLED_WITH = {
    "on_subcall_start": "depth, model, prompt",
    "on_subcall_complete": "depth, model, seconds, error",
    "on_iteration_start": "depth, iteration",
    "on_iteration_complete": "depth, iteration, seconds",
}
_THEIRS = {
    "max_cost": "max_budget",
    "max_seconds": "max_timeout",
    "cell_seconds": "cell_timeout",
    "compact_at": "compaction_threshold_pct",
}
"""What our arguments are called there."""


def check_logger(logger: object) -> None:
    """Refuse what can't keep a trajectory.

    Raises
    ------
    ConfigurationError
        It is no `RLMLogger`.
    """
    if logger is not None and not isinstance(logger, RLMLogger):
        raise ConfigurationError(f'logger is an RLMLogger, such as RLMLogger(log_dir="logs"), not {quoted(logger)}.')


def check_switches(switches: Mapping[str, object]) -> None:
    """Refuse what is neither `True` nor `False`.

    Raises
    ------
    ConfigurationError
        Names the argument.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} is True or False, not {quoted(value)}.")


def check_mappings(given: Mapping[str, object]) -> None:
    """Refuse what is no dict of arguments.

    Raises
    ------
    ConfigurationError
        Names the argument.
    """
    for name, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise ConfigurationError(f"{name} is a dict, not {quoted(value)}.")


def check_counts(least: Mapping[str, int], counts: Mapping[str, object]) -> None:
    """Refuse what is no whole number, or too small.

    Parameters
    ----------
    least
        By name, the smallest that each may be.

    Raises
    ------
    ConfigurationError
        Names the argument.
    """
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least[name]:
            raise ConfigurationError(f"{name} is a whole number from {least[name]} on, not {quoted(value)}.")


def check_callbacks(callbacks: Mapping[str, Callable[..., object] | None]) -> None:
    """Refuse what can't be called with what it will be told.

    Raises
    ------
    ConfigurationError
        Says with what it will be called.
    """
    for name, callback in callbacks.items():
        told = _CALLED_WITH[name]
        if callback is not None and not takes(callback, len(told.split(", "))):
            raise ConfigurationError(f"{name} is a function of {told}, not {quoted(callback)}.")


@contextmanager
def as_named_there() -> Iterator[None]:
    """Name the caller's own arguments in what is wrong with ours that were made of them."""
    try:
        yield
    except ConfigurationError as error:
        text: Any = str(error)
        for ours, theirs in _THEIRS.items():
            text = text.replace(ours, theirs)
        raise ConfigurationError(text.replace("Limits(", "RLM(")) from None
