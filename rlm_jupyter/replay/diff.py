"""`Difference`: something that went otherwise than recorded, such as what a cell's outputs have become.

Two executions of the same cell are never the same byte for byte. What differs for no reason of the code's is left out
of the comparison: memory addresses, durations, the clock, random UUIDs, colours, the numbers of cells, temporary files
and process ids in IPython's own messages, how a stream was cut into pieces, and the frames of a traceback (its error
counts). A line by line difference of the rest is what `nbdime` shows, whose package needs a server and git.
"""

from __future__ import annotations

import difflib
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.types.values import CellRun, Output

_PASSING = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),  # colours
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "0x…"),  # addresses
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "UUID"),
    (re.compile(r"\S*ipykernel_\d+/\d+\.py|<ipython-input-[\w-]+>"), "<cell>"),
    (re.compile(r"\b(?:In|Out) ?\[\d+\]"), "[…]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "CLOCK"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "CLOCK"),
    (re.compile(r"\b1\d{9}\.\d{3,}\b"), "CLOCK"),  # time.time()
    # 1.5 s, 300 µs ± 2 µs per loop, 12 seconds; also `2min 3s`
    (re.compile(r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)? ?(?:ns|[uµμ]s|ms|s|secs?|seconds?|min|minutes?)\b"), "TIME"),
    (re.compile(r"\b[\d,]+ loops each\b"), "loops each"),  # as many as %timeit has time for
    (re.compile(r"\bTIME(?: TIME)+"), "TIME"),
)
_CONTEXT = 1
"""Lines around what differs."""
_MOST_LINES = 400
"""Of an output that are compared line by line: what is longer is compared by its size and its first difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that went otherwise than recorded."""

    iteration: int
    block: int | None
    text: str
    """A unified diff, or a sentence."""


def as_text(differences: Sequence[Difference], chars: int = 4_000) -> str:
    """Render differences for the model, cut to `chars`."""
    texts = [f"{one.text}" if one.block is None else f"[iteration {one.iteration}] {one.text}" for one in differences]
    text = "\n".join(texts)
    return text if len(text) <= chars else f"{text[:chars]}\n… ({len(differences)} in all)"


def difference(before: CellRun, after: CellRun, label: str = "cell") -> str:
    """Return how the second run of a cell differs from the first.

    Parameters
    ----------
    before, after
        As recorded, and as it went now.
    label
        What the cell is called.

    Returns
    -------
    str
        A unified diff; empty where nothing differs that means anything.
    """
    old, new = _lines(before), _lines(after)
    if old == new:
        return ""
    if len(old) + len(new) > 2 * _MOST_LINES:
        old, new = _around_first(old, new)
    diff = difflib.unified_diff(old, new, f"{label} (recorded)", f"{label} (now)", n=_CONTEXT, lineterm="")
    return "\n".join(diff)


def text_difference(before: str, after: str, label: str) -> str:
    """Return the same for two texts, in which everything counts."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ""
    if len(old) + len(new) > 2 * _MOST_LINES:
        old, new = _around_first(old, new)
    return "\n".join(difflib.unified_diff(old, new, f"{label} (recorded)", f"{label} (now)", n=_CONTEXT, lineterm=""))


def _lines(cell: CellRun) -> list[str]:
    status = [] if cell.status == "ok" else [f"({cell.status})"]
    return [*(line for output in _joined(cell.outputs) for line in _described(output)), *status]


def _joined(outputs: Sequence[Output]) -> Iterator[Output]:
    """Yield the outputs with each stream in one piece: standard output and error come in any order."""
    streams: dict[str, Output] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            yield from streams.values()
            streams.clear()
            yield output
        elif (name := output["name"]) in streams:
            streams[name] = {**output, "text": _text(streams[name]["text"]) + _text(output["text"])}
        else:
            streams[name] = output
    yield from streams.values()


def _described(output: Output) -> Iterator[str]:
    match output["output_type"]:
        case "stream":
            yield from _plain(_text(output["text"]))
        case "error":
            yield from _plain(f"{output['ename']}: {_text(output['evalue'])}")
        case _:
            for mime, data in sorted(output.get("data", {}).items()):
                if mime.startswith("text/") and mime != "text/html":
                    yield from _plain(_text(data))
                elif mime == "text/html" or not isinstance(data, str):
                    text = _text(data) if mime == "text/html" else json.dumps(data, sort_keys=True, default=repr)
                    yield from (f"{mime}: {line}" for line in _plain(text))
                else:  # a picture: the same, or another
                    yield f"{mime}: {len(data):,} characters, checksum {zlib.crc32(data.encode()):08x}"


def _plain(text: str) -> list[str]:
    for pattern, instead in _PASSING:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def _around_first(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Return some lines from where they first differ: a whole diff of long outputs takes for ever."""
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(same - _CONTEXT, 0)
    return tuple(  # type: ignore[return-value]
        [*lines[start : start + _MOST_LINES // 10], f"… {len(lines):,} lines in all"] for lines in (old, new)
    )


def _text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
