"""`pages`: the texts of a PDF."""

from __future__ import annotations

import io

from rlm_jupyter.run.files.unreadable import Note, Unreadable, needs, reading


def pages(data: bytes, _: Note) -> list[str]:
    """Return the text of each page, also of those that have none, so that the place in the list is the page's.

    Raises
    ------
    Unreadable
        It is malformed, under a password or without text, or pypdf is missing.
    """
    try:
        import pypdf
    except ImportError:
        raise needs("a PDF", "pypdf") from None
    with reading("PDF"):
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):  # empty opens what is only protected against changes
            raise Unreadable("a PDF under a password; save a copy without.")
        texts = [page.extract_text() for page in reader.pages]
    if not any(text.strip() for text in texts):
        raise Unreadable("a PDF without text, perhaps scanned; run OCR over it first.")
    return texts
