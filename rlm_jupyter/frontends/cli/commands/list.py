"""`list`: the runs that are kept in a folder."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, terminal
from rlm_jupyter.frontends.cli.kept_runs import folder_of, state_of
from rlm_jupyter.frontends.cli.shared_arguments import add_folder

if TYPE_CHECKING:
    from rlm_jupyter.record.catalog import RunSummary

EXAMPLES = """\
  jupyter rlm list
"""
_PROMPT_CHARS = 60
_STATE_CHARS = 32
"""Of why a run ended: it may be what a model said."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_folder(parser)


def run(args: Namespace) -> int:
    """Run `jupyter rlm list`: a table on a terminal, lines with tabs (and the time) in a pipe; return the exit code."""
    from rlm_jupyter.record import catalog

    runs = catalog.list_runs(args.folder)
    if not runs:
        terminal.say(f"No runs in {folder_of(args)}.")
        return ANSWERED
    rows = [_row(run, catalog.prompts_of(run)) for run in runs]
    if not sys.stdout.isatty():
        terminal.write("\n".join("\t".join(row) for row in rows))
        return ANSWERED
    from rich.table import Table
    from rich.text import Text

    table = Table("run", "ended", "prompt", "answer", box=None, pad_edge=False)
    # names stay whole, because `show` is given them; of the rest there is as much as the width allows
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for name, _, state, *rest in rows:
        table.add_row(
            name,
            terminal.one_line(state, _STATE_CHARS),
            *(Text(text, no_wrap=True, overflow="ellipsis") for text in rest),
        )
    terminal.console().print(table)
    return ANSWERED


def _row(run: RunSummary, prompts: list[RunSummary]) -> tuple[str, str, str, str, str]:
    """Return what is listed of a run: of a session how the last of its prompts ended, and how many there are."""
    *before, last = prompts
    more = f" (and {len(before)} more)" if before else ""
    prompt = terminal.one_line(run.started.prompt, _PROMPT_CHARS - len(more))
    return run.files.name, _started(run), state_of(last.files, last.ended), prompt + more, _answer(last)


def _started(run: RunSummary) -> str:
    return f"{datetime.fromisoformat(run.started.started).astimezone():%Y-%m-%d %H:%M}"


def _answer(run: RunSummary) -> str:
    return "" if run.ended is None or run.ended.answer is None else terminal.one_line(run.ended.answer, 80)
