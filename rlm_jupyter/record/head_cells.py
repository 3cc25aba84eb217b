"""What stands at the head of a run's notebook: the prompt, and the answer right below it."""

from __future__ import annotations

import re

from rlm_jupyter.record import file_list
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.said import said
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.events import RunEnded, RunStarted

_SHOWN_CHARS = 20_000
"""Of a prompt or an answer, to read; the whole is in the record."""


def greeting(started: RunStarted, prompt: int = 1) -> str:
    """Return the prompt, which of its kernel's it is, and what the run was started with."""
    context = started.context
    lines = [f"- Model: `{started.model}`" + (f", sub-calls: `{started.sub_model}`" if started.sub_model else "")]
    if context.type_name != "none":
        lines.append(f"- Context: `{context.type_name}`, {context.size}")
    lines.append(
        f"- Run: `{started.run_id}`, {started.moment}" + (f", started by `{started.parent}`" if started.parent else "")
    )
    if url := started.options.get("kernel_url"):
        lines.append(f"- Kernel: on {url}")
    if sandbox := started.options.get("sandbox"):
        shown = [f"`{path}`" for path in (*sandbox.get("read", ()), *sandbox.get("write", ()))]
        lines.append(f"- Sandbox: {sandbox['kind']}" + (f", shows {', '.join(shown)}" if shown else ""))
    if started.forked_from is not None:
        lines.append(f"- Forked from `{started.forked_from}` after iteration {started.forked_at}")
    number = "" if prompt == 1 else f" {prompt}"
    text = f"## Prompt{number}\n\n{said(_cut(started.prompt))}\n\n" + "\n".join(lines)
    # a child's prompt is always the same: what it was asked stands in its context
    asked = f"\n\nThe context begins:\n\n{_fenced(context.beginning)}" if started.depth and context.beginning else ""
    return text + asked


def _fenced(text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])
    return f"{fence}text\n{text}\n{fence}"


def farewell(ended: RunEnded) -> str:
    """Return the answer, and what it took."""
    facts = [
        in_short(ended.stop_reason, ended.message),
        f"iterations: {ended.iteration}",
        f"{ended.seconds:,.1f} s",
        f"tokens: {ended.usage.total_tokens:,}",
        "cost: unknown" if ended.cost is None else f"${ended.cost:,.4f}",
    ]
    body = "## No answer" if ended.answer is None else f"## Answer\n\n{_cut(answer_markdown(ended))}"
    message = f"\n\n> {' '.join(ended.message.split())}" if ended.message else ""
    files = f"\n\n### Files\n\n{listed}" if (listed := file_list.markdown(ended)) else ""
    return f"{said(f'{body}{message}{files}')}\n\n*{' · '.join(facts)}*"


def _cut(text: str) -> str:
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[:_SHOWN_CHARS]}\n\n*… {len(text) - _SHOWN_CHARS:,} more characters are in the record.*"
