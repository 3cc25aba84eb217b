"""`export`: a run as one file that can be sent to somebody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import terminal

if TYPE_CHECKING:
    from rlm_jupyter.record.store import RunFiles

_STDOUT = "-"


def export(files: RunFiles, *, prompts: bool, to: str | None, output: str | None, redact: bool, replace: bool) -> None:
    """Write a run as one file; says where it is, and what was taken out of it.

    Parameters
    ----------
    files
        The run.
    prompts
        Write the further prompts to its kernel too.
    to
        `ipynb`, `html` or `jsonl`; what `output` ends in, when left out.
    output
        The file, a folder for it, or `-`; named after the run, in the working directory, when left out.
    redact
        Take out keys, home folders and user names.
    replace
        Replace the file that `output` names, where it exists.

    Raises
    ------
    ConfigurationError
        The file can't be written, or exists and is not to be replaced.
    RecordError
        The run can't be read.
    """
    from rlm_jupyter.record.export.write import FORMS, send

    suffix = "" if output is None else Path(output).suffix.removeprefix(".").lower()
    form = to or (suffix if suffix in FORMS else "ipynb")
    out = sys.stdout.buffer.write if output == _STDOUT else None
    sent = send(files, form, output, prompts=prompts, redact=redact, replace=replace, out=out)
    if sent.path is not None:
        terminal.say(f"Written: {sent.path}")
    first, *more = sent.said
    # how to keep what was removed
    terminal.say(first.removesuffix(".") + " (--no-redact keeps them)." if first.startswith("Removed") else first)
    for sentence in more:
        terminal.say(sentence)
