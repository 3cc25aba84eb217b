"""`consent`: whether the cells of a record may be executed again."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.record.saved_run import SavedRun


def consent(args: Namespace, saved: SavedRun, cells: int) -> None:
    """Ask whether cells may be executed again.

    Raises
    ------
    ConfigurationError
        They may not, or nobody can be asked.
    """
    if args.no_reexec or args.yes or not cells:
        return
    what = f"{terminal.count(cells, 'cell')} of {saved.files.prompt_name}"
    kind = args.sandbox or saved.trajectory.started.options.get("sandbox", {}).get("kind")
    may = (
        "with your rights, as there is no sandbox"
        if kind == "none"
        else f"with all that {'it does' if cells == 1 else 'they do'}"
    )
    if not sys.stdin or not sys.stdin.isatty():
        raise ConfigurationError(f"{what} would be executed again, {may}, and nobody can be asked here: add --yes.")
    sys.stderr.write(
        f"{what} will be executed again, {may} (write files, send requests); their sub-calls "
        "are answered from the record. Go on? [y/N] "
    )
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfigurationError("Nothing was executed.")
