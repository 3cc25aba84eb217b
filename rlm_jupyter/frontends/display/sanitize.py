"""What a model or its code made, such that a page may trust it: no script, nothing that is fetched from anywhere.

The page shows a run's outputs as trusted ones; else a notebook would lose its signature. So everything that
could act there, or carry the context away in an address, is taken out before it leaves the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.display.sanitize_svg import clean_svg
from rlm_jupyter.prompts import outputs
from rlm_jupyter.record import safe_html
from rlm_jupyter.record.dollars import keep_amounts
from rlm_jupyter.types.values import Output

if TYPE_CHECKING:
    import nh3

_KEPT = ("text/latex", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_CHARS = 8_000
"""Of a text in a cell that is done: more than a reader takes in. A page lays out the texts of all its cells, and
JupyterLab turns them all into JSON in one go whenever it saves: both are felt where many cells are long. The whole
is in the run's notebook."""
_GROWING_CHARS = 100_000
"""Of a stream while its cell runs: what comes after the beginning is what a reader waits for."""
_RICH_CHARS = 1_000_000
_PICTURE_CHARS = 8_000_000
_CELL_CHARS = 16_000_000
"""Of all outputs of a cell; what is longer stays in the run's notebook: a page has to draw it."""
_MOST_OUTPUTS = 200
"""Of a cell, likewise."""
_KEPT_IN = "the run's notebook"
_BREAK = "\u200b"
"""Of no width: it breaks what a Markdown reader would take for a tag or a picture, whatever reader that is."""
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_PROPERTIES = (
    "background-color border border-collapse border-bottom border-left border-right border-top color display "
    "font-family font-size font-style font-variant font-weight height line-height margin margin-bottom margin-left "
    "margin-right margin-top max-height max-width min-width opacity overflow overflow-x padding padding-bottom "
    "padding-left padding-right padding-top text-align text-decoration vertical-align white-space width"
)
_STYLES = frozenset(_PROPERTIES.split())


class Cleaner:
    """Makes a cell's outputs such that a page may trust them, again and again while they grow.

    What did not change since the last time is not cleaned anew.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Output, bool, Output | None]] = []
        """What came, whether the cell was running then, and what was made of it."""

    def __call__(self, made: Sequence[Output], *, running: bool = False) -> list[Output]:
        """Return outputs that a page may trust, and may have to draw.

        Parameters
        ----------
        running
            More will come: a long stream is cut at its end, so that what was sent stays as it is.
        """
        del self._known[len(made) :]
        shown: list[Output] = []
        room = _CELL_CHARS
        for index, output in enumerate(made):
            safe = self._clean(index, output, running)
            room -= 0 if safe is None else chars(safe)
            if index >= _MOST_OUTPUTS or room < 0:
                many = "more outputs" if running else f"{len(made) - index:,} more"
                _add(shown, {"output_type": "stream", "name": "stderr", "text": f"[… {many}: in {_KEPT_IN}]\n"})
                break
            if safe is not None:
                _add(shown, safe)
        return shown

    def _clean(self, index: int, output: Output, running: bool) -> Output | None:
        if index >= len(self._known):
            self._known.append((output, running, _clean(output, running)))
        else:
            before, was_running, _ = self._known[index]
            # only a stream looks otherwise while it grows
            is_as_it_was = was_running == running or output["output_type"] != "stream"
            if not is_as_it_was or not _is_same(before, output):
                self._known[index] = output, running, _clean(output, running)
        return self._known[index][2]


def clean(made: Sequence[Output], *, running: bool = False) -> list[Output]:
    """Return outputs that a page may trust; `Cleaner` says more."""
    return Cleaner()(made, running=running)


def chars(output: Output) -> int:
    """Return about how long an output is, as JSON."""
    if output["output_type"] == "stream":
        return len(output["text"])
    return sum(len(value) for value in output.get("data", {}).values() if isinstance(value, str))


def prose(text: str) -> str:
    """Return a model's Markdown for a cell: tags and pictures stand there as text, headings are bold, dollars dollars.

    A heading would take the reader's own cells below it into its section.
    """
    lines, fence, previous = [], "", ""
    for line in plain(text).split("\n"):
        found = _FENCE.match(line)
        shown = line
        if fence:
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif found:
            fence = found[1]
        elif heading := _HEADING.match(line):
            shown = f"**{heading[1]}**" if heading[1] else ""
        elif previous.strip() and _UNDERLINE.match(line):
            shown = f"\\{line.strip()}"
        lines.append(shown)
        previous = shown
    return keep_amounts(_TAG.sub(f"<{_BREAK}", "\n".join(lines)).replace("![", f"!{_BREAK}["))


def plain(text: str) -> str:
    """Return text that can be sent: a lone surrogate has no encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=64)
def clean_html(html: str) -> str:
    """Return HTML without scripts, style sheets, forms and remote pictures."""
    return str(_cleaner().clean(html))


def _is_same(before: Output, now: Output) -> bool:
    """Return whether an output is made of the same objects: that is seen at once, however large they are."""
    return before.keys() == now.keys() and all(before[key] is now[key] for key in now)


def _add(shown: list[Output], output: Output) -> None:
    """Add an output. Two streams that follow each other become one, as a page makes of them.

    Else its outputs would be others than ours.
    """
    last = shown[-1] if shown else None
    if last is not None and last["output_type"] == output["output_type"] == "stream" and last["name"] == output["name"]:
        shown[-1] = {**last, "text": last["text"] + output["text"]}
    else:
        shown.append(output)


def _clean(output: Output, running: bool) -> Output | None:
    kind = output["output_type"]
    if kind == "stream":
        text = output["text"]
        if not running:
            text = _shortened(text)
        elif len(text) > _GROWING_CHARS:
            text = f"{text[:_GROWING_CHARS]}\n[… more]\n"
        return {"output_type": "stream", "name": output["name"], "text": plain(text)}
    if kind == "error":
        traceback = [str(line) for line in output["traceback"]]
        if sum(map(len, traceback)) > _TEXT_CHARS:
            traceback = [_shortened("\n".join(traceback))]
        return {
            "output_type": "error",
            "ename": plain(str(output["ename"])),
            "evalue": plain(_shortened(str(output["evalue"]))),
            "traceback": [plain(line) for line in traceback],
        }
    data = _bundle(output.get("data", {}))
    if not data:
        return None
    shown: Output = {"output_type": kind, "data": data, "metadata": _sizes(output.get("metadata", {}), data)}
    if kind == "execute_result":
        shown["execution_count"] = None  # that of the run's kernel: in the user's notebook it would be another cell's
    return shown


def _shortened(text: str) -> str:
    return outputs.cut(text, _TEXT_CHARS, variable=None, kept=f"the whole output is in {_KEPT_IN}").text


def _bundle(data: dict[str, Any]) -> dict[str, Any]:
    safe: dict[str, Any] = {}
    for mime, value in data.items():
        if mime == "text/plain":
            safe[mime] = plain(_shortened(str(value)))
        elif isinstance(value, str) and len(value) > (_PICTURE_CHARS if mime.startswith("image/") else _RICH_CHARS):
            safe.setdefault("text/plain", f"[{mime}, {len(value):,} characters: in {_KEPT_IN}]")
        elif mime in _KEPT:
            safe[mime] = plain(value) if isinstance(value, str) else _finite(value)
        elif mime == "text/html":
            safe[mime] = clean_html(plain(str(value)))
        elif mime == "text/markdown":
            # a page lets HTML in trusted Markdown through: it is drawn here, where it is not
            safe.setdefault("text/html", clean_html(safe_html.markdown(plain(str(value)))))
        elif mime == "image/svg+xml" and (drawing := clean_svg(plain(str(value)))):
            safe[mime] = drawing
    return safe


def _sizes(metadata: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return, of an output's metadata, how large its pictures are."""
    kept = {}
    for mime in data:
        sizes = metadata.get(mime)
        if isinstance(sizes, dict):
            kept[mime] = {k: v for k, v in sizes.items() if k in {"width", "height"} and isinstance(v, int | float)}
    return kept


def _finite(value: Any) -> Any:
    """Return JSON that every reader takes: NaN and its kin become text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {plain(str(key)): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return plain(value) if isinstance(value, str) else value


def _address(tag: str, name: str, value: str) -> str | None:
    """Keep an attribute's value, or drop it. A picture must stand in the page itself; a link waits for a click."""
    if tag == "img" and name == "src":
        return value if value.startswith("data:image/") else None
    if name == "style" and re.search(r"url|image|expression|[\\@/]", value, re.IGNORECASE):
        return None
    return value


@cache
def _cleaner() -> nh3.Cleaner:
    import nh3

    everywhere = {"class", "style", "title", "dir", "lang", "role", "aria-label"}
    attributes = {tag: set(names) - {"src"} for tag, names in nh3.ALLOWED_ATTRIBUTES.items()}
    attributes["*"] = everywhere
    attributes["img"] = {"src", "alt", "width", "height"}
    attributes["a"] = {"href"}
    attributes["table"] = {"border", "align"}
    attributes["details"] = {"open"}
    tags = (set(nh3.ALLOWED_TAGS) | {"figure", "figcaption", "section", "main"}) - {"area", "map"}
    return nh3.Cleaner(
        tags=tags,
        attributes=attributes,
        attribute_filter=_address,
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=set(_STYLES),
        clean_content_tags={"script", "style"},
        url_relative="deny",
    )
