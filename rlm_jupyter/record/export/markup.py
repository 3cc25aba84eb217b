"""What a model or a document said, as HTML that does nothing: no script, and nothing that is fetched."""

from __future__ import annotations

import base64
import binascii
import html
import json
from collections.abc import Iterable
from typing import Any

from rlm_jupyter.prompts import outputs
from rlm_jupyter.record import safe_html
from rlm_jupyter.types.values import Output

PICTURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
_TAGS = (
    {"a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "details", "div", "dl"}
    | {"dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q"}
    | {"s", "samp", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead"}
    | {"tr", "u", "ul", "var"}
)
_ATTRIBUTES = {"td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan", "scope"}, "col": {"span"}, "ol": {"start"}}
_SILENT = {"style", "script", "title"}
"""Elements whose text is nothing to read."""
_HTML_CHARS = 300_000
"""Longer HTML is shown as text: it is for the eyes only, and a page of such parts is slow."""
_SHOWN_CHARS = 100_000
"""Of a text, on the page."""


def shown(shown_outputs: Iterable[Output]) -> str:
    """Return a cell's outputs: tables and pictures as such, all else as the text that the model had read."""
    return "".join(_output(output) for output in shown_outputs)


def cut(text: str, limit: int = _SHOWN_CHARS) -> str:
    """Return a text, or its head and how much more there is."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def _output(output: Output) -> str:
    data = output.get("data")
    if isinstance(data, dict):
        rich = _rich(data)
        if rich:
            return rich
    text = cut(outputs.render([output], where="in the notebook"))
    css = "failed" if output.get("output_type") == "error" or output.get("name") == "stderr" else ""
    return f'<pre class="output {css}">{html.escape(text)}</pre>' if text else ""


def _rich(data: dict[str, Any]) -> str:
    page = _joined(data.get("text/html"))
    if page and len(page) <= _HTML_CHARS and (clean := _cleaned(page)).strip():
        return f'<div class="output rich">{clean}</div>'
    for mime, magic in PICTURES.items():
        if picture := _picture(_joined(data.get(mime)), magic):
            return f'<img class="output" alt="" src="data:{mime};base64,{picture}">'
    if drawing := _joined(data.get("image/svg+xml")):
        # as a picture, in which no browser runs or fetches anything
        encoded = base64.b64encode(drawing.encode("utf-8", "replace")).decode()
        return f'<img class="output" alt="" src="data:image/svg+xml;base64,{encoded}">'
    if text := _joined(data.get("text/markdown")):
        return f'<div class="output rich">{safe_html.markdown(cut(text))}</div>'
    if "text/plain" not in data and "application/json" in data:
        text = cut(json.dumps(data["application/json"], indent=1))
        return f'<pre class="output">{html.escape(text)}</pre>'
    return ""


def _picture(text: str, magic: bytes) -> str:
    """Return the base64 of a picture that is one; else nothing."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return base64.b64encode(data).decode() if data.startswith(magic) else ""


def _cleaned(page: str) -> str:
    """Sanitize HTML: what draws a table or a list is left, without styles, addresses and classes."""
    import nh3

    return nh3.clean(
        page, tags=_TAGS, attributes=_ATTRIBUTES, clean_content_tags=_SILENT, link_rel=None, strip_comments=True
    )


def _joined(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else ""
