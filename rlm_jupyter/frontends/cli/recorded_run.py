"""The recorded run that a command is about, and the `RLM` that goes on with it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.frontends.run_options import Surface, changes

if TYPE_CHECKING:
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.rlm import RLM


def saved_run(args: Namespace) -> SavedRun:
    """Read the run that was named, else the newest, and say which."""
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.replay.session_record import last_prompt

    if args.run is not None:
        return last_prompt(args.run)
    saved = last_prompt(SavedRun.newest().files.notebook)
    if not args.quiet:
        terminal.say(f"The newest run: {saved.files.prompt_name}")
    return saved


def rlm_as_saved(args: Namespace, saved: SavedRun, surface: Surface, **options: Any) -> RLM:
    """Return `RLM` as the run was configured, with what the arguments change."""
    from rlm_jupyter.kernel.remote.server import token_in
    from rlm_jupyter.models.pricing import parsed_prices
    from rlm_jupyter.models.sampling import parsed
    from rlm_jupyter.policies.import_string import import_from_working_folder
    from rlm_jupyter.replay.recorded_configuration import configuration
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.run.mcp.config import named_servers
    from rlm_jupyter.run.toolbox import imported_tools

    import_from_working_folder()  # where policies and tools of the user's own are
    read: dict[str, Callable[[Any], Any]] = {
        "option": parsed,
        "sub_option": parsed,
        "price": parsed_prices,
        "tool": partial(imported_tools, option="--tool"),
        "sub_tool": partial(imported_tools, option="--sub-tool"),
        "mcp": named_servers,
        "kernel_token_env": token_in,
    }
    found = configuration(saved, changes(surface, args, read) | options)
    return RLM(found.model, **found.options)
