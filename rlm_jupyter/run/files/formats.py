"""`read`: what a file's bytes hold: text, a table, pages, plain data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rlm_jupyter.run.files.archive import COMPRESSED, decompressed, unpacked
from rlm_jupyter.run.files.encodings import decode
from rlm_jupyter.run.files.image import SUFFIXES, image
from rlm_jupyter.run.files.office import document, presentation
from rlm_jupyter.run.files.pages import notebook, page
from rlm_jupyter.run.files.pdf import pages
from rlm_jupyter.run.files.plain_data import plain_data
from rlm_jupyter.run.files.tables import parquet, separated, workbook
from rlm_jupyter.run.files.unreadable import Note


def read(suffixes: list[str], data: bytes, note: Note) -> object:
    """Return what a file holds.

    Parameters
    ----------
    suffixes
        Of its name, as `pathlib` splits them: `[".csv", ".gz"]`.
    data
        All its bytes, still compressed if the name says so.
    note
        Told where something else comes back than the name promises.

    Returns
    -------
    object
        A pandas frame for csv, tsv, parquet, and for json and jsonl whose rows are flat and have the same keys, else
        these as plain data; of a workbook its one filled sheet as a frame, or a dict of frames by sheet; a list of a
        PDF's pages, or of a presentation's slides, as texts (`PdfPages` where a PDF has none); an image's bytes; a dict
        by name of what is in a zip archive; Word, HTML and notebooks as text, in Markdown; anything else as text.

    Raises
    ------
    Unreadable
        It is binary, malformed, encrypted or too large, or a library is missing.
    """
    kind = suffixes.pop().lower() if suffixes else ""
    if kind in COMPRESSED:
        data = decompressed(data, kind)
        kind = suffixes.pop().lower() if suffixes else ""
    return _READERS.get(kind, decode)(data, note)


_READERS: dict[str, Callable[[bytes, Note], object]] = {
    ".csv": partial(separated, separator=","),
    ".tsv": partial(separated, separator="\t"),
    ".tab": partial(separated, separator="\t"),
    ".parquet": parquet,
    ".xlsx": workbook,
    ".xlsm": workbook,
    ".json": partial(plain_data, lines=False),
    ".jsonl": partial(plain_data, lines=True),
    ".ndjson": partial(plain_data, lines=True),
    ".pdf": pages,
    ".pptx": presentation,
    ".docx": document,
    ".html": page,
    ".htm": page,
    ".xhtml": page,
    ".ipynb": notebook,
    ".zip": partial(unpacked, read=read),
    **dict.fromkeys(SUFFIXES, image),
}
"""By suffix; any other file is a text."""
