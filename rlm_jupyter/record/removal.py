"""The removal of a run: of its own files, and of nothing else that stands among them."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from rlm_jupyter.record import atomic, changes, journal, notebook
from rlm_jupyter.record.blobs import CHILDREN, PROMPTS
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.prompts_beside import PromptsBeside, laid_out
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import RecordError

_JOURNAL = re.compile(r"journal\.jsonl|journal(-\d+)?\.damaged")
_OBJECT = re.compile(r"[0-9a-f]{64}(\.lengths)?")


def remove(files: RunFiles) -> list[Path]:
    """Remove a run whose journal is held: its notebook, unless somebody has changed it, and its folder.

    Returns
    -------
        What is not the run's, or was changed: it stays.

    Raises
    ------
    OSError
        The folder or the disk refuses.
    """
    started = journal.read_first(files.journal)
    kept = []
    if started is not None and notebook.run_id(files.notebook) == started.run_id:
        if _is_changed(files):
            kept.append(files.notebook)
        else:
            files.notebook.unlink()
    elif files.notebook.exists():
        kept.append(files.notebook)
    return kept + remove_folder(files)


def remove_folder(files: RunFiles) -> list[Path]:
    """Remove a run's folder, with all that a run puts there; returns what else is in it, which stays.

    Raises
    ------
    OSError
        The folder or the disk refuses.
    """
    folder = files.folder
    if not _is(folder, stat.S_ISDIR):
        return []
    for inside in (CHILDREN, PROMPTS):
        for run in _runs_in(folder / inside):
            remove(run)
        _remove_empty(folder / inside)
    _remove_named(folder / "objects", _OBJECT)
    atomic.remove_staging(folder / atomic.STAGING)
    # last of all: by it the run is known, until all the rest is gone
    _remove_named(folder, _JOURNAL)
    return sorted(path for path in folder.rglob("*") if not (_is(path, stat.S_ISDIR) and any(path.iterdir())))


def _runs_in(folder: Path) -> Iterator[RunFiles]:
    if _is(folder, stat.S_ISDIR):
        for path in sorted(folder.glob("*.rlm")):
            if _is(path, stat.S_ISDIR):
                yield RunFiles(path.with_suffix(".ipynb"))


def _is_changed(files: RunFiles) -> bool:
    try:
        layouts = [laid_out(files), *PromptsBeside().of(files).values()]
        return changes.is_changed(files.notebook.read_bytes(), b"".join(joined(layouts)))
    except RecordError:
        return True  # it can't be told


def _remove_named(folder: Path, names: re.Pattern[str]) -> None:
    if _is(folder, stat.S_ISDIR):
        for path in list(folder.iterdir()):
            if names.fullmatch(path.name) and _is(path, stat.S_ISREG):
                path.unlink()
        _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Return whether something is of this kind itself, not by a link."""
    try:
        return is_kind(path.lstat().st_mode)
    except FileNotFoundError:
        return False
