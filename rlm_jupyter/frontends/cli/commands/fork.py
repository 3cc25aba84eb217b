"""`fork`: begin a new run with the first iterations of another."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.frontends.cli.configuration import save_path
from rlm_jupyter.frontends.cli.consent import consent
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.frontends.cli.recorded_run import rlm_as_saved, saved_run
from rlm_jupyter.frontends.cli.shared_arguments import add_resumption

EXAMPLES = """\
  jupyter rlm fork 20250102-101500-who --at 3 -m openai/gpt-5
  jupyter rlm fork rlm_runs/20250102-101500-who.ipynb --edit
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "--at", type=int, metavar="INT", help="how many iterations the new run takes over (default: all but the last)"
    )
    parser.add_argument(
        "--edit", action="store_true", help="take the cells as you edited and saved them, and go on from the first"
    )
    add_resumption(parser, "fork")
    parser.add_argument(
        "--save", metavar="PATH", help="the new run's notebook, or a folder/ for it (default: rlm_runs/)"
    )
    parser.set_defaults(no_save=False)


def run(args: Namespace) -> int:
    """Run `jupyter rlm fork`; return the exit code."""
    from rlm_jupyter.replay.fork import OF_EACH_FORK, RunFork, forked
    from rlm_jupyter.run.run_handle import RunHandle
    from rlm_jupyter.types.events import CellFinished

    saved = saved_run(args)
    part = forked(saved, args.at, edit=args.edit)
    rlm = rlm_as_saved(args, saved, "fork", save=save_path(args), **OF_EACH_FORK)
    forking = RunFork(saved, part, rlm.settings, reexecutes=not args.no_reexec)
    cells = [record for record in part.records if isinstance(record, CellFinished)]
    before = saved.cells_again - saved.cells
    consent(args, saved, before + sum(cell.status in {"ok", "error"} for cell in cells))
    if not args.quiet:
        terminal.say(f"A new run with the first {terminal.count(part.at, 'iteration')} of {saved.files.prompt_name}.")
    prompt = saved.trajectory.started.prompt
    return answered(args, partial(RunHandle, forking, prompt), rlm.settings.save)
