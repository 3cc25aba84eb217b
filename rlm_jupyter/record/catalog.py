"""The runs that are saved: found by name, id or request, and listed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.blobs import CHILDREN
from rlm_jupyter.record.store import FOLDER, RunFiles, as_notebook
from rlm_jupyter.types.errors import NoRunError, RecordError
from rlm_jupyter.types.events import RunEnded, RunStarted


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list: where it is, how it began, and how it ended (`None`: it did not, or was killed)."""

    files: RunFiles
    started: RunStarted
    ended: RunEnded | None


def find(run: str | Path, where: str | Path | None = None) -> RunFiles:
    """Return the files of a run that exists.

    Parameters
    ----------
    run
        A run id, a name, or the path of a notebook or of its `.rlm` folder.
    where
        The folder to look from, when it is no path: in it, in its `rlm_runs`, and in the runs' children
        there. The working directory when left out.

    Raises
    ------
    NoRunError
        There is no such run; says where it was looked for.
    """
    base = Path(where or ".").absolute()
    path = base / run
    if path.suffix in {".ipynb", ".rlm"} or len(Path(run).parts) > 1:
        files = RunFiles(as_notebook(path))
        if files.exists():
            return files
        raise NoRunError(f"There is no run at {path}.")
    needle = json.dumps(str(run), ensure_ascii=False).encode("utf-8", "replace")
    places = [base, base / FOLDER]
    for place in places:
        for files in _runs_in(place, children=True):
            started = journal.read_first(files.journal, needle)
            if started is not None and started.run_id == run:
                return files
    for place in places:
        files = RunFiles(place / f"{run}.ipynb")
        if files.exists():
            return files
    for place in places:
        for path in sorted(place.glob("*.ipynb")):
            with contextlib.suppress(RecordError):
                if notebook.read_started(path).run_id == run:
                    return RunFiles(path)
    raise NoRunError(f"There is no run {str(run)!r} in {base} or its {FOLDER}. Change to the folder of its notebook.")


def list_runs(folder: str | Path | None = None) -> list[RunSummary]:
    """Return the runs in a folder, newest first; of each only the first and the last record are read.

    Parameters
    ----------
    folder
        The `rlm_runs` of the working directory when left out. A folder that is not there has no runs.
    """
    found = _summaries(Path(FOLDER if folder is None else folder).absolute())
    return sorted(found, key=lambda run: run.started.started, reverse=True)


def find_request(digest: str, folder: str | Path | None = None) -> RunSummary | None:
    """Return the newest run that was asked exactly this and ended in an answer.

    Parameters
    ----------
    digest
        `RunStarted.request`.
    folder
        As for `list_runs`.
    """
    place = Path(FOLDER if folder is None else folder).absolute()
    runs = [
        run
        for run in _summaries(place, contains=json.dumps(digest).encode())
        if run.started.request == digest
        and run.ended is not None
        and run.ended.answer is not None
        and run.ended.stop_reason in {"answered", "terminated"}
    ]
    return max(runs, key=lambda run: run.started.started, default=None)


def _summaries(folder: Path, contains: bytes = b"") -> Iterator[RunSummary]:
    for files in _runs_in(folder):
        if (ends := journal.read_ends(files.journal, contains)) is not None:
            started, last = ends
            yield RunSummary(files, started, last if isinstance(last, RunEnded) else None)


def _runs_in(folder: Path, *, children: bool = False) -> Iterator[RunFiles]:
    """Yield the runs whose folders are in `folder`, with those that they started if asked for."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".rlm"))
    except OSError:
        return
    for name in names:
        files = RunFiles((folder / name).with_suffix(".ipynb"))
        yield files
        if children:
            yield from _runs_in(files.folder / CHILDREN)
