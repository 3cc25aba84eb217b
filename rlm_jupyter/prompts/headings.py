"""`headings`: the lines that divide a text: Markdown's headings, and chapters; not comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from rlm_jupyter.prompts.columns import LEAST_LINES, MOST_NAME_CHARS
from rlm_jupyter.prompts.prose import is_of_words

SEARCHED = 20_000_000
"""Characters of a text whose headings are counted."""

_HEADING = re.compile(r"^#{1,6} +\S.*$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~).*$", re.MULTILINE)
_BEFORE, _AFTER = re.compile(r"\n[ \t\r]*\n\Z|\A\ufeff?\s*\Z"), re.compile(r"[ \t\r]*\n[ \t\r]*(?:\n|\Z)|\s*\Z")
_NEAR = 100
"""Characters around a heading in which a blank line is looked for."""
_MOST = 2_000
"""Headings that are looked at one by one."""
_COMMENT_BLOCK = re.compile(r"^#[ \t]*$|^(#{1,6}) .*\n\1(?:[ \t].*)?$", re.MULTILINE)
_SETTING = re.compile(r"\s*(?:- )?[\w.$-]+\s*[=:+?]?[=:](?:\s.*|\S+)?|.*[;{}\\$]\s*|\s*[-\[<*/.!].*")
_MOSTLY = 0.8
_AT_LEAST = 0.6

_NAMES = "Chapter Kapitel Chapitre Capítulo Capitulo Capitolo Hoofdstuk Part Book"
_CHAPTER = re.compile(
    rf"^[ \t]{{0,80}}(?:(?:{'|'.join((_NAMES + ' ' + _NAMES.upper()).split())})[ \t]+(?:\d+|[IVXLC]+)"
    r"(?:[.:)—–-].*|[ \t]+[^\Wa-z_].*|[ \t]+[\"'“«(—–-].*)?"
    rf"|(?i:{'|'.join(_NAMES.split())})[ \t]+(?:\d+|(?i:[ivxlc]+))[.:]?)[ \t\r]*$",
    re.MULTILINE,
)
"""Its name is a capital, and a title behind it, too: a line of a paragraph may be `part I knew`."""
_NUMBERED = re.compile(r"\s*\w+\s+\w+")
_LONGEST_CHAPTER = 80
_BEHIND_PARAGRAPH = re.compile(r"(?:\A|\n[ \t\r]*\n|[.!?…\"'”»:)*=-][ \t\r]*\n|[\dIVXLC]\r?\n)\Z")
"""What stands before a chapter: nothing, a blank line, a sentence's end, or another chapter's line."""


def headings(text: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Count the headings or the chapters of a text, in a sentence; `lines` are samples of it, without blank ones."""
    if str.__len__(text) > SEARCHED:
        return ()
    text = str.__getitem__(text, slice(None))  # a subclass may mean something else by its methods
    for what, found in (("headings", _headings(text, lines)), ("chapters", _chapters(text))):
        is_first = len(found) > 1 and text.startswith(found[0])
        if len(found) >= LEAST_LINES or is_first:
            shown = "; ".join(line.strip()[:MOST_NAME_CHARS] for line in found[:4])
            more = "…" if len(found) > 4 else ""
            return (f"It has {len(found):,} {what}, each a line of its own: {shown}{more}",)
    return ()


def _headings(text: str, lines: Sequence[str]) -> list[str]:
    if (not text.startswith("#") and "\n#" not in text) or text.startswith("#!"):
        return []
    outside = "\n".join(_FENCE.split(text)[::2])  # a comment in an example is no heading
    looked_at = list(islice(_HEADING.finditer(outside), _MOST))
    if not looked_at:
        return []
    end = looked_at[-1].end()
    if len(_COMMENT_BLOCK.findall(outside, 0, end)) > (1 - _MOSTLY) * len(looked_at):
        return []
    least = _MOSTLY * len(looked_at)
    before = sum(bool(_BEFORE.search(outside[max(0, match.start() - _NEAR) : match.start()])) for match in looked_at)
    after = sum(bool(_AFTER.match(outside, match.end(), match.end() + _NEAR)) for match in looked_at)
    deep = sum(match[0].startswith("##") for match in looked_at)
    body = [line for line in lines if not line.startswith("#")]
    is_text = is_of_words(body)
    is_spaced = before + after >= 2 * least and min(before, after) >= _AT_LEAST * len(looked_at)
    is_divided = is_spaced and (is_text or deep > 0)
    is_followed = (before >= least or deep >= least) and is_text
    is_listed = deep == len(looked_at) and text.startswith("#") and any(body) and not any(map(_SETTING.fullmatch, body))
    return _HEADING.findall(outside) if is_divided or is_followed or is_listed else []


def _chapters(text: str) -> list[str]:
    found = list(islice(_CHAPTER.finditer(text), _MOST))
    if len(found) == _MOST:  # no book has so many
        return []
    numbers = [" ".join(_NUMBERED.match(match[0])[0].lower().split()) for match in found]  # type: ignore[index]
    if len({*numbers}) < len(numbers):
        return []  # a table of contents, or the heads of pages: who counts lines counts those, too
    return [
        match[0]
        for match in found
        if len(match[0]) <= _LONGEST_CHAPTER
        and _BEHIND_PARAGRAPH.search(text[max(0, match.start() - _NEAR) : match.start()])
    ]
