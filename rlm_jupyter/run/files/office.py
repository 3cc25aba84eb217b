"""`document`, `presentation`: Word and PowerPoint files as text in Markdown, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rlm_jupyter.run.files.archive import repacked
from rlm_jupyter.run.files.unreadable import Note, Unreadable, needs, reading

_HEADING = re.compile(r"heading (\d)")
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HIDDEN = frozenset({"del", "moveFrom", "pPr", "rPr", "Fallback"})
"""What was deleted or moved away, how things look, and what stands for newer elements in older programs."""
_INSTEAD = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def document(data: bytes, _: Note) -> str:
    """Return the text of a Word document: headings, paragraphs, lists, tables, and footnotes at its end.

    What was deleted with changes tracked is left out; headers, footers, comments and pictures are, too.

    Raises
    ------
    Unreadable
        It is malformed, encrypted, too large or without text, or python-docx is missing.
    """
    try:
        import docx
        from docx.opc.constants import RELATIONSHIP_TYPE
        from docx.oxml.parser import parse_xml
    except ImportError:
        raise needs("a Word document", "python-docx") from None
    with reading("Word document"):
        opened = docx.Document(repacked(data, "Word document"))
        styles = {style.style_id: str(style.name).lower() for style in opened.styles}
        blocks = list(_blocks(opened.element.body, styles))
        for relation in opened.part.rels.values():
            if relation.reltype == RELATIONSHIP_TYPE.FOOTNOTES:
                notes: Any = parse_xml(relation.target_part.blob)
                for number, footnote in ((note.get(f"{_WORD}id"), note) for note in notes):
                    if text := " ".join(_blocks(footnote, {})):
                        blocks.append(f"[^{number}]: {text}")
    if not blocks:
        raise Unreadable("a Word document without text.")
    return "\n\n".join(blocks)


def _blocks(parent: Any, styles: dict[str, str]) -> Iterator[str]:
    """Yield paragraphs and tables, also those within what surrounds them, such as content controls."""
    for element in parent:
        name = _name(element)
        if name == "p":
            text = _text(element).strip()
            if text:
                yield _mark(element, styles) + text
        elif name == "tbl":
            yield table([_cell(cell, styles) for cell in _cells(row)] for row in _rows(element))
        elif name not in _HIDDEN:
            yield from _blocks(element, styles)


def _mark(paragraph: Any, styles: dict[str, str]) -> str:
    """Return what Markdown puts before a paragraph of its style."""
    found = paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    style = "" if found is None else styles.get(found.get(f"{_WORD}val"), "")
    if heading := _HEADING.match(style):
        return "#" * int(heading[1]) + " "
    if style == "title":
        return "# "
    is_item = style.startswith("list") or paragraph.find(f"{_WORD}pPr/{_WORD}numPr") is not None
    return "- " if is_item else ""


def _text(element: Any) -> str:
    """Return the text of a paragraph or of a part of it."""
    name = _name(element)
    if name == "t":
        return element.text or ""
    if name == "footnoteReference":
        return f"[^{element.get(f'{_WORD}id')}]"
    if name in _INSTEAD:
        return _INSTEAD[name]
    between = "\n" if name == "txbxContent" else ""
    return between.join(_text(part) for part in element if _name(part) not in _HIDDEN)


def _rows(found: Any) -> Iterator[Any]:
    return (row for row in _within(found, "tr") if row.find(f"{_WORD}trPr/{_WORD}del") is None)


def _cells(row: Any) -> Iterator[Any]:
    return _within(row, "tc")


def _within(parent: Any, name: str) -> Iterator[Any]:
    """Yield the children of that name, also those in content controls."""
    for element in parent:
        if _name(element) == name:
            yield element
        elif _name(element) in {"sdt", "sdtContent", "customXml", "ins"}:
            yield from _within(element, name)


def _cell(cell: Any, styles: dict[str, str]) -> tuple[str, int]:
    span = cell.find(f"{_WORD}tcPr/{_WORD}gridSpan")
    return " ".join(_blocks(cell, styles)), 1 if span is None else int(span.get(f"{_WORD}val"))


def _name(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""  # of a comment it is a function


def presentation(data: bytes, _: Note) -> list[str]:
    """Return the text of each slide below its number and title: what stands on it, tables, charts, and its notes.

    A slide without text is in the list, too, so that the place in it is the slide's.

    Raises
    ------
    Unreadable
        It is malformed, encrypted, too large or without text, or python-pptx is missing.
    """
    try:
        import pptx
    except ImportError:
        raise needs("a PowerPoint presentation", "python-pptx") from None
    with reading("PowerPoint presentation"):
        opened = pptx.Presentation(repacked(data, "PowerPoint presentation"))
        slides = [(_title(slide), list(_parts(slide))) for slide in opened.slides]
    if not any(title or parts for title, parts in slides):
        raise Unreadable("a PowerPoint presentation without text, perhaps of pictures; run OCR over it first.")
    return [
        "\n\n".join([f"# Slide {number}" + (f": {title}" if title else ""), *parts])
        for number, (title, parts) in enumerate(slides, 1)
    ]


def _title(slide: Any) -> str:
    title = slide.shapes.title
    return "" if title is None else " ".join(title.text_frame.text.split())


def _parts(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    for shape in _flat(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame:
            text = _lines(shape.text_frame)
        elif shape.has_table:
            text = table(((cell.text, 1) for cell in row.cells) for row in shape.table.rows)
        else:
            text = _chart(shape.chart) if shape.has_chart else ""
        if text:
            yield text
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) and (notes := _lines(frame)):
        yield f"Notes: {notes}"


def _flat(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _flat(shape.shapes)
        else:
            yield shape


def _lines(frame: Any) -> str:
    """Return a text frame's paragraphs, those of lower levels indented."""
    lines = ["  " * paragraph.level + paragraph.text.replace("\v", " ").strip() for paragraph in frame.paragraphs]
    return "\n".join(line for line in lines if line.strip())


def _chart(chart: Any) -> str:
    """Return a chart's values as a table; of a chart without categories, or of a rare kind, its title alone."""
    title = chart.chart_title.text_frame.text.strip() if chart.has_title and chart.chart_title.has_text_frame else ""
    try:
        plots = [(list(plot.categories), list(plot.series)) for plot in chart.plots]
    except ValueError:  # a kind that python-pptx does not know
        plots = []
    blocks = [f"[chart: {title}]" if title else "[chart]"]
    for categories, series in plots:
        if categories:
            head: list[object] = ["", *(one.name for one in series)]
            rows = zip(categories, *(one.values for one in series), strict=False)
            cells = [["" if value is None else str(value) for value in row] for row in (head, *rows)]
            blocks.append(table([(text, 1) for text in row] for row in cells))
    return "\n\n".join(blocks)


def table(rows: Iterable[Iterable[tuple[str, int]]]) -> str:
    """Return a table in Markdown.

    Parameters
    ----------
    rows
        Of cells: the text, and the number of columns it takes.
    """
    lines = []
    for row in rows:
        cells = []
        for text, span in row:
            cells += [" ".join(text.split()).replace("|", "\\|"), *[""] * (span - 1)]
        lines.append(f"| {' | '.join(cells)} |")
        if len(lines) == 1:
            lines.append(f"|{' --- |' * len(cells)}")
    return "\n".join(lines)
