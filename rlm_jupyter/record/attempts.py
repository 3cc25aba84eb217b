"""The other samples of a run, and what was answered before its first iteration, in lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from rlm_jupyter.record.escaped import escaped, head
from rlm_jupyter.types.endings import no_answer
from rlm_jupyter.types.events import DirectReplied, SampleSettled

_TEXT_CHARS = 1_500
Attempt = SampleSettled | DirectReplied


def line(attempt: Attempt, limit: int = 80) -> str:
    """Say in one line what came of it.

    Parameters
    ----------
    limit
        Characters of the answer that are shown.
    """
    facts = [f"{attempt.usage.total_tokens:,} tokens"] + ([f"${attempt.cost:.4f}"] if attempt.cost else [])
    facts.append(f"{attempt.seconds:.1f} s")
    return f"{_name(attempt)}: {head(_said(attempt), limit)} · {' · '.join(facts)}"


def markdown(attempts: Sequence[Attempt]) -> str:
    """Render them as HTML in Markdown, folded; whatever a model said is escaped."""
    listed = "".join(
        f"<details><summary>{escaped(line(one))}</summary><pre>{escaped(_said(one)[:_TEXT_CHARS])}</pre></details>"
        for one in attempts
    )
    samples = sum(isinstance(one, SampleSettled) for one in attempts)
    title = f"{samples} other sample{'' if samples == 1 else 's'}" if samples else "Asked directly"
    # in one line: a blank line would end the HTML for a Markdown reader
    return f"<details><summary>{escaped(title)}</summary>{listed}</details>"


def _name(attempt: Attempt) -> str:
    if isinstance(attempt, SampleSettled):
        return f"Sample {attempt.sample}"
    return f"Asked directly, reply {attempt.number}"


def _said(attempt: Attempt) -> str:
    if isinstance(attempt, DirectReplied):
        return attempt.text or "(nothing)"
    return attempt.answer if attempt.answer is not None else no_answer(attempt.stop_reason, attempt.message)
