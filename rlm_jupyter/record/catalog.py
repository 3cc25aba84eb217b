"""The runs that are saved: found by name, id or request, and listed."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.blobs import CHILDREN, PROMPTS
from rlm_jupyter.record.store import FOLDER, RunFiles, as_notebook
from rlm_jupyter.types.errors import NoRunError, RecordError
from rlm_jupyter.types.events import RunEnded, RunStarted
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

_NUMBER = re.compile(r"\.([0-9]+)-[0-9a-f]{6}\Z")
"""In the id of a further prompt."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list: where it is, how it began, and how it ended (`None`: it did not, or was killed)."""

    files: RunFiles
    started: RunStarted
    ended: RunEnded | None


def find(run: str | Path, where: str | Path | None = None) -> RunFiles:
    """Return the files of a run that exists; of a session its first prompt (see `find_prompts`)."""
    return _found(run, where)[0]


def find_prompts(run: str | Path, where: str | Path | None = None) -> list[RunFiles]:
    """Return the prompts to one kernel that a name stands for, in order; of most runs there is one.

    Parameters
    ----------
    run
        `NAME`, or the path of a notebook or of its `.rlm` folder: all of them. `NAME.1`, `NAME.2` or a run id: one.
    where
        The folder to look from, when it is no path: in it, in its `rlm_runs`, and in the runs' children
        there. The working directory when left out.

    Raises
    ------
    NoRunError
        There is no such run; says where it was looked for.
    """
    files, is_one = _found(run, where)
    return [files] if is_one else files.prompts()


def _found(run: str | Path, where: str | Path | None) -> tuple[RunFiles, bool]:
    """Return a run, and whether that prompt alone is meant."""
    given: object = run
    if not isinstance(given, str | os.PathLike):
        raise NoRunError(f"A run is named by its id, its name or a path, not {quoted(given)}.")
    base = Path(where or ".").absolute()
    path = base / run
    if path.suffix in {".ipynb", ".rlm"} or len(Path(run).parts) > 1:
        files = RunFiles(as_notebook(path))
        if files.exists():
            return files, files.root is not files
        if (numbered := next(_by_number(path.name, [path.parent]), None)) is not None:
            return numbered, True
        raise NoRunError(f"There is no run at {path}.")
    name, folders = str(run), [base, base / FOLDER]
    if (found := next(_by_id(name, folders), None)) is not None:
        return found, True
    named = (RunFiles(folder / f"{name}.ipynb") for folder in folders)
    if (found := next((files for files in named if files.exists()), None)) is not None:
        return found, False
    if (found := next(_by_number(name, folders), None) or next(_in_notebooks(name, folders), None)) is not None:
        return found, True
    known = [files.notebook.stem for folder in folders for files in _runs_in(folder)]
    hint = did_you_mean(closest(name, known)) or " Change to the folder of its notebook."
    raise NoRunError(f"There is no run {str(run)!r} in {base} or its {FOLDER}.{hint}")


def _by_id(run: str, folders: list[Path]) -> Iterator[RunFiles]:
    needle = json.dumps(run, ensure_ascii=False).encode("utf-8", "replace")
    for folder in folders:
        for files in _runs_in(folder, children=True):
            started = journal.read_first(files.journal, needle)
            if started is not None and started.run_id == run:
                yield files


def _by_number(run: str, folders: list[Path]) -> Iterator[RunFiles]:
    """Yield what `NAME.2` names: the second prompt to the kernel of `NAME`."""
    first, _, number = run.rpartition(".")
    if first and number.isdecimal():
        found = (RunFiles(folder / f"{first}.ipynb").prompt(int(number)) for folder in folders)
        yield from (files for files in found if files.exists())


def _in_notebooks(run: str, folders: list[Path]) -> Iterator[RunFiles]:
    """Yield the runs with this id whose notebook is there alone."""
    for folder in folders:
        for path in sorted(folder.glob("*.ipynb")):
            found = [number for number, run_id in notebook.run_ids(path).items() if run_id == run]
            yield from (RunFiles(path).prompt(number) for number in found)


def prompts_of(run: RunSummary) -> list[RunSummary]:
    """Return the prompts to a run's kernel that stand in its record, in order: the run itself, and those after it."""
    found = [run]
    for files in run.files.prompts()[1:]:
        if (ends := journal.read_ends(files.journal)) is not None:
            found.append(RunSummary(files, ends[0], ends[1] if isinstance(ends[1], RunEnded) else None))
    return found


def is_built_on(files: RunFiles, run_id: str) -> bool:
    """Return whether a further prompt was asked in the kernel of a run, and stands on what that left there."""
    for further in files.prompts():
        with contextlib.suppress(RecordError):  # one that has only just been given its place
            started = journal.read_first(further.journal) or notebook.read_started(further.shown, further.number)
            if run_id in {one["run_id"] for one in started.options.get("after", [])}:
                return True
    return False


def in_notebook(notebook: Path, run_id: str) -> RunFiles:
    """Return the files of the run with this id that stands in this notebook; those of its first prompt else."""
    first = RunFiles(notebook)
    numbered = _NUMBER.search(run_id)
    if numbered is not None and (files := first.prompt(int(numbered[1]))).exists():
        return files
    return first


def list_runs(folder: str | Path | None = None) -> list[RunSummary]:
    """Return the runs in a folder, newest first; of each only the first and the last record are read.

    Parameters
    ----------
    folder
        The `rlm_runs` of the working directory when left out. A folder that is not there has no runs.
    """
    found = _summaries(Path(FOLDER if folder is None else folder).absolute())
    return sorted(found, key=lambda run: run.started.started, reverse=True)


def find_request(digest: str, folder: str | Path | None = None, first: RunFiles | None = None) -> RunSummary | None:
    """Return the newest run that was asked exactly this and ended in an answer.

    Parameters
    ----------
    digest
        `RunStarted.request`.
    folder
        As for `list_runs`.
    first
        The first prompt to a kernel: its further prompts are looked through, too.
    """
    folders = [Path(FOLDER if folder is None else folder).absolute()]
    folders += [] if first is None else [first.folder / PROMPTS]
    runs = [
        run
        for searched in folders
        for run in _summaries(searched, contains=json.dumps(digest).encode())
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
            yield from _runs_in(files.folder / PROMPTS, children=True)
