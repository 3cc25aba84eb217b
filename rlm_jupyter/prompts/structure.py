"""`structure`: what a text is, found by looking at it: a table, records, a log, code, chapters; and how to get at it.

Only samples are looked at, so that half a gigabyte costs no more than a page. What is not plain from them is not said:
a wrong word here leads a model astray for a whole run.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlm_jupyter.prompts.languages import LEAST_SHARE, language
from rlm_jupyter.prompts.line_shapes import line_shape, log
from rlm_jupyter.prompts.tables import LEAST_LINES, MOST_NAME_CHARS, MOST_NAMES, short, table

_SAMPLE = 20_000
"""Characters at the beginning, in the middle and at the end."""
_PARSED = 300_000
"""Characters of a text that is parsed as a whole, to be sure."""
_SEARCHED = 20_000_000
"""Characters of a text whose headings are counted."""

_HEADING = re.compile(r"^#{1,6} +\S.*$", re.MULTILINE)
_CHAPTER = re.compile(
    r"^(?:chapter|kapitel|chapitre|cap[ií]tulo|capitolo|hoofdstuk|part|book)\s+(?:\d+|[IVXLC]+)\b.*$",
    re.MULTILINE | re.IGNORECASE,
)
_CODE = {
    "Python": re.compile(
        r"(?:async )?def \w+\(.*|class \w+.*:|(?:from [\w.]+ )?import [\w., *]+|(?:el)?if .+:|for .+ in .+:"
    ),
    "JavaScript or TypeScript": re.compile(
        r"(?:export )?(?:async )?function \w*\(.*|(?:export )?(?:const|let|var) \w+ = .*|import .* from ['\"].*"
        r"|export \{?.*"
    ),
    "Java": re.compile(r"(?:public|private|protected) .*[{;(]|import [\w.]+\*?;|package [\w.]+;"),
    "C or C++": re.compile(
        r"#(?:include|define|ifn?def|endif)\b.*|(?:static |const |unsigned )*(?:int|void|char|double|bool) \*?\w+\(.*"
    ),
    "Go": re.compile(r"func (?:\(.*\) )?\w+\(.*|package \w+|type \w+ (?:struct|interface) \{|\w+ := .*"),
    "Rust": re.compile(r"(?:pub )?fn \w+.*|use [\w:]+.*;|impl.* \{|let (?:mut )?\w+.*;"),
    "SQL": re.compile(r"(?:CREATE|INSERT|SELECT|UPDATE|DELETE|ALTER|DROP)\s+.*"),
}
"""Lines that only such code has."""
PROSE = "It is running text."
_SENTENCE_END = re.compile(r"[^\W\d_][.!?]['\")\]”»]*(?:\s|$)|[。！？]", re.MULTILINE)
_LONGEST_SENTENCE = 60
"""Words for each end of a sentence, at most, where a text is taken for prose; a character of Chinese counts as one."""
_LEAST_SENTENCES = 3
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_CODE_BEHIND = re.compile(r"((?:It is|Each line has|Each value is) .*) `((?:import|rows|lines) .*)`", re.DOTALL)


def structure(text: str) -> tuple[str, ...]:
    """Say what a text is, in a line or two; empty where that isn't plain.

    Behind a line may stand, between backticks, the code that gets at it.
    """
    lines = _lines(text)
    found = _json(text) or _json_lines(lines) or log(lines) or table(lines) or line_shape(lines) or _code(text, lines)
    return found or (*_headings(text), *language(_ends(text)), *_prose(lines))


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


def _lines(text: str) -> list[str]:
    """Return whole lines of the beginning, the middle and the end, the first ones first; blank ones left out."""
    size = str.__len__(text)
    if size <= 3 * _SAMPLE:
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
    if (first, last) not in {("[", "]"), ("{", "}")} or str.__len__(text) > _SEARCHED:
        return ()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if isinstance(data, list):
        what = f"a list of {len(data):,} items"
        if data and all(isinstance(item, dict) for item in data):
            what = f"a list of {len(data):,} objects, with the keys {keys_of(data[:200])}"
    else:
        what = f"an object with the keys {keys_of([data])}"
    return (f"It is JSON: {what}. `import json; data = json.loads(context)`",)


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
    named = {name: f"{short(name)} ({kind.most_common(1)[0][0]})" for name, kind in list(kinds.items())[:MOST_NAMES]}
    lacking = [shown for name, shown in named.items() if kinds[name].total() < len(rows)]
    more = f" and {len(kinds) - MOST_NAMES:,} more" if len(kinds) > MOST_NAMES else ""
    if 2 * len(lacking) > len(named):
        return f"{', '.join(named.values())}{more}; few or none of them have all"
    listed = ", ".join(shown for shown in named.values() if shown not in lacking)
    return listed + more + (f"; not in all of them: {', '.join(lacking)}" if lacking else "")


def _code(text: str, lines: Sequence[str]) -> tuple[str, ...]:
    stripped = [line.strip() for line in lines]
    counts = {name: sum(map(bool, map(form.fullmatch, stripped))) for name, form in _CODE.items()}
    name, most = max(counts.items(), key=lambda item: item[1])
    others = sorted(counts.values())[-2]
    if most < 5 or most < LEAST_SHARE * len(lines) or most < 2 * others:
        return ()
    how = " `lines = context.splitlines()`"
    if name == "Python" and str.__len__(text) <= _PARSED:
        import ast

        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            ast.parse(text)
            how = " It parses as one module. `import ast; tree = ast.parse(context)`"
    return (f"It is source code in {name}.{how}",)


def _prose(lines: Sequence[str]) -> tuple[str, ...]:
    ends = sum(len(_SENTENCE_END.findall(line)) for line in lines)
    words = sum(len(_WORD.findall(line)) for line in lines)
    return (PROSE,) if ends >= _LEAST_SENTENCES and words <= _LONGEST_SENTENCE * ends else ()


def _headings(text: str) -> tuple[str, ...]:
    if str.__len__(text) > _SEARCHED:
        return ()
    for what, form in (("headings", _HEADING), ("chapters", _CHAPTER)):
        is_ruled_out = form is _HEADING and not str.startswith(text, "#") and "\n#" not in text
        found = [] if is_ruled_out else form.findall(text)
        is_first = len(found) > 1 and str.startswith(text, found[0])
        if len(found) >= LEAST_LINES or is_first:
            shown = "; ".join(line.strip()[:MOST_NAME_CHARS] for line in found[:4])
            more = "…" if len(found) > 4 else ""
            return (f"It has {len(found):,} {what}, each a line of its own: {shown}{more}",)
    return ()
