"""Texts of models and documents as HTML inside Markdown, and as titles."""

from __future__ import annotations

import html

from rlm_jupyter.record.dollars import ALONE

_TITLE_CHARS = 80


def head(text: str, limit: int = _TITLE_CHARS) -> str:
    """Return the beginning of a text, in one line."""
    line = _plain(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def escaped(text: str) -> str:
    """Return for HTML inside Markdown: nothing in it is a tag, a blank line, emphasis, a picture or a formula."""
    shown = html.escape(_plain(text)).replace("\r", "").replace("\n", "&#10;")
    for sign in "*_`[]!\\~":
        shown = shown.replace(sign, f"&#{ord(sign)};")
    return shown.replace("$", ALONE)


def _plain(text: str) -> str:
    """Return text that can be written to a file: a lone surrogate has no encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")


def count(number: int, unit: str) -> str:
    """Say how many there are of something."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
