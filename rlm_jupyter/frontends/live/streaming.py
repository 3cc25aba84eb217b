"""A reply that is still arriving, as the cells it is going to be."""

from __future__ import annotations

import re
from typing import Literal

from rlm_jupyter.parsing import parse

Part = tuple[Literal["markdown", "code"], str]
_OPENS = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(?:repl|python|py)\b", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MAY_OPEN = re.compile(r" {0,3}(?:`{1,}|~{1,})[^\n]*\Z")


def arriving(text: str) -> list[Part]:
    """Prose and code of the beginning of a reply, line by line; `arrived` may see it otherwise in the end."""
    parts: list[Part] = []
    lines: list[str] = []
    closing, is_code = "", False

    def close() -> None:
        source = "\n".join(lines)
        if source.strip():
            parts.append(("code", source) if is_code else ("markdown", source.strip()))
        lines.clear()

    *whole, last = text.split("\n")
    if not _MAY_OPEN.match(last):  # what may become a fence is held back for a moment
        whole.append(last)
    for line in whole:
        if closing:
            ends = line.strip().startswith(closing) and not line.strip().strip(closing[0])
            if is_code and ends:
                close()
                closing, is_code = "", False
                continue
            closing = "" if ends else closing
        elif found := _OPENS.match(line):
            close()
            closing, is_code = found[1], True
            continue
        elif other := _FENCE.match(line):
            closing = other[1]
        lines.append(line)
    close()
    return parts


def arrived(text: str) -> list[Part]:
    """Prose and code of a whole reply, as the run takes it."""
    return [
        ("code", segment.source) if segment.kind == "block" else ("markdown", segment.text.strip())
        for segment in parse(text).segments
        if segment.kind == "block" or segment.text.strip()
    ]
