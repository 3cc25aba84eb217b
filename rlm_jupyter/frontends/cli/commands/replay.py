"""`replay`: execute a run again without any model, and compare what comes out."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.frontends.cli.consent import consent
from rlm_jupyter.frontends.cli.recorded_run import saved_run
from rlm_jupyter.frontends.cli.shared_arguments import add_consent, add_run

if TYPE_CHECKING:
    from rlm_jupyter.types.events import Event

EXAMPLES = """\
  jupyter rlm replay rlm_runs/20250102-101500-who.ipynb --yes
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_run(parser)
    add_consent(parser)
    parser.add_argument(
        "--sandbox", choices=("auto", "bwrap", "docker", "podman", "none"), help="as for run (default: as before)"
    )
    parser.add_argument(
        "--kernel-url", metavar="URL", help="as for run; local: this machine (default: not on a server)"
    )
    parser.add_argument("--kernel-token-env", metavar="NAME", help="as for run (default: JUPYTER_TOKEN)")
    parser.set_defaults(no_reexec=False)


def run(args: Namespace) -> int:
    """Run `jupyter rlm replay`; return the exit code: 0 where the same came out."""
    from rlm_jupyter.kernel.remote.server import token_in
    from rlm_jupyter.replay.replay import replay
    from rlm_jupyter.types.events import CellReplayed

    def tell(event: Event) -> None:
        if isinstance(event, CellReplayed) and not args.quiet:
            came_out = "other outputs" if event.difference else "the same outputs"
            what = came_out if event.executed else "not executed"
            terminal.say(f"  iteration {event.iteration}, cell {event.block + 1}: {what}")

    saved = saved_run(args)
    consent(args, saved, saved.cells_again)
    token = None if args.kernel_token_env is None else token_in(args.kernel_token_env)
    came = replay(saved, sandbox=args.sandbox, kernel=args.kernel_url, token=token, on_event=tell)
    if came.passed_over:
        terminal.say(
            f"Not executed, because they had been interrupted: cells of iteration {_listed(came.passed_over)}."
        )
    for difference in came.differences:
        terminal.write(difference.text)
    cells = terminal.count(came.cells, "cell")
    calls = " and ".join(terminal.calls(came.subcalls, came.tool_calls)) or "0 sub-calls"
    what = "the same came out" if came.same else f"{terminal.count(len(came.differences), 'difference')}"
    terminal.say(f"{cells} executed, {calls} answered from the record, no model asked: {what}.")
    return ANSWERED if came.same else FAILED


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
