"""Text and code as HTML that does nothing: no script, nothing that is fetched. The exports and every display use it."""

from __future__ import annotations

from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.dollars import ALONE, FORMULA

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline


def markdown(text: str) -> str:
    """Render Markdown; raw HTML in it is shown as text.

    A picture becomes its caption: its address could carry away what stands in the context, without a click. A
    formula keeps its dollar signs, for the page to draw; an amount in dollars is not taken for the begin of one.
    """
    rendered: str = _markdown().render(text.replace(ALONE, "$"))  # as a notebook's cell has it
    return rendered


def plain(text: str) -> str:
    """Return the text of Markdown without its marks, in one line."""
    pieces: list[str] = []
    for block in _markdown().parse(text.replace(ALONE, "$")):
        for token in block.children or [block]:
            pieces.append(" " if token.type in {"softbreak", "hardbreak"} else token.content)
        pieces.append(" ")
    return " ".join("".join(pieces).split())


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

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    reader.inline.ruler.before("escape", "formula", _formula)
    reader.add_render_rule("formula", lambda _, tokens, n, *__: escape(tokens[n].content))
    reader.add_render_rule("text", lambda _, tokens, n, *__: escape(tokens[n].content).replace("$", ALONE))
    return reader


def _formula(state: StateInline, silent: bool) -> bool:
    """Keep a formula as it is: nothing in it is emphasis."""
    found = FORMULA.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = found[0]
    state.pos = found.end()
    return True


@cache
def _formatter(kind: type[Any]) -> Any:
    return kind(nowrap=True, classprefix="hl-")
