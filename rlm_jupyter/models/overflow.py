"""A prompt that is too long for a model's window, as servers say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.usage import tokens
from rlm_jupyter.types.errors import ContextWindowError

if TYPE_CHECKING:
    from rlm_jupyter.models.endpoint import Endpoint

_MOST_DIGITS = 12
_OVERFLOW_TYPES = {"context_length_exceeded", "exceed_context_size_error"}
_COUNT = r"(\d[\d,_]*)"
_OVERFLOW_TEXTS = (
    rf"prompt is too long: (?P<tokens>{_COUNT}) tokens > (?P<window>{_COUNT})",
    rf"exceed context limit: (?P<tokens>{_COUNT}) \+ {_COUNT} > (?P<window>{_COUNT})",
    rf"maximum context length is (?P<window>{_COUNT}) tokens.*?(?:resulted in|requested)(?: about)? "
    rf"(?P<tokens>{_COUNT})",
    rf"request \((?P<tokens>{_COUNT}) tokens\) exceeds the available context size \((?P<window>{_COUNT})",
    rf"token count \((?P<tokens>{_COUNT})\) exceeds the maximum number of tokens.*?\((?P<window>{_COUNT})",
    r"maximum context length|context window|prompt is too long|exceeds the available context size",
)
"""How servers say that a prompt is too long: Anthropic (2), OpenAI and vLLM, llama.cpp, Gemini, others."""


def overflow(status: int | None, detail: str, body: Mapping[str, Any], endpoint: Endpoint) -> ContextWindowError | None:
    """Return the error for a prompt that is too long, with its numbers; `None` where the server says no such thing."""
    if status not in {None, 400, 413, 500}:
        return None
    tokens, window = _count(body.get("n_prompt_tokens")), _count(body.get("n_ctx"))
    named = status == 413 or bool(_OVERFLOW_TYPES & {str(body.get("code")), str(body.get("type"))})
    found = next((found for text in _OVERFLOW_TEXTS if (found := re.search(text, detail, re.I | re.S))), None)
    if not (named or found):
        return None
    numbers = found.groupdict() if found else {}
    tokens, window = tokens or _count(numbers.get("tokens")), window or _count(numbers.get("window"))
    size = f" of {tokens:,} tokens" if tokens else ""
    limit = f" of {window:,} tokens" if window else ""
    return ContextWindowError(
        f"{endpoint.name}: a prompt{size} does not fit the model's window{limit}.",
        tokens=tokens,
        window=window,
    )


def _count(value: object) -> int | None:
    digits = re.sub(r"[,_]", "", value) if isinstance(value, str) else value
    if isinstance(digits, str):
        digits = int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None
    return tokens(digits)
