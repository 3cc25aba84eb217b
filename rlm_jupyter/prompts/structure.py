"""`structure`: what a text is, found by looking at it: a table, records, a log, code, chapters; and how to get at it.

Only samples are looked at, so that half a gigabyte costs no more than a page. What is not plain from them is not said:
a wrong word here leads a model astray for a whole run.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlm_jupyter.prompts.columns import LEAST_LINES, MOST_NAMES, short
from rlm_jupyter.prompts.headings import SEARCHED, headings
from rlm_jupyter.prompts.languages import language
from rlm_jupyter.prompts.line_shapes import line_shape, log
from rlm_jupyter.prompts.prose import is_prose
from rlm_jupyter.prompts.source_code import source_code
from rlm_jupyter.prompts.tables import table

_SAMPLE = 20_000
"""Characters at the beginning, in the middle and at the end."""
_PIECE = 1 << 22
_ROWS = 12_000
"""Items of a list that are looked at."""
LEAST_ALIKE = 5
"""Objects that are described together."""
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
    if found := _json_lines(lines) or log(lines) or _table(text, lines) or line_shape(lines):
        return found if _is_whole(text) else (*found, SAMPLED)
    return source_code(text, lines) or (
        *headings(text, lines),
        *language(_ends(text)),
        *((PROSE,) if is_prose(lines) else ()),
    )


def occurrences(text: str, mark: str) -> int:
    """Count a character piece by piece: other threads, such as one that gives the text to a kernel, run in between."""
    length, count = str.__len__(text), str.count(text, mark, 0, _PIECE)
    for start in range(_PIECE, length, _PIECE):
        time.sleep(0)
        count += str.count(text, mark, start, start + _PIECE)
    return count


def _table(text: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Describe a table; nothing where a quotation mark that nothing closes would make one cell of all that follows."""
    found = table(lines)
    return found if found and not occurrences(text, '"') % 2 else ()


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
    what, more, sampled = _of_list(data) if isinstance(data, list) else _of_object(data)
    return (f"It is JSON: {what}. `import json; data = json.loads(context){more}`", *((SAMPLED,) if sampled else ()))


def _of_list(items: list[Any]) -> tuple[str, str, bool]:
    """Return what a list is, the code for what is in it, and whether only a sample of it was looked at."""
    if _are_objects(items):
        what = f"a list of {len(items):,} objects, with the keys {keys_of(_sample(items))}"
    else:
        what = f"a list of {len(items):,} items{f' ({_kinds(_sample(items))})' if items else ''}"
    return what, "", len(items) > _ROWS


def _of_object(data: dict[str, Any]) -> tuple[str, str, bool]:
    """Return the same of an object: its keys, or what its values are where these are many and alike."""
    values = list(data.values())
    looked_at = _sample(values)
    if len(values) >= LEAST_ALIKE and _are_objects(values) and are_alike(looked_at):
        what = f"an object with {len(values):,} keys, whose values are objects with the keys {keys_of(looked_at)}"
        return what, '\nrows = [{"key": key, **value} for key, value in data.items()]', len(values) > _ROWS
    if len(values) > MOST_NAMES and len(kinds := {type(value).__name__ for value in looked_at}) == 1:
        return f"an object with {len(values):,} keys, whose values are of type {kinds.pop()}", "", len(values) > _ROWS
    lists = {key: value for key, value in data.items() if isinstance(value, list) and len(value) >= LEAST_ALIKE}
    what = f"an object with the keys {keys_of([data])}"
    if len(lists) == 1 and _are_objects(rows := next(iter(lists.values()))):
        [key] = lists
        inner, _, sampled = _of_list(rows)
        return f"{what}; {short(key)} is {inner}", f"\nrows = data[{key!r}]" * ("`" not in key), sampled
    return what, "", False


def _are_objects(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) for item in items)


def are_alike(rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether at least half of the keys of some objects are in all of them."""
    keys = [frozenset(row) for row in rows]
    return 2 * len(frozenset.intersection(*keys)) >= max(1, len(frozenset.union(*keys)))


def _sample(rows: list[Any]) -> list[Any]:
    """Return all items, or so many of the beginning, the middle and the end."""
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
    listed = ", ".join(shown for shown in named.values() if shown not in lacking)
    listed += f" and {len(kinds) - MOST_NAMES:,} more" if len(kinds) > MOST_NAMES else ""
    if not lacking:
        return listed
    if not listed:
        return f"{', '.join(lacking)}, none of which is in all of them"
    return f"{listed}; not in all of them: {', '.join(lacking)}"


def _kinds(values: Sequence[Any]) -> str:
    return _types(Counter(type(value).__name__ for value in values))


def _types(kinds: Counter[str]) -> str:
    """Name the types of a key's values: two at most, and whether some are None, which no code may add up."""
    none = type(None).__name__
    named = [name for name, _ in kinds.most_common() if name != none] or [none]
    listed = " or ".join(named) if len(named) <= _MOST_TYPES else f"{', '.join(named[:_MOST_TYPES])}, …"
    return listed + (", or None" if none in kinds and named != [none] else "")
