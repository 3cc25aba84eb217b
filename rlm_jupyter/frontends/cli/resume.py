"""`resume`, `fork` and `replay`: what can be done with a run that is kept."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.frontends.cli.consent import consent
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.frontends.cli.run import save_path, token_of
from rlm_jupyter.frontends.run_options import Surface, changes

if TYPE_CHECKING:
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.types.events import Event


def resume(args: Namespace) -> int:
    """Run `jupyter rlm resume`; return the exit code."""
    from rlm_jupyter.replay.resume import Resumption, check_resumable
    from rlm_jupyter.run.running import Running

    saved = _saved(args)
    check_resumable(saved, None)
    going_on = Resumption(saved, _rlm(args, saved, "resume").settings, reexecutes=not args.no_reexec)
    consent(args, saved, saved.cells_again)
    prompt = saved.trajectory.started.prompt
    return answered(args, partial(Running, going_on, prompt), saved.files.shown)


def fork(args: Namespace) -> int:
    """Run `jupyter rlm fork`; return the exit code."""
    from rlm_jupyter.replay.fork import AS_ONE_RUN, Forking, forked
    from rlm_jupyter.run.running import Running
    from rlm_jupyter.types.events import CellFinished

    saved = _saved(args)
    part = forked(saved, args.at, edit=args.edit)
    rlm = _rlm(args, saved, "fork", save=save_path(args), **AS_ONE_RUN)
    forking = Forking(saved, part, rlm.settings, reexecutes=not args.no_reexec)
    cells = [record for record in part.records if isinstance(record, CellFinished)]
    before = saved.cells_again - saved.cells
    consent(args, saved, before + sum(cell.status in {"ok", "error"} for cell in cells))
    if not args.quiet:
        terminal.say(f"A new run with the first {terminal.count(part.at, 'iteration')} of {saved.files.prompt_name}.")
    prompt = saved.trajectory.started.prompt
    return answered(args, partial(Running, forking, prompt), rlm.settings.save)


def replay(args: Namespace) -> int:
    """Run `jupyter rlm replay`; return the exit code: 0 where the same came out."""
    from rlm_jupyter.replay.replay import replay
    from rlm_jupyter.types.events import CellFinished

    def tell(event: Event) -> None:
        if isinstance(event, CellFinished) and not args.quiet:
            terminal.say(f"  iteration {event.iteration}, cell {event.block + 1}: {event.status}")

    saved = _saved(args)
    consent(args, saved, saved.cells_again)
    came = replay(saved, sandbox=args.sandbox, kernel=args.kernel_url, token=token_of(args), on_event=tell)
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


def _saved(args: Namespace) -> SavedRun:
    """Read the run that was named, else the newest, and say which."""
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.replay.session_record import last_prompt

    if args.run is not None:
        return last_prompt(args.run)
    saved = last_prompt(SavedRun.newest().files.notebook)
    if not args.quiet:
        terminal.say(f"The newest run: {saved.files.prompt_name}")
    return saved


def _rlm(args: Namespace, saved: SavedRun, surface: Surface, **options: Any) -> RLM:
    """Return `RLM` as the run was configured, with what the arguments change."""
    from rlm_jupyter.kernel.remote.server import token_in
    from rlm_jupyter.models.pricing import parsed_prices
    from rlm_jupyter.models.sampling import parsed
    from rlm_jupyter.replay.resume import configuration
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.run.mcp.config import named_servers
    from rlm_jupyter.run.toolbox import imported_tools

    # a policy of the user's own is looked for where they stand, as `python -m` does
    sys.path.insert(0, str(Path.cwd()))
    read = {
        "option": parsed,
        "sub_option": parsed,
        "price": parsed_prices,
        "tool": imported_tools,
        "sub_tool": imported_tools,
        "mcp": named_servers,
        "kernel_token_env": token_in,
    }
    found = configuration(saved, changes(surface, args, read) | options)
    return RLM(found.model, **found.options)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
