"""`counted`: what a provider says that a request has used, as `Usage`; what makes no sense there is estimated."""

from __future__ import annotations

from collections.abc import Sequence

from rlm_jupyter.types.tokens import estimate_tokens, tokens_of
from rlm_jupyter.types.values import Message, Usage

_MOST_TOKENS = 10**9
"""No request has more: beyond that a number is no count."""


def counted(
    messages: Sequence[Message],
    text: str,
    *,
    read: object,
    written: object,
    cached: object = None,
    cache_write: object = None,
    reasoning: object = None,
) -> tuple[Usage, bool]:
    """Make `Usage` of the numbers that came with a reply.

    Parameters
    ----------
    messages, text
        What was sent and what has come: from these a number that is missing or can't be one is estimated.
    read, written
        All input and all output tokens. Every request has input, and a visible text has output.
    cached, cache_write, reasoning
        Parts of these; without effect where they are no counts, or larger than the whole.

    Returns
    -------
    Usage, bool
        And whether one of the two is an estimate.
    """
    told_read, told_written = tokens(read), tokens(written)
    estimated = not told_read or told_written is None or (told_written == 0 and bool(text))
    input_tokens = told_read or sum(map(tokens_of, messages))
    output_tokens = told_written or estimate_tokens(text)
    of_cache, to_cache = _part(cached, input_tokens), _part(cache_write, input_tokens)
    if of_cache + to_cache > input_tokens:
        of_cache = 0  # the cheaper part: the ledger must not fall below what is billed
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=of_cache,
        cache_write_tokens=to_cache,
        reasoning_tokens=_part(reasoning, output_tokens),
    ), estimated


def tokens(value: object) -> int | None:
    """Return `value` if it is a count of tokens, also one written as `12.0`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        return None
    return value


def _part(value: object, whole: int) -> int:
    part = tokens(value) or 0
    return part if part <= whole else 0
