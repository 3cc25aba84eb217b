"""Writing for people and for pipes: standard output, and words that are safe and short."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from rlm_jupyter.types.values import Usage

_KEPT = frozenset("\n\t")


def settle_streams() -> None:
    """Make the standard streams exist, and output never fail for a character that the terminal has not."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # open for the kernel as well, which inherits it and would not start
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def drop_streams() -> None:
    """Point standard output to nowhere, so that the exit does not try to flush into what is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


def say(text: str) -> None:
    """Write one line for people to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Write what was asked for to standard output, with a line end; verbatim unless a terminal shows it."""
    text = printable(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that leaves the colouring to us."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def is_live() -> bool:
    """Return whether standard error is a terminal whose lines can be drawn anew."""
    # in a notebook, `!jupyter rlm` has a terminal whose cursor does not move up
    in_notebook = "JPY_PARENT_PID" in os.environ
    return sys.stderr.isatty() and not in_notebook and os.environ.get("TERM", "") not in {"dumb", "unknown"}


def printable(text: str) -> str:
    """Return the text without what would steer a terminal: a model, or a document, may have written it."""
    if text.isprintable():
        return text
    return "".join(c if c in _KEPT or ord(c) > 159 or " " <= c <= "~" else _shown(c) for c in text)


def one_line(text: str, width: int = 100) -> str:
    """Return the beginning of a text, on one line of at most `width` characters."""
    line = printable(" ".join(text[: 4 * width].split()))
    return line if len(line) <= width and len(text) <= 4 * width else f"{line[: width - 1]}…"


def count(number: int, unit: str) -> str:
    """Return `1 iteration`, `1,204 tokens`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def calls(subcalls: int, tool_calls: int) -> list[str]:
    """Return `["3 sub-calls", "1 tool call"]`, without what is none."""
    counts = ((subcalls, "sub-call"), (tool_calls, "tool call"))
    return [count(number, unit) for number, unit in counts if number]


def duration(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def spent(usage: Usage, cost: float | None, *, of_tokens: int | None = None, of_cost: float | None = None) -> str:
    """Return `12,345 tokens · $0.0123`, or `12,345 of 50,000 tokens`; without a cost that is not known."""
    tokens = usage.total_tokens
    read = count(tokens, "token") if of_tokens is None else f"{tokens:,} of {count(of_tokens, 'token')}"
    limit = "" if of_cost is None else f" of ${of_cost:.2f}"
    dollars = "" if cost is None or not (cost or limit) else f" · ${cost:.4f}{limit}"
    return f"{read}{dollars}"


def _shown(character: str) -> str:
    # a carriage return before a line feed is a line end; alone it would write over the line
    return "" if character == "\r" else f"\\x{ord(character):02x}"
