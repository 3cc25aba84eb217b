"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rlm_jupyter.frontends.run_options import Surface, add_arguments


def add_options(parser: argparse.ArgumentParser, surface: Surface) -> None:
    """Add the options of a run that the command takes, in their groups."""
    whose = "each run" if surface in {"batch", "agents"} else "the run"
    limits = parser.add_argument_group(f"limits, for {whose} and all its sub-calls")
    groups: dict[str, Callable[..., object]] = {"": parser.add_argument, "limits": limits.add_argument}
    groups["sandbox"] = parser.add_argument_group("what the model's code is kept in").add_argument
    add_arguments(surface, groups)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the run that the command is about."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="name, id or path of a run (default: the newest)")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder whose runs the command is about."""
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where they are (default: rlm_runs)")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet`."""
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")


def add_saving(parser: argparse.ArgumentParser) -> None:
    """Add where a run is saved, and `--quiet`."""
    saving = parser.add_mutually_exclusive_group()
    saving.add_argument("--save", metavar="PATH", help="the run's notebook, or a folder/ for it (default: rlm_runs/)")
    saving.add_argument("--no-save", action="store_true", help="keep no notebook")
    add_quiet(parser)
    parser.set_defaults(json=False)


def add_consent(parser: argparse.ArgumentParser) -> None:
    """Add `--yes` and `--quiet` of a command that executes recorded cells."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask whether cells may be executed again")
    add_quiet(parser)


def add_resumption(parser: argparse.ArgumentParser, surface: Surface) -> None:
    """Add what a command takes that goes on with a run."""
    add_run(parser)
    add_options(parser, surface)
    parser.add_argument("--no-reexec", action="store_true", help="do not execute its cells again: the kernel is empty")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the answer alone")
    add_consent(parser)
