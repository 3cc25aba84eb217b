"""`send`: a run written as one file for somebody else, without keys, home folders and user names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.record import atomic, delivery
from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.files import left_out
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.record.store import RunFiles

FORMS = ("ipynb", "html", "jsonl")


@dataclass(frozen=True, slots=True)
class Sent:
    """What was written, and what was taken out of it."""

    path: Path | None
    """`None`: it was given to `out`."""
    said: tuple[str, ...]
    """In sentences, for people."""


def send(
    files: RunFiles,
    form: str,
    output: str | Path | None,
    *,
    prompts: bool = True,
    redact: bool = True,
    replace: bool = False,
    out: Callable[[bytes], object] | None = None,
) -> Sent:
    """Write a run as one file; also one that is still going on, as far as it is.

    Parameters
    ----------
    files
        The run.
    form
        `ipynb`, `html` or `jsonl`.
    output
        The file, or a folder for it; named after the run, in the working directory, when left out: with a number
        where that name is taken.
    prompts
        Write the further prompts to its kernel too, where it is the first.
    redact
        Take out keys, home folders and user names.
    replace
        Replace the file that `output` names, where it exists.
    out
        Takes the content, in place of a file.

    Raises
    ------
    ConfigurationError
        The file can't be written, or exists and is not to be replaced.
    RecordError
        The run can't be read.
    """
    run = WholeRun.gather(files, context=form == "ipynb", outputs=form != "jsonl", prompts=prompts)
    without_context = form == "ipynb" and run.context is None
    redactor, run_id = Redactor.of_environment(), run.trajectory.run_id
    if redact:
        run = run.redacted(redactor)
    # a run's name has words of its prompt, which may have been taken out of the run
    named = files.name if prompts else files.prompt_name
    name = named if run.trajectory.run_id == run_id else run.trajectory.run_id
    path = None if out is not None else _target(files, name, form, output)
    content = _written(run, form)
    if path is not None:
        path = _delivered(path, content, replace, is_named=output is not None and not Path(output).is_dir())
    elif out is not None:
        out(content)
    said = [_removed(redactor) if redact else "Nothing was removed: keys and paths stand there as they were."]
    if without_context:
        said.append("The context is not with the run, so the notebook can be read, and not be run again.")
    if form != "jsonl" and (missing := left_out(run.trajectory.ended, run.files)):
        why = "too large, or of a kind that can't be looked through for keys (--no-redact)" if redact else "too large"
        said.append(f"Named by their digests, and not in it: {', '.join(missing)}: {why}.")
    return Sent(path, tuple(said))


def _written(run: WholeRun, form: str) -> bytes:
    # the template engine is loaded only where a page is made
    from rlm_jupyter.record.export import to_html, to_jsonl, to_notebook

    if form == "ipynb":
        return to_notebook(run)
    text = to_html(run) if form == "html" else to_jsonl(run)
    return text.encode("utf-8", "backslashreplace")


def _target(files: RunFiles, name: str, form: str, output: str | Path | None) -> Path:
    path = Path(output or ".")
    if path.is_dir():
        path = path / (f"{name}-export.ipynb" if form == "ipynb" else f"{name}.{form}")
    elif path.suffix.removeprefix(".").lower() in {*FORMS} - {form}:
        raise ConfigurationError(
            f"{path.name} is no name for a file of the form {form}. Name another --output, or --to."
        )
    if not path.parent.is_dir():
        raise ConfigurationError(f"There is no folder {path.parent} to write {path.name} to.")
    # by the place that it has in the end: another spelling or a link may lead to the run itself
    if os.path.realpath(path) == os.path.realpath(files.shown):
        raise ConfigurationError(f"{path} is the run itself, which stays as it is. Name another --output.")
    return path


def _delivered(path: Path, content: bytes, replace: bool, *, is_named: bool) -> Path:
    try:
        if not is_named:
            return atomic.create_numbered(path, content)
        delivery.deliver(path, content, replace=replace, consent="add --replace")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror or error}.") from None
    return path


def _removed(redactor: Redactor) -> str:
    if not redactor.places:
        return "Nothing to redact: no keys, home folders or user names were found."
    keys = [_count(redactor.keys, "key")] if redactor.keys else []
    people = [_count(redactor.people, "home folder or user name")] if redactor.people else []
    what = " and ".join([*keys, *people]).replace("folder or user names", "folders and user names")
    return f"Removed: {what}, in {_count(redactor.places, 'folder')}."


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
