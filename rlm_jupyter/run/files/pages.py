"""`page`, `notebook`: HTML pages and Jupyter notebooks, as text in Markdown."""

from __future__ import annotations

import re
from typing import Any

from rlm_jupyter.prompts.outputs import render
from rlm_jupyter.run.files.encodings import decode
from rlm_jupyter.run.files.unreadable import INSTALL, Note, Unreadable, reading

_UNSEEN = ["script", "style", "template", "noscript", "svg", "head"]
"""Elements that a reader of the page does not see."""
_WHOLE = ("html", "body")
_HIDING = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.I)
"""What hides an element, in its own style."""
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.S)


def page(data: bytes, note: Note) -> str:
    """Return what a reader of an HTML page sees: its title, headings, paragraphs, lists, links and tables.

    Parameters
    ----------
    note
        Told where a library is missing: then the markup itself comes back.

    Raises
    ------
    Unreadable
        There is no text in it; or as for `decode`.
    """
    try:
        import lxml  # noqa: F401  what bs4 parses it with
        from bs4 import BeautifulSoup
        from bs4.dammit import EncodingDetector
        from markdownify import ATX, MarkdownConverter
    except ImportError:
        note(f"taken as it is, with its tags: a page needs markdownify and lxml ({INSTALL}).")
        return decode(data, note)
    markup = decode(data, note, EncodingDetector.find_declared_encoding(data, is_html=True) or "")
    with reading("HTML page"):
        soup = BeautifulSoup(markup, "lxml")
        title = " ".join(soup.title.get_text().split()) if soup.title else ""
        for element in soup(lambda tag: tag.name in _UNSEEN or _is_hidden(tag)):
            element.decompose()
        for picture in soup("img"):
            picture.replace_with(str(picture.get("alt") or ""))
        # no backslashes: it is for reading
        converter = MarkdownConverter(heading_style=ATX, escape_asterisks=False, escape_underscores=False)
        text: str = converter.convert_soup(soup).strip()
    if not text:
        raise Unreadable("an HTML page without text, perhaps made by scripts; save it from a browser as text or PDF.")
    return f"# {title}\n\n{text}" if title else text


def _is_hidden(tag: Any) -> bool:
    """Return whether an element itself says that it is not shown; not of the page as a whole, which scripts show."""
    if tag.name in _WHOLE:
        return False
    return tag.has_attr("hidden") or _HIDING.search(_CSS_COMMENT.sub("", str(tag.get("style") or ""))) is not None


def notebook(data: bytes, note: Note) -> str:
    """Return a notebook's cells in their order: prose as it is, code in fences, each output in a fence below its cell.

    Parameters
    ----------
    note
        Told where it is no notebook: then its text comes back as it is.

    Raises
    ------
    Unreadable
        As for `decode`.
    """
    import nbformat

    library: Any = nbformat  # its functions are not typed
    text = decode(data, note)
    try:
        with reading("notebook"):
            found = library.convert(library.reader.reads(text), 4)
            language = found.metadata.get("language_info", {}).get("name", "python")
            blocks = [block for cell in found.cells for block in _blocks(cell, language)]
    except Unreadable as error:
        note(f"taken as text: {error}")
        return text
    return "\n\n".join(blocks)


def _blocks(cell: Any, language: str) -> list[str]:
    source = cell.source.strip("\n")
    if cell.cell_type != "code":
        return [source] if source.strip() else []
    shown = render(cell.get("outputs", []))
    return [_fenced(text, name) for text, name in ((source, language), (shown, "output")) if text.strip()]


def _fenced(text: str, name: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{name}\n{text}\n{fence}"
