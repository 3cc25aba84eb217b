"""`structure`: what a text is, found by looking at it: a table, records, a log, code, chapters; and how to get at it.

Only samples are looked at, so that half a gigabyte costs no more than a page. What is not plain from them is not said:
a wrong word here leads a model astray for a whole run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlm_jupyter.prompts.headings import SEARCHED, headings
from rlm_jupyter.prompts.languages import language
from rlm_jupyter.prompts.line_shapes import line_shape, log
from rlm_jupyter.prompts.prose import is_prose
from rlm_jupyter.prompts.source_code import source_code
from rlm_jupyter.prompts.tables import LEAST_LINES, MOST_NAMES, short, table

_SAMPLE = 20_000
"""Characters at the beginning, in the middle and at the end."""
_ROWS = 12_000
"""Objects in a list whose keys are looked at."""
_MOST_TYPES = 2

PROSE = "It is running text."
SAMPLED = "That is what a sample shows: the rest may differ."
_CODE_BEHIND = re.compile(r"((?:It is|Each line has|Each value is) .*) `((?:import|rows|lines) .*)`", re.DOTALL)


def structure(text: str) -> tuple[str, ...]:
    """Say what a text is, in a line or two; empty where that isn't plain.

    Behind a line may stand, between backticks, the code that gets at it.
    """
    lines = _lines(text)
    if found := _json(text):
        return found
    if found := _json_lines(lines) or log(lines) or table(lines) or line_shape(lines):
        return found if _is_whole(text) else (*found, SAMPLED)
    return source_code(text, lines) or (
        *headings(text, lines),
        *language(_ends(text)),
        *((PROSE,) if is_prose(lines) else ()),
    )


def without_code(details: Iterable[str]) -> tuple[list[str], str | None]:
    """Return lines about a context without the code that `structure` put behind one, and that code."""
    lines, code = [], None
    for line in details:
        if (found := _CODE_BEHIND.fullmatch(line)) is not None:
            line, code = found[1], re.sub(r"\A(import [\w, ]+); ", r"\1\n", found[2])
        lines.append(line)
    return lines, code


def _ends(text: str) -> str:
    """Return the beginning and the end."""
    size = str.__len__(text)
    return str.__getitem__(text, slice(0, _SAMPLE)) + str.__getitem__(text, slice(max(_SAMPLE, size - _SAMPLE), None))


def _is_whole(text: str) -> bool:
    """Return whether all lines of a text are looked at."""
    return str.__len__(text) <= 3 * _SAMPLE


def _lines(text: str) -> list[str]:
    """Return whole lines of the beginning, the middle and the end, the first ones first; blank ones left out."""
    size = str.__len__(text)
    if _is_whole(text):
        pieces = [str.__getitem__(text, slice(None)).split("\n")]
    else:
        middle = size // 2
        head = str.__getitem__(text, slice(0, _SAMPLE)).split("\n")[:-1]
        inner = str.__getitem__(text, slice(middle, middle + _SAMPLE)).split("\n")[1:-1]
        tail = str.__getitem__(text, slice(size - _SAMPLE, size)).split("\n")[1:]
        pieces = [head, inner, tail]
    return [line.rstrip("\r") for piece in pieces for line in piece if line.strip()]


def _json(text: str) -> tuple[str, ...]:
    first, last = (
        str.__getitem__(text, slice(0, _SAMPLE)).lstrip()[:1],
        str.__getitem__(text, slice(-200, None)).rstrip()[-1:],
    )
    if (first, last) not in {("[", "]"), ("{", "}")} or str.__len__(text) > SEARCHED:
        return ()
    try:
        data = json.loads(str.__getitem__(text, slice(None)))  # a subclass may mean something else by its methods
    except (ValueError, RecursionError):
        return ()
    sampled: tuple[str, ...] = ()
    if isinstance(data, list):
        what = f"a list of {len(data):,} items"
        if data and all(isinstance(item, dict) for item in data):
            what = f"a list of {len(data):,} objects, with the keys {keys_of(_sample(data))}"
            sampled = (SAMPLED,) if len(data) > _ROWS else ()
    else:
        what = f"an object with the keys {keys_of([data])}"
    return (f"It is JSON: {what}. `import json; data = json.loads(context)`", *sampled)


def _sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows, or so many of the beginning, the middle and the end."""
    if len(rows) <= _ROWS:
        return rows
    third, middle = _ROWS // 3, len(rows) // 2
    return rows[:third] + rows[middle : middle + third] + rows[-third:]


def _json_lines(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) < LEAST_LINES or not lines[0].startswith("{"):
        return ()
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return ()
    if not all(isinstance(row, dict) for row in rows):
        return ()
    return (
        f"It is JSON lines: each line is an object, with the keys {keys_of(rows)}. "
        '`import json; rows = [json.loads(line) for line in context.split("\\n") if line.strip()]`',
    )


def keys_of(rows: Sequence[dict[str, Any]]) -> str:
    """Name the keys of some objects, with their types; those of nested ones with a dot before them.

    Those that some of the objects lack stand last, and that is said: code that takes them for granted fails.
    """
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        for key, value in row.items():
            inner = value if isinstance(value, dict) and value else {"": value}
            for name, part in inner.items():
                kinds.setdefault(f"{key}.{name}" if name else f"{key}", Counter())[type(part).__name__] += 1
    named = {name: f"{short(name)} ({_types(kind)})" for name, kind in list(kinds.items())[:MOST_NAMES]}
    lacking = [shown for name, shown in named.items() if kinds[name].total() < len(rows)]
    more = f" and {len(kinds) - MOST_NAMES:,} more" if len(kinds) > MOST_NAMES else ""
    if 2 * len(lacking) > len(named):
        return f"{', '.join(named.values())}{more}; few or none of them have all"
    listed = ", ".join(shown for shown in named.values() if shown not in lacking)
    return listed + more + (f"; not in all of them: {', '.join(lacking)}" if lacking else "")


def _types(kinds: Counter[str]) -> str:
    """Name the types of a key's values: two at most, and whether some are None, which no code may add up."""
    none = type(None).__name__
    named = [name for name, _ in kinds.most_common() if name != none] or [none]
    listed = " or ".join(named) if len(named) <= _MOST_TYPES else f"{', '.join(named[:_MOST_TYPES])}, …"
    return listed + (", or None" if none in kinds and named != [none] else "")
