"""`resume`: continue a run that was interrupted, or that met a limit."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from rlm_jupyter.frontends.cli.consent import consent
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.frontends.cli.recorded_run import rlm_as_saved, saved_run
from rlm_jupyter.frontends.cli.shared_arguments import add_resumption

EXAMPLES = """\
  jupyter rlm resume
  jupyter rlm resume rlm_runs/20250102-101500-who.ipynb --max-cost 2 --yes
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_resumption(parser, "resume")
    parser.set_defaults(no_save=False, save=None)


def run(args: Namespace) -> int:
    """Run `jupyter rlm resume`; return the exit code."""
    from rlm_jupyter.replay.resume import Resumption, check_resumable
    from rlm_jupyter.run.run_handle import RunHandle

    saved = saved_run(args)
    check_resumable(saved, None)
    going_on = Resumption(saved, rlm_as_saved(args, saved, "resume").settings, reexecutes=not args.no_reexec)
    consent(args, saved, saved.cells_again)
    prompt = saved.trajectory.started.prompt
    return answered(args, partial(RunHandle, going_on, prompt), saved.files.shown)
