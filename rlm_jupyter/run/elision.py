"""How many tokens a run's conversation has, and its oldest outputs left out of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import OutputsElided
from rlm_jupyter.types.tokens import BYTES_PER_TOKEN, most_tokens
from rlm_jupyter.types.values import Message


def tokens(run: Run) -> int:
    """Return about how many tokens the conversation has, as the provider counts."""
    return math.ceil(run.requests.conversation.tokens(run.trajectory) * run.requests.density)


def density(run: Run, counted: int) -> float:
    """Return how many tokens the provider counted for each that was estimated, as far as a tokenizer can."""
    return min(counted / max(run.requests.conversation.tokens(run.trajectory), 1), BYTES_PER_TOKEN)


def most_input(run: Run, conversation: Sequence[Message]) -> int | None:
    """Return a bound of the input from what the last request counted, plus a token a byte for what is new.

    `None`: it is not known what the last request counted.
    """
    if run.requests.last_read is None:
        return None
    known, counted = run.requests.last_read
    return counted + most_tokens(conversation[known:])


def elide(run: Run, *, last: bool = False) -> bool:
    """Leave out the outputs of one more iteration; the last one's only with `last`. Return whether there was one."""
    iterations = run.trajectory.iterations
    through = max(run.trajectory.elided_through, run.trajectory.compacted_through) + 1
    if not iterations or through > iterations[-1].index or (through == iterations[-1].index and not last):
        return False
    run.record(OutputsElided(through))
    run.requests.last_read = None
    return True


def free(run: Run, most: int) -> bool:
    """Leave out the oldest outputs until so many tokens are left at most; return whether any were left out."""
    freed = False
    while tokens(run) > most and elide(run):
        freed = True
    return freed
