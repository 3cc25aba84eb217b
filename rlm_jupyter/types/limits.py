"""`Limits`: everything that stops a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.quoted import quoted

_MAY_BE_ZERO = {"max_answer_errors", "max_depth", "max_subcalls", "max_tool_calls"}


@names_keywords()
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use. `None` means: no limit.

    A request that fails is sent again after 0.5 s, then after twice as long each time (8 s at most): up to 4 times
    where the provider failed or can't be reached (2 where it is a server of one's own), 2 times after a reply that
    can't be read or is too large, once after one that broke off. That is 7.5 s of waiting at most, unless the provider
    names a time (Retry-After, up to 10 minutes). One that is busy (429, 503, 529) is waited for as long as it does not
    refuse everything for more than 10 minutes. `max_seconds` ends all of it.

    Raises
    ------
    ConfigurationError
        A value is negative, zero where that makes no sense, or not a number.
    """

    max_iterations: int = 30
    """Replies of the root model, for each run."""
    max_errors: int | None = 5
    """Iterations in a row that fail, for each run."""
    max_answer_errors: int = 3
    """Answers that don't have the form that was asked for (`answer=`), for each run; with one more it ends."""
    max_depth: int = 1
    """For the whole tree: at this depth `rlm_query` becomes a plain call, as in the paper."""
    max_subcalls: int | None = 1_000
    """For the whole tree: prompts answered for cells."""
    max_tool_calls: int | None = 1_000
    """For the whole tree: calls of tools; further ones are refused."""
    max_tokens: int | None = None
    """For the whole tree: input and output tokens."""
    max_cost: float | None = None
    """For the whole tree, in US dollars."""
    max_seconds: float | None = None
    """For the whole tree, of wall time."""
    cell_seconds: float | None = 300.0
    """For one cell, waiting for sub-calls not counted."""
    concurrency: int = 32
    """Requests to providers in flight at once, for the whole tree."""
    max_kernels: int = 8
    """Kernels alive at once, for the whole tree."""
    output_chars: int = 20_000
    """What the model is shown of one iteration's outputs; the rest stays in a variable. No more characters than its
    window has tokens."""
    max_output_tokens: int = 8_192
    """The cap that each request for a reply carries."""
    request_idle_seconds: float | None = 600.0
    """Silence of a provider after which a request is given up for good; anything that arrives starts it anew. A
    server of one's own has three times as long until its reply begins: it may read a long prompt for many minutes."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind = str(field.type)
            if value is None and "None" in kind:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ConfigurationError(f"Limits({field.name}={quoted(value)}): a number is needed.")
            if "float" not in kind and not isinstance(value, int):
                raise ConfigurationError(f"Limits({field.name}={quoted(value)}): a whole number is needed.")
            if value < 0 or (value == 0 and field.name not in _MAY_BE_ZERO):
                least = "zero or more" if field.name in _MAY_BE_ZERO else "more than zero"
                raise ConfigurationError(f"Limits({field.name}={value:.10g}): it must be {least}.")
        if self.max_kernels < self.max_depth:
            raise ConfigurationError(
                f"Limits(max_kernels={self.max_kernels}, max_depth={self.max_depth}): each depth needs a kernel, so "
                f"allow at least {self.max_depth}."
            )
