"""The runs that are kept in a folder: which are meant, and how one of them stands."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.errors import NoRunError

if TYPE_CHECKING:
    from rlm_jupyter.record.store import RunFiles
    from rlm_jupyter.types.events import RunEnded


def prompts_named(run: str | None) -> list[RunFiles]:
    """Return the prompts of the run that was named, else of the newest."""
    from rlm_jupyter.record import catalog, store

    if run is not None:
        return catalog.find_prompts(run)
    newest = next(iter(catalog.list_runs()), None)
    if newest is None:
        raise NoRunError(f"There are no runs in {store.FOLDER}: name one.")
    terminal.say(f"The newest run: {newest.files.name}")
    return newest.files.prompts()


def folder_of(args: Namespace) -> str:
    """Return the folder whose runs a command is about, as it may stand before a full stop."""
    from rlm_jupyter.record import store

    folder = str(args.folder or store.FOLDER)
    return str(Path(folder).resolve()) if folder.endswith(".") else folder


def state_of(files: RunFiles, ended: RunEnded | None) -> str:
    """Return in a few words whether a run goes on, or how it ended."""
    from rlm_jupyter.record import journal_lock
    from rlm_jupyter.types.endings import in_short

    if journal_lock.is_open(files.journal):
        return "going on"
    return in_short(ended.stop_reason, ended.message) if ended is not None else "interrupted"
