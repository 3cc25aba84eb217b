"""`export`: a run as one file that can be sent to somebody."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter import atomic, notebook
from rlm_jupyter.console import terminal
from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.redaction import Redactor

if TYPE_CHECKING:
    from rlm_jupyter.export import WholeRun
    from rlm_jupyter.store import RunFiles

_FORMS = ("ipynb", "html", "jsonl")
_STDOUT = "-"


def export(files: RunFiles, *, to: str | None, output: str | None, redact: bool) -> None:
    """Write a run as one file; says where it is, and what was taken out of it.

    Parameters
    ----------
    files
        The run.
    to
        `ipynb`, `html` or `jsonl`; what `output` ends in, when left out.
    output
        The file, a folder for it, or `-`; named after the run, in the working directory, when left out.
    redact
        Take out keys, home folders and user names.

    Raises
    ------
    ConfigurationError
        The file can't be written, or something of somebody's stands there.
    RecordError
        The run can't be read.
    """
    from rlm_jupyter.export import WholeRun

    form = to or _form_of(output)
    run = WholeRun.gather(files, context=form == "ipynb")
    context = run.context
    without_context = form == "ipynb" and context is None
    redactor, run_id = Redactor.of_environment(), run.trajectory.run_id
    if redact:
        run = run.redacted(redactor)
    # a run's name has words of its prompt, which may have been taken out of the run
    name = files.name if run.trajectory.run_id == run_id else run.trajectory.run_id
    path = None if output == _STDOUT else _place(files, name, form, output)
    content = _written(run, form)
    if path is None:
        sys.stdout.buffer.write(content)
    else:
        try:
            atomic.replace(path, [content], sync=False)
        except OSError as error:
            raise ConfigurationError(f"{path} can't be written: {error.strerror or error}.") from None
        terminal.say(f"Written: {path}")
    terminal.say(_said(redactor) if redact else "Nothing was removed: keys and paths stand there as they were.")
    if without_context:
        terminal.say("The context is not with the run, so the notebook can be read, and not be run again.")


def _form_of(output: str | None) -> str:
    suffix = "" if output is None else Path(output).suffix.removeprefix(".").lower()
    return suffix if suffix in _FORMS else "ipynb"


def _written(run: WholeRun, form: str) -> bytes:
    from rlm_jupyter.export import to_html, to_jsonl, to_notebook

    if form == "ipynb":
        return to_notebook(run)
    text = to_html(run) if form == "html" else to_jsonl(run)
    return text.encode("utf-8", "backslashreplace")


def _place(files: RunFiles, name: str, form: str, output: str | None) -> Path:
    path = Path(output or ".")
    if path.is_dir():
        path = path / (f"{name}-export.ipynb" if form == "ipynb" else f"{name}.{form}")
    elif path.suffix.removeprefix(".").lower() in {*_FORMS} - {form}:
        raise ConfigurationError(
            f"{path.name} is no name for a file of the form {form}. Name another --output, or --to."
        )
    if not path.parent.is_dir():
        raise ConfigurationError(f"There is no folder {path.parent} to write {path.name} to.")
    # by the place that it has in the end: another spelling or a link may lead to the run itself
    if os.path.realpath(path) == os.path.realpath(files.notebook):
        raise ConfigurationError(f"{path} is the run itself, which stays as it is. Name another --output.")
    if path.exists() and form == "ipynb":
        if not notebook.is_run(path):
            raise ConfigurationError(f"{path} is not the notebook of a run, so it is not replaced. Name another path.")
        if path.with_suffix(".rlm").is_dir():
            raise ConfigurationError(f"{path} is a run that is kept, so it is not replaced. Name another --output.")
    return path


def _said(redactor: Redactor) -> str:
    if not redactor.places:
        return "Nothing was to be removed: no keys, home folders or user names were found."
    keys = [terminal.count(redactor.keys, "key")] if redactor.keys else []
    people = [terminal.count(redactor.people, "home folder or user name")] if redactor.people else []
    what = " and ".join([*keys, *people]).replace("folder or user names", "folders and user names")
    return f"Removed: {what}, in {terminal.count(redactor.places, 'place')} (--no-redact keeps them)."
