"""What somebody said, as the Markdown of a cell: a page would take `List<String>` for a tag, and show nothing of it."""

from __future__ import annotations

import re

from rlm_jupyter.record.dollars import LEFT_ALONE, keep_amounts

_LEFT_ALONE_OR_MARKUP = re.compile(rf"{LEFT_ALONE} | (?P<tag><(?=[A-Za-z/!?])) | !(?=\[)", re.MULTILINE | re.VERBOSE)


def said(text: str) -> str:
    """Return Markdown in which tags and pictures stand as text, and dollars as dollars; code stays as it is."""
    if "<" in text or "![" in text:
        text = _LEFT_ALONE_OR_MARKUP.sub(lambda found: found["left_alone"] or ("&lt;" if found["tag"] else "\\!"), text)
    return keep_amounts(text)
