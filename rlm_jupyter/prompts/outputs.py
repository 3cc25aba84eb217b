"""A cell's outputs, as nbformat writes them, turned into the text that a model reads."""

from __future__ import annotations

import base64
import contextlib
import html.parser
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.types.images import measure, pixels
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.values import Output

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~])"
)
"""Control sequences of ECMA-48, of a terminal's title, links and pictures."""
_ERASE_LINE = re.compile(r"\x1b\[[012]?K")
_CURSOR = re.compile(r"[\r\x08]|\x1b\[[012]?K|[^\r\x08\x1b]+")
_PLACEHOLDER = re.compile(r"<IPython\.(?:core|lib)\.display\.\w+ object>")
"""What `text/plain` says of an object that only shows itself otherwise."""
_READABLE = ("text/markdown", "text/latex", "application/json", "application/javascript")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LONE = re.compile(r"<(?=[^<>]*(?:<|\Z))|<(?=!\[)")
_HTML_CHARS = 1_000_000
"""Longer HTML is for the eyes only: a page of that size is a plot, not a text."""
_FRAME = re.compile(r"^[^\S\n]*(?:Cell In ?\[|File [^\n]+?(?::|line )\d+)[^\n]*", re.MULTILINE)
_ARROW = re.compile(r"-+> ?\d+ ")
"""What IPython puts before the line that failed."""
_AROUND = re.compile(r" +(?:\d+(?: |$)|\(\.\.\.\))")
"""… and before those around it."""
_COMPREHENSION = re.compile(r"<(?:listcomp|setcomp|dictcomp|genexpr)>")  # IPython 9 shows the code of another line
_MOST_FRAMES = 40
"""Lines and frames of a traceback; two functions that call each other have a thousand."""
_MEASURED = frozenset({"image/png", "image/jpeg", "image/gif"})
_MEASURED_CHARS = 20_000_000
_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_ALIGN_CHARS = 400
"""How much of the head, and of the tail, is given up to end at the end of a line."""


def shown_chars(limits: Limits, window: int) -> int:
    """Return how many characters of outputs a model is shown: of a small window a quarter, or a half."""
    return min(limits.output_chars, window)


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text, perhaps cut to what is shown of it."""

    text: str
    cut: bool
    """Whether something was left out."""
    chars: int
    """Of the whole."""


def render(
    outputs: Sequence[Output], number: Callable[[str], int] | None = None, *, where: str = "shown in the notebook"
) -> str:
    """Return what a model reads of one cell's outputs, in their order; nothing is cut.

    Streams read as a terminal shows them: colours gone, a progress bar only in its last state. A result
    reads as its `text/plain`; pictures are named; HTML without a plain form loses its tags. Of a traceback
    remain the line that failed in each frame of a cell, and a line for each frame of a library.

    Parameters
    ----------
    outputs
        nbformat 4: `stream`, `display_data`, `execute_result`, `error`.
    number
        The number under which the model sees a picture, given its base64; 0: it does not see it. Default: it sees none.
    where
        Says where a reader finds what is only named.

    Returns
    -------
    str
        One text without a line break at its end; empty when there is nothing to read.
    """
    pieces = []
    for name, group in itertools.groupby(outputs, key=_stream_name):
        if name is not None:
            # printed in pieces, and a progress bar goes back across them
            pieces.append(_as_on_terminal("".join(_text(output.get("text")) for output in group)))
        else:
            pieces += [_error(o) if o.get("output_type") == "error" else _display(o, number, where) for o in group]
    return "\n".join(piece.removesuffix("\n") for piece in pieces if piece).rstrip("\n")


def cut(text: str, limit: int, *, variable: str | None, kept: str = "") -> ShownText:
    """Return the head and the tail of a text, with a line between them that says what is missing.

    Parameters
    ----------
    text
        What a cell, or an iteration, put out.
    limit
        Characters of it to show; the line that says so comes on top.
    variable
        The name of the kernel variable that holds the whole, if one does.
    kept
        Says where else the whole is (`the whole answer is in …`), where it is in no variable.

    Returns
    -------
    Shown
        The text itself where cutting it would make it no shorter.
    """
    head = limit - limit // 2
    where = f"; the whole output is in `{variable}`" if variable else f"; {kept}" if kept else ""
    notice = f"[… {len(text) - limit:,} of {len(text):,} characters left out{where} …]"
    if len(text) <= limit + len(notice) + 2:
        return ShownText(text, cut=False, chars=len(text))
    tail = len(text) - limit // 2
    spare = min(_ALIGN_CHARS, limit // 8)
    line_end = text.rfind("\n", head - spare, head)
    if line_end >= 0:
        head = line_end
    line_start = text.find("\n", tail - 1, tail + spare)
    if line_start >= 0:
        tail = line_start + 1
    notice = f"[… {tail - head:,} of {len(text):,} characters left out{where} …]"
    return ShownText(f"{text[:head]}\n{notice}\n{text[tail:]}", cut=True, chars=len(text))


def _stream_name(output: Output) -> str | None:
    return str(output.get("name", "stdout")) if output.get("output_type") == "stream" else None


def _text(value: Any) -> str:
    """Return a multi-line string of nbformat: a string, or a list of them."""
    return "".join(value) if isinstance(value, list) else value if isinstance(value, str) else ""


def _as_on_terminal(text: str) -> str:
    text = text.replace("\r\n", "\n")  # plain lines of Windows, and no overwriting
    if "\r" in text or "\x08" in text:
        text = "\n".join(_overwritten(line) if "\r" in line or "\x08" in line else line for line in text.split("\n"))
    return _ANSI.sub("", text).replace("\x07", "") if "\x1b" in text or "\x07" in text else text


def _overwritten(line: str) -> str:
    """Return one line with its carriage returns and backspaces carried out."""
    # only the erasures matter to where a character ends up; other sequences would be counted as columns
    line = _ANSI.sub(lambda sequence: sequence[0] if _ERASE_LINE.fullmatch(sequence[0]) else "", line)
    cells: list[str] = []
    column = 0
    for part in _CURSOR.findall(line):
        if part == "\r":
            column = 0
        elif part == "\x08":
            column = max(column - 1, 0)
        elif part.startswith("\x1b"):
            if part != "\x1b[1K":
                del cells[0 if part == "\x1b[2K" else column :]
        else:
            cells.extend(" " * (column - len(cells)))
            cells[column : column + len(part)] = part
            column += len(part)
    return "".join(cells)


def _display(output: Output, number: Callable[[str], int] | None, where: str) -> str:
    data = output.get("data") or {}
    plain = _as_on_terminal(_text(data.get("text/plain")))
    if not plain or _PLACEHOLDER.fullmatch(plain.strip()):
        plain = _instead_of_plain(data, where) or ("" if any(map(_is_picture, data)) else plain)
    notes = [_picture(mime, data[mime], number, where) for mime in data if _is_picture(mime)]
    if not plain and not notes and data:
        notes = [f"[{mime}: {where}]" for mime in sorted(data)[:1]]
    return "\n".join(filter(None, [plain.rstrip("\n"), *notes]))


def _instead_of_plain(data: dict[str, Any], where: str) -> str:
    for mime in _READABLE:
        if mime in data:
            value = data[mime]
            return _text(value) or json.dumps(value, ensure_ascii=False, default=str)
    page = _text(data.get("text/html"))
    if page and len(page) <= _HTML_CHARS:
        return _Stripped.text_of(page)
    return f"[text/html, {_size('text/html', page)}: {where}]" if page else ""


def _is_picture(mime: str) -> bool:
    return mime.startswith(("image/", "audio/", "video/")) or mime == "application/pdf"


def _picture(mime: str, value: Any, number: Callable[[str], int] | None, where: str) -> str:
    """Return the line that stands for a picture."""
    text = _text(value)
    large = ""
    if mime in _MEASURED and len(text) <= _MEASURED_CHARS:
        with contextlib.suppress(ValueError):  # no base64
            found = measure(base64.b64decode(text))
            large = "" if found is None else f", {pixels(*found[1:])}"
    if number is not None and (shown := number(text)):
        return f"[{mime}{large}: figure {shown}]"
    return f"[{mime}{large}, {_size(mime, value)}: {where}]"


def _size(mime: str, value: Any) -> str:
    text = _text(value)
    # all but SVG and HTML come in base64
    nbytes = len(text) if mime in {"image/svg+xml", "text/html"} else len(text) * 3 // 4
    if nbytes < 1024:
        return f"{nbytes} bytes"
    return f"{nbytes / 1024:,.0f} KB" if nbytes < 1024**2 else f"{nbytes / 1024**2:,.1f} MB"


def _error(output: Output) -> str:
    summary = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}".rstrip(": ")
    traceback = output.get("traceback") or []
    text = _ANSI.sub("", "\n".join(traceback) if isinstance(traceback, list) else str(traceback))
    return "\n".join(_own_frames(text.strip("\n"))) or _as_on_terminal(summary)


def _own_frames(traceback: str) -> list[str]:
    """Return the traceback without the code of libraries; frames that repeat, as in a recursion, stand once."""
    frames = list(_FRAME.finditer(traceback))
    heading = traceback[: frames[0].start()] if frames else traceback
    pieces = [line for line in heading.strip("\n").split("\n") if line.strip("-")]
    for text, group in itertools.groupby(_frames(traceback, [frame.start() for frame in frames])):
        repeated = len(list(group)) - 1
        pieces += [text, f"[the same frame {repeated:,} more times]"] if repeated else [text]
    if len(pieces) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        pieces[half:-half] = [f"[{len(pieces) - _MOST_FRAMES:,} frames left out]"]
    return pieces


def _frames(traceback: str, starts: list[int]) -> Iterator[str]:
    for start, end in itertools.pairwise([*starts, len(traceback)]):
        yield from filter(None, _frame(traceback[start:end]))


def _frame(text: str) -> tuple[str, str]:
    """Return a frame as it is shown, and what follows it: the error itself, or how the next one came of it."""
    frame, _, rest = _BLANK.sub("\n\n", text).partition("\n\n")
    heading, *code = frame.split("\n")
    if text.lstrip().startswith("Cell In"):
        # the lines around are the model's own, and tempt a small one to write tracebacks itself
        if _COMPREHENSION.search(heading):
            frame = heading
        elif any(map(_ARROW.match, code)):
            frame = "\n".join([heading, *(line for line in code if not _AROUND.match(line))])
    else:
        # the error may follow without a blank line, as after a syntax error in an imported file
        frame = "\n".join([heading, *(line for line in code if line[:1].strip() and not line.startswith("-"))])
    return frame.rstrip("\n"), rest.strip("\n")


class _Stripped(html.parser.HTMLParser):
    """The text of a page: cells side by side, blocks below each other."""

    _HIDDEN = frozenset({"script", "style", "template"})
    _BLOCKS = re.compile(r"address|article|br|dd|div|dl|dt|h[1-6r]|li|ol|p|pre|section|table|tr|ul")
    _CELLS = frozenset({"td", "th"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden = 0

    @classmethod
    def text_of(cls, page: str) -> str:
        """Return `page` without its tags."""
        parser = cls()
        # what is no comment and no tag with an end would be searched for its end again and again
        parser.feed(_LONE.sub("&lt;", _COMMENT.sub("", page)))
        parser.close()
        lines = (" ".join(line.split()).removesuffix(" |") for line in "".join(parser._parts).split("\n"))
        return "\n".join(line for line in lines if line)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Hide what isn't text; break lines where blocks begin."""
        if tag in self._HIDDEN:
            self._hidden += 1
        elif self._BLOCKS.fullmatch(tag):
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """Break lines where blocks end."""
        if tag in self._HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif self._BLOCKS.fullmatch(tag):
            self._parts.append("\n")
        elif tag in self._CELLS:
            self._parts.append(" | ")

    def handle_data(self, data: str) -> None:
        """Keep visible text."""
        if not self._hidden:
            self._parts.append(data)
