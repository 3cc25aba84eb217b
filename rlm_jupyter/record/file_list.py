"""`listed`, `markdown`: the files that a run has made, for people."""

from __future__ import annotations

from rlm_jupyter.record.answer_table import cell
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.values import OutputFile


def listed(file: OutputFile) -> str:
    """Return a file's name and size: `summary.xlsx (4.9 kB)`."""
    return f"{file['name']} ({size(file['nbytes'])})"


def markdown(ended: RunEnded) -> str:
    """Return the list of the files of a run, with how each is told from another; empty where there are none."""
    return "\n".join(f"- {cell(listed(file))}, SHA-256 `{file['sha256'][:16]}…`" for file in ended.files)


def size(nbytes: int) -> str:
    """Return a number of bytes in the unit that it is read in."""
    if nbytes < 1_000:
        return f"{nbytes} bytes"
    return f"{nbytes / 1_000:,.1f} kB" if nbytes < 1_000_000 else f"{nbytes / 1_000_000:,.1f} MB"
