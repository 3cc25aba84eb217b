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

FORMS = ("ipynb", "html", "jsonl", "otel", "atif", "verifiers", "sft")
TRAINING = ("atif", "verifiers", "sft")
"""What is made of runs that have ended, and may be given a score."""
_ENDS = {"ipynb": "-export.ipynb", "html": ".html", "jsonl": ".jsonl", "atif": ".atif.json"}
"""What a file's name ends in; the others in the form and `.jsonl`."""
_OF_OTHERS = {"ipynb": {"ipynb"}, "html": {"html"}}
"""The suffixes that a file may have, of those that stand for a form; other forms are lines of JSON."""
_OF_NONE = {"pdf", "md", "py", "docx", "tex"}
"""Suffixes of what no form is."""


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
        One of `FORMS`.
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
        The file can't be written, or exists and is not to be replaced; the run is nothing to train on.
    RecordError
        The run can't be read.
    """
    has_files = form in {"ipynb", "html"}
    run = WholeRun.gather(files, context=form == "ipynb", outputs=has_files, prompts=prompts)
    if form in TRAINING and (why := unfit(run)):
        raise ConfigurationError(f"{files.name} {why}.")
    without_context = form == "ipynb" and run.context is None
    redactor, run_id = Redactor.of_environment(), run.trajectory.run_id
    if redact:
        run = run.redacted(redactor)
    # a run's name has words of its prompt, which may have been taken out of the run
    named = files.name if prompts else files.prompt_name
    name = named if run.trajectory.run_id == run_id else run.trajectory.run_id
    path = None if out is not None else target(f"{name}{_ENDS.get(form, f'.{form}.jsonl')}", form, output, files.shown)
    path = deliver(written(run, form), path, output, replace=replace, out=out)
    said = [_removed(redactor) if redact else "Nothing was removed: keys and paths stand there as they were."]
    if without_context:
        said.append("The context is not with the run, so the notebook can be read, and not be run again.")
    if has_files and (missing := left_out(run.trajectory.ended, run.files)):
        why = "too large, or of a kind that can't be looked through for keys (--no-redact)" if redact else "too large"
        said.append(f"Named by their digests, and not in it: {', '.join(missing)}: {why}.")
    return Sent(path, tuple(said))


def unfit(run: WholeRun) -> str:
    """Say why a run is nothing to train on; empty where it is."""
    if any(one.trajectory.ended is None for one in (run, *run.prompts)):
        return "has not ended, so it is nothing to train on: resume it, or wait for its end"
    if not any(one.trajectory.iterations for one in (run, *run.prompts)):
        return "has no iteration, so it is nothing to train on"
    return ""


def written(run: WholeRun, form: str, score: float | None = None) -> bytes:
    """Return a run in a form; `score` is that of its answer, for those of `TRAINING`."""
    # only this form is loaded: pages need a template engine
    match form:
        case "ipynb":
            from rlm_jupyter.record.export.notebook import to_notebook

            return to_notebook(run)
        case "html":
            from rlm_jupyter.record.export.html import to_html

            text = to_html(run)
        case "otel":
            from rlm_jupyter.record.export.otlp import to_otlp

            text = to_otlp(run)
        case "atif":
            from rlm_jupyter.record.export.atif import to_atif

            text = to_atif(run, score)
        case "verifiers":
            from rlm_jupyter.record.export.verifiers import to_verifiers

            text = to_verifiers(run, score)
        case "sft":
            from rlm_jupyter.record.export.sft import to_sft

            text = to_sft(run, score)
        case _:
            from rlm_jupyter.record.export.jsonl import to_jsonl

            text = to_jsonl(run)
    return text.encode("utf-8", "backslashreplace")


def target(name: str, form: str, output: str | Path | None, source: Path) -> Path:
    """Return the file to write.

    Parameters
    ----------
    name
        Its name, where `output` is a folder, or left out.
    source
        What it is made of, which stays as it is.

    Raises
    ------
    ConfigurationError
        It has the name of another form, there is no folder for it, or it is the source itself.
    """
    path = Path(output or ".")
    if path.is_dir():
        path = path / name
    elif (suffix := path.suffix.removeprefix(".").lower()) in _OF_NONE:
        page = " A browser prints the page that --to html writes as a PDF." if suffix == "pdf" else ""
        raise ConfigurationError(f"No form is a {path.suffix}: name another --output, or --to.{page}")
    elif suffix in {"ipynb", "html", "jsonl"} - _OF_OTHERS.get(form, {"jsonl"}):
        raise ConfigurationError(
            f"{path.name} is no name for a file of the form {form}. Name another --output, or --to."
        )
    if not path.parent.is_dir():
        raise ConfigurationError(f"There is no folder {path.parent} to write {path.name} to.")
    # by the place that it has in the end: another spelling or a link may lead to the run itself
    if os.path.realpath(path) == os.path.realpath(source):
        what = "the run itself" if source.suffix == ".ipynb" else "what is exported"
        raise ConfigurationError(f"{path} is {what}, which stays as it is. Name another --output.")
    return path


def deliver(
    content: bytes,
    path: Path | None,
    output: str | Path | None,
    *,
    replace: bool,
    out: Callable[[bytes], object] | None,
) -> Path | None:
    """Write a file, or give its content to `out`; return where it is.

    Raises
    ------
    ConfigurationError
        It can't be written, or exists and is not to be replaced.
    """
    if path is None:
        if out is not None:
            out(content)
        return None
    try:
        if output is None or Path(output).is_dir():
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
    return f"Removed: {what}, in {_count(redactor.places, 'place')}."


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
