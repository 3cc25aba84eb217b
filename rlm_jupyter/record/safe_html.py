"""Text and code as HTML that does nothing: no script, nothing that is fetched. The exports and every display use it."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def markdown(text: str) -> str:
    """Render Markdown; raw HTML in it is shown as text.

    A picture becomes its caption: its address could carry away what stands in the context, without a click.
    """
    rendered: str = _markdown().render(text)
    return rendered


@lru_cache(maxsize=256)
def python(source: str) -> str:
    """Highlight Python, as `span` elements whose classes begin with `hl-`."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    marked: str = highlight(source, PythonLexer(ensurenl=False, stripnl=False), _formatter(HtmlFormatter))
    return marked


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


@cache
def _formatter(kind: type[Any]) -> Any:
    return kind(nowrap=True, classprefix="hl-")
