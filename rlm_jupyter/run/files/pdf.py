"""`pages`: the texts of a PDF."""

from __future__ import annotations

import io
from importlib.util import find_spec

from rlm_jupyter.run.files.unreadable import Note, Unreadable, needs, reading
from rlm_jupyter.types.pdf_pages import PdfPages, import_pypdf


def pages(data: bytes, note: Note) -> list[str] | PdfPages:
    """Return the text of each page, also of those that have none, so that the place in the list is the page's.

    Of one without any text, the pages as images.

    Raises
    ------
    Unreadable
        It is malformed or under a password, or pypdf is missing; or it has no text, and pypdfium2 is missing.
    """
    try:
        pypdf = import_pypdf()
    except ImportError:
        raise needs("a PDF", "pypdf") from None
    with reading("PDF"):
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):  # empty opens what is only protected against changes
            raise Unreadable("a PDF under a password; save a copy without.")
        texts = [page.extract_text() for page in reader.pages]
    if not any(text.strip() for text in texts):
        if find_spec("pypdfium2") is None or not texts:
            raise Unreadable(
                "a PDF without text, perhaps scanned; run OCR over it first, or pass its pages as images: "
                "pip install 'rlm_jupyter[images]'."
            )
        note("a PDF without text, perhaps scanned: its pages are images, for a model that sees.")
        with reading("PDF"):
            return PdfPages(data)
    return texts
