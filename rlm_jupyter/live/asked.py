"""Sub-calls as one Markdown cell, folded: who was asked what, what came back, and what that took."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rlm_jupyter.events import SubcallSettled, SubcallStarted
from rlm_jupyter.live.safe import plain
from rlm_jupyter.live.seen import count

SHOWN = 100
"""Sub-calls that are listed; all are in the run's notebook."""
_FLYING = 8
"""Sub-calls in flight that are listed."""
_TEXT_CHARS = 1_500
_TITLE_CHARS = 80
_REST_SECONDS = 0.01
"""For each one that is listed: so long the list stays as it is, since all of it is told and drawn anew."""
_AT_ONCE = 10
"""As many make no list that is long."""


def rest(settled: Sequence[SubcallSettled]) -> float:
    """How many seconds the list need not be made anew."""
    return 0.0 if len(settled) <= _AT_ONCE else _REST_SECONDS * min(len(settled), SHOWN)


def markdown(settled: Sequence[SubcallSettled], waiting: int) -> str:
    """The cell's source: HTML in Markdown, in which whatever anybody said is escaped."""
    title = ", ".join(
        [count(len(settled), "sub-call")]
        + ([f"{waiting} in flight"] if waiting else [])
        + ([f"{failed} failed"] if (failed := _failed(settled)) else [])
        + (_totals(settled) if settled else [])
    )
    listed = "".join(_one(call) for call in settled[:SHOWN])
    if len(settled) > SHOWN:
        listed += f"<p>{count(len(settled) - SHOWN, 'further one')}: in the run's notebook.</p>"
    # in one line: a blank line would end the HTML for a Markdown reader
    return f"<details><summary>{_escaped(title)}</summary>{listed}</details>"


def facts(settled: Sequence[SubcallSettled]) -> list[dict[str, Any]]:
    """The same for programs, and for the side panel; bounded."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "tokens": call.usage.total_tokens,
            "cost": call.cost,
            "seconds": round(call.seconds, 3),
            "failed": call.failed,
            "child": call.child,
            "prompt": _head(call.prompt_head, _TITLE_CHARS),
        }
        for call in settled[:SHOWN]
    ]


def in_flight(started: Iterable[SubcallStarted]) -> list[dict[str, Any]]:
    """Those that were not answered yet, the oldest of them."""
    return [
        {
            "kind": call.kind,
            "ordinal": call.ordinal,
            "model": call.model,
            "prompt": _head(call.prompt_head, _TITLE_CHARS),
        }
        for call in islice(started, _FLYING)
    ]


def _one(call: SubcallSettled) -> str:
    name = "rlm_query" if call.kind == "rlm" else "llm_query"
    said = [f"child {call.child}"] if call.child else []
    said += [call.model] if call.model else []
    said += ["failed"] if call.failed else []
    said += _numbers(call.usage.total_tokens, call.cost, call.seconds)
    title = f"{name}: {_head(call.prompt_head, _TITLE_CHARS)}"
    more = call.prompt_chars - len(call.prompt_head)
    prompt = call.prompt_head + (f" … ({more:,} more characters)" if more > 0 else "")
    return (
        f"<details><summary>{_escaped(title)} · {_escaped(' · '.join(said))}</summary>"
        f"<p>Prompt</p><pre>{_escaped(prompt)}</pre>"
        f"<p>{'Failure' if call.failed else 'Reply'}</p><pre>{_escaped(_cut(call.text))}</pre></details>"
    )


def _failed(settled: Sequence[SubcallSettled]) -> int:
    return sum(call.failed for call in settled)


def _totals(settled: Sequence[SubcallSettled]) -> list[str]:
    cost = sum(call.cost or 0.0 for call in settled)
    tokens = count(sum(call.usage.total_tokens for call in settled), "token")
    # they run at once, so their times don't add up
    return [tokens] + ([f"${cost:.4f}"] if cost else []) + [f"the slowest {max(c.seconds for c in settled):.1f} s"]


def _numbers(tokens: int, cost: float | None, seconds: float) -> list[str]:
    return [count(tokens, "token")] + ([f"${cost:.4f}"] if cost else []) + [f"{seconds:.1f} s"]


def _head(text: str, limit: int) -> str:
    line = plain(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]} … ({len(text) - _TEXT_CHARS:,} more characters)"


def _escaped(text: str) -> str:
    """For HTML inside Markdown: nothing in it is a tag, a blank line, emphasis, a picture or a formula."""
    shown = html.escape(plain(text)).replace("\r", "").replace("\n", "&#10;")
    for sign in "*_`[]!$\\~":
        shown = shown.replace(sign, f"&#{ord(sign)};")
    return shown
