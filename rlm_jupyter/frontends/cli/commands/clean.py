"""`clean`: delete runs that have ended."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.frontends.cli.kept_runs import folder_of
from rlm_jupyter.frontends.cli.shared_arguments import add_folder
from rlm_jupyter.types.errors import ConfigurationError, RecordError

if TYPE_CHECKING:
    from rlm_jupyter.record.catalog import RunSummary

_MOST_DAYS = 36_500
EXAMPLES = """\
  jupyter rlm clean --older-than 30 --yes
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_folder(parser)
    parser.add_argument("--older-than", type=float, default=0.0, metavar="DAYS", help="only those that ended before")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(args: Namespace) -> int:
    """Run `jupyter rlm clean`: delete runs that have ended, after asking; return the exit code."""
    from rlm_jupyter.record import catalog, footprint

    if not 0 <= args.older_than < _MOST_DAYS:
        raise ConfigurationError(
            f"--older-than {args.older_than:g}: it takes a number of days, from 0 to {_MOST_DAYS:,}."
        )
    runs = catalog.list_runs(args.folder)
    latest = datetime.now(UTC) - timedelta(days=args.older_than)
    ended = [run for run in runs if all(map(_is_over, catalog.prompts_of(run)))]
    # a run's seconds count from before its start is written down: of one that has just ended, the end lies ahead
    chosen = [run for run in ended if not args.older_than or _ended_at(run) <= latest]
    kept = len(runs) - len(ended)
    if kept:
        terminal.say(f"Kept: {terminal.count(kept, 'run')} that did not end (going on, or interrupted).")
    if not chosen:
        terminal.say(f"Nothing to delete in {folder_of(args)}.")
        return ANSWERED
    for run in chosen:
        size, own = footprint.size(run.files), footprint.freed([run.files])
        shared = f", {(size - own) / 1e6:.1f} MB of it shared" if size > own else ""
        terminal.say(f"  {run.files.name}  {size / 1e6:.1f} MB{shared}")
    # what only these share goes with the last of them
    freed = footprint.freed(run.files for run in chosen) / 1e6
    what = f"{terminal.count(len(chosen), 'run')} ({freed:.1f} MB) in {folder_of(args)}"
    if not args.yes and not _confirmed(f"Delete {what}? [y/N] "):
        terminal.say("Nothing was deleted.")
        return FAILED
    for run in chosen:
        for path in _delete(run):
            terminal.say(f"Kept: {path}, which the run has not written, or not as it is now.")
    terminal.say(f"Deleted {what}.")
    return ANSWERED


def _is_over(run: RunSummary) -> bool:
    from rlm_jupyter.record import journal_lock

    return run.ended is not None and not journal_lock.is_open(run.files.journal)


def _delete(run: RunSummary) -> list[Path]:
    """Delete the run; returns what is not the run's, and stays."""
    from rlm_jupyter.record import catalog, journal, journal_lock, removal

    files = run.files
    try:
        with ExitStack() as stack:
            # of a session, all its prompts
            free = [stack.enter_context(journal_lock.held(one.journal)) for one in files.prompts()]
            ends = journal.read_ends(files.journal)
            is_over = all(one.ended is not None for one in catalog.prompts_of(run))
            if not all(free) or not is_over or ends != (run.started, run.ended):
                raise RecordError(f"{files.name} is going on again, so it is not deleted.")
            return removal.remove(files)
    except OSError as error:
        raise RecordError(f"{error.filename} can't be deleted: {error.strerror or error}.") from None


def _confirmed(prompt: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        raise ConfigurationError("Nobody can be asked here: add --yes to delete.")
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _ended_at(run: RunSummary) -> datetime:
    from rlm_jupyter.record import catalog

    last = catalog.prompts_of(run)[-1]
    seconds = last.ended.seconds if last.ended is not None else 0.0
    return datetime.fromisoformat(last.started.started) + timedelta(seconds=seconds)
