"""The lines that tell of a run on a terminal: its beginning, a reply, a cell."""

from __future__ import annotations

import re

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.events import CellFinished, ReplyReceived, RunStarted

_STYLES = {"ok": "green", "error": "red", "died": "red", "interrupted": "yellow", "skipped": "dim"}
_MARKS = {"ok": "✓", "error": "✗", "died": "✗", "interrupted": "■", "skipped": "–"}
_ASCII_MARKS = {"ok": "+", "error": "x", "died": "x", "interrupted": "#", "skipped": "-"}
_SLOW_SECONDS = 2.0
"""A reply that took longer is told with its time."""
_HEAD = r"(?:async )?(?:for|while|with|if|elif|else|try|except|finally)\b.*:"
_DULL = re.compile(rf"\s*(#\s*)?(?:(?:from \S+ )?import\b[^;]*|{_HEAD}|[\W_]*)$")
"""A line that says nothing of what a cell does."""


def of_start(started: RunStarted) -> list[tuple[str, str]]:
    """Return lines with their styles that name model, context and sandbox, and say what it means that there is none."""
    context = "" if started.context.type_name == "none" else f" · {_context(started)}"
    kind = started.options.get("sandbox", {}).get("kind")
    sandbox = f" · sandbox: {kind}" if kind not in {None, "none"} else ""
    if url := started.options.get("kernel_url"):
        sandbox = f" · kernel: {url}"
    unsafe = [("No sandbox: the model's code runs with your rights.", "yellow")] if kind == "none" else []
    return [(f"{started.model}{context}{sandbox}", "dim"), *unsafe]


def of_reply(reply: ReplyReceived, width: int) -> tuple[str, str]:
    """Return a reply's line, and its style: what is said before its code."""
    prose = reply.text[: reply.read].partition("```")[0].strip()
    if reply.rejected:
        return f"{reply.iteration:>3} resampled: {terminal.one_line(reply.rejected, width - 16)}", "yellow"
    words = "the last call: " * reply.forced + (prose or "(code alone)")
    took = _took(reply)
    return f"{reply.iteration:>3} {terminal.one_line(words, width - 4 - len(took))}{took}", "" if prose else "dim"


def of_cell(cell: CellFinished, facts: str, width: int, *, is_unicode: bool) -> tuple[str, str]:
    """Return a cell's line, and its style: what it does, or how it failed, and `facts` of it."""
    marks = _MARKS if is_unicode else _ASCII_MARKS
    said = _error(cell) if cell.status == "error" else gist(cell.source, width)
    said = "the kernel died" if cell.status == "died" else said
    room = max(width - len(facts) - 9, 20)
    return f"    {marks[cell.status]} {terminal.one_line(said, room)}  {facts}", _STYLES[cell.status]


def _took(reply: ReplyReceived) -> str:
    """Return how long a slow reply took, and how fast it was written."""
    if reply.seconds < _SLOW_SECONDS:
        return ""
    return f"  {terminal.duration(reply.seconds)}, {reply.usage.output_tokens / reply.seconds:.2g} tokens/s"


def _context(started: RunStarted) -> str:
    return f"{started.context.type_name}, {started.context.size}"


def gist(source: str, width: int) -> str:
    """Return the line of a cell that says most of what it does: its first comment, else its first line of work."""
    lines = [line.strip() for line in source.splitlines()]
    comments = [line.lstrip("# ") for line in lines if line.startswith("#") and not _DULL.match(line)]
    work = [line for line in lines if not line.startswith("#") and not _DULL.match(line)]
    return terminal.one_line(next(iter([*comments[:1], *work[:1], *lines[:1]]), ""), width)


def _error(cell: CellFinished) -> str:
    for output in reversed(cell.outputs):
        if output.get("output_type") == "error":
            return f"{output.get('ename', 'error')}: {output.get('evalue', '')}"
    return "failed"
