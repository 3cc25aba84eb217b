"""`structure`: what a text is, found by looking at it: a table, records, a log, code, chapters; and how to get at it.

Only samples are looked at, so that half a gigabyte costs no more than a page. What is not plain from them is not said:
a wrong word here leads a model astray for a whole run.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_SAMPLE = 20_000
"""Characters at the beginning, in the middle and at the end."""
_LEAST_LINES = 3
_MOST_NAMES = 30
_MOST_NAME_CHARS = 60
_PARSED = 300_000
"""Characters of a text that is parsed as a whole, to be sure."""
_SEARCHED = 20_000_000
"""Characters of a text whose headings are counted."""

_INT = re.compile(r"[+-]?(?:0|[1-9]\d*)")
"""Not 007: with zeros before it, it is the name of something."""
_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_NAME = re.compile(r"[^\W\d][\w .()%/#-]{0,59}")
_TIME = re.compile(
    r"[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:)"
)
_CLF = re.compile(r"\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:")
_PAIR = re.compile(r"([^\s=]+)=(\S*)")
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
_STOPWORDS = {
    "German": "der die das und nicht ist ein eine von mit den dem auf für sich im des zu wurde auch",
    "French": "le la les et des une est pas que dans pour du sur au qui avec il elle ne par",
    "Spanish": "el la los las y que en una por con para del se es no un su al lo como",
    "Italian": "il la che di e un una per con non del della sono nel gli le al più da si",
    "Portuguese": "o a os as que de em um uma para com não do da se por mais no na ao",
    "Dutch": "de het een en van niet dat is op te met voor zijn die er aan door werd ook",
    "English": "the of and to in is that was for with as on not it by at from his her were",
}
_SCRIPTS = {
    "Chinese": re.compile(r"[\u4e00-\u9fff]"),
    "Japanese": re.compile(r"[\u3040-\u30ff]"),
    "Korean": re.compile(r"[\uac00-\ud7af]"),
    "Arabic": re.compile(r"[\u0600-\u06ff]"),
    "Hebrew": re.compile(r"[\u0590-\u05ff]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
}
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_CODE_BEHIND = re.compile(r"((?:It is|Each line has) .*) `((?:import|rows|lines) .*)`", re.DOTALL)
_LEAST_SHARE = 0.08
"""Of a text's words that are a language's function words, or of its lines that are plainly code."""


def structure(text: str) -> tuple[str, ...]:
    """Say what a text is, in a line or two; empty where that isn't plain.

    Behind a line may stand, between backticks, the code that gets at it.
    """
    lines = _lines(text)
    found = _json(text) or _json_lines(lines) or _table(lines) or _pairs(lines) or _log(lines) or _code(text, lines)
    return found or (*_headings(text), *_language(text))


def without_code(details: Iterable[str]) -> tuple[list[str], str | None]:
    """Return lines about a context without the code that `structure` put behind one, and that code."""
    lines, code = [], None
    for line in details:
        if (found := _CODE_BEHIND.fullmatch(line)) is not None:
            line, code = found[1], found[2].replace("; ", "\n", 1)
        lines.append(line)
    return lines, code


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
            what = f"a list of {len(data):,} objects, with the keys {_keys(data[:200])}"
    else:
        what = f"an object with the keys {_keys([data])}"
    return (f"It is JSON: {what}. `import json; data = json.loads(context)`",)


def _json_lines(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) < _LEAST_LINES or not lines[0].startswith("{"):
        return ()
    try:
        rows = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return ()
    if not all(isinstance(row, dict) for row in rows):
        return ()
    return (
        f"It is JSON lines: each line is an object, with the keys {_keys(rows)}. "
        '`import json; rows = [json.loads(line) for line in context.split("\\n") if line.strip()]`',
    )


def _keys(rows: Sequence[dict[str, object]]) -> str:
    """Name the keys of some objects, with their types; those of nested ones with a dot before them."""
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        for key, value in row.items():
            inner = value if isinstance(value, dict) and value else {"": value}
            for name, part in inner.items():
                kinds.setdefault(f"{key}.{name}" if name else key, Counter())[type(part).__name__] += 1
    shown = [f"{_short(name)} ({kind.most_common(1)[0][0]})" for name, kind in list(kinds.items())[:_MOST_NAMES]]
    more = len(kinds) - _MOST_NAMES
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _table(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) < _LEAST_LINES:
        return ()
    for delimiter in ",;\t|":
        try:
            rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        rows = [row for row in rows if row]
        if len(rows) < _LEAST_LINES or len(rows[0]) < 2 or {len(row) for row in rows} != {len(rows[0])}:
            continue
        if any(field.startswith(" ") for row in rows for field in row[1:]):
            continue  # enumerations and verses are written so, tables hardly ever
        kinds = [_kind([row[column] for row in rows[1:]]) for column in range(len(rows[0]))]
        head = [name.strip("\ufeff ") for name in rows[0]]
        if not any(kind != "text" for kind in kinds) and not _is_header(head, rows):
            continue
        whole = [_kind([row[column] for row in rows[1:]], blank=False) for column in range(len(head))]
        marked = lines[0].startswith("\ufeff")
        return _described(delimiter, head if _is_header(head, rows) else None, kinds, whole, marked=marked)
    return ()


def _is_header(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first row names columns: distinct words, none of which stands below it."""
    return (
        len(set(head)) == len(head)
        and all(_NAME.fullmatch(name) for name in head)
        and not any(name in {row[column] for row in rows[1:]} for column, name in enumerate(head))
    )


def _described(
    delimiter: str, head: Sequence[str] | None, kinds: Sequence[str], whole: Sequence[str], *, marked: bool
) -> tuple[str, ...]:
    text = 'context.lstrip("\\ufeff")' if marked else "context"
    named = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[delimiter]
    given = "" if delimiter == "," else f", delimiter={delimiter!r}"
    shown = [f"{_short(head[column]) if head else column} ({kind})" for column, kind in enumerate(kinds[:_MOST_NAMES])]
    more = f" and {len(kinds) - _MOST_NAMES:,} more" if len(kinds) > _MOST_NAMES else ""
    numbers = _converted(head, whole) if head else ""
    reader, columns = ("DictReader", "the columns") if head else ("reader", "no header; its columns are")
    return (
        f"It is a table separated by {named}, with {columns} {', '.join(shown)}{more}. "
        f"`import csv, io; rows = list(csv.{reader}(io.StringIO({text}){given})){numbers}`",
    )


def _converted(names: Sequence[str], kinds: Sequence[str]) -> str:
    """Return the code that makes numbers of columns in which every value is one: as text, 9 is more than 10."""
    lines = []
    for kind in ("int", "float"):
        its = [name for name, its_kind in zip(names, kinds, strict=True) if its_kind == kind][:_MOST_NAMES]
        if its:
            lines.append(f"\nfor row in rows:\n    row.update({{name: {kind}(row[name]) for name in {its!r}}})")
    return "".join(lines)


def _kind(values: Sequence[str], *, blank: bool = True) -> str:
    """Name the type of a column's values; `blank`: some of them may be empty."""
    if not blank and not all(map(str.strip, values)):
        return "text"
    given = [value.strip() for value in values if value.strip()]
    for name, pattern in (("int", _INT), ("float", _FLOAT), ("number with a decimal comma", _COMMA), ("date", _DATE)):
        if given and all(map(pattern.fullmatch, given)):
            return name
        if name == "number with a decimal comma" and given and any(map(_COMMA.fullmatch, given)):
            mixed = all(_COMMA.fullmatch(value) or _INT.fullmatch(value) for value in given)
            return name if mixed else "text"
    return "text"


def _pairs(lines: Sequence[str]) -> tuple[str, ...]:
    """Describe lines that are nothing but `key=value`, all with the same keys."""
    if len(lines) < _LEAST_LINES:
        return ()
    keys = [tuple(match[1] for match in _PAIR.finditer(line)) for line in lines]
    plain = all(_PAIR.sub("", line).strip() == "" for line in lines)
    if not plain or len(set(keys)) != 1 or not keys[0]:
        return ()
    values = [[match[2] for match in _PAIR.finditer(line)] for line in lines]
    whole = [_kind([row[place] for row in values], blank=False) for place in range(len(keys[0]))]
    return (
        f"Each line has key=value for the keys {', '.join(map(_short, keys[0]))}. "
        '`rows = [dict(pair.split("=", 1) for pair in line.split()) for line in context.splitlines()]'
        f"{_converted(keys[0], whole)}`",
    )


def _log(lines: Sequence[str]) -> tuple[str, ...]:
    timed = sum(bool(_TIME.match(line) or _CLF.match(line)) for line in lines)
    if len(lines) < _LEAST_LINES or timed < 0.6 * len(lines):
        return ()
    rest = "" if timed == len(lines) else ", though not every one: some go on in further lines"
    return (f"It is a log: its lines begin with a time{rest}. `lines = context.splitlines()`",)


def _code(text: str, lines: Sequence[str]) -> tuple[str, ...]:
    stripped = [line.strip() for line in lines]
    counts = {name: sum(map(bool, map(form.fullmatch, stripped))) for name, form in _CODE.items()}
    name, most = max(counts.items(), key=lambda item: item[1])
    others = sorted(counts.values())[-2]
    if most < 5 or most < _LEAST_SHARE * len(lines) or most < 2 * others:
        return ()
    how = ""
    if name == "Python" and str.__len__(text) <= _PARSED:
        import ast

        try:
            ast.parse(text)
            how = " It parses as one module. `import ast; tree = ast.parse(context)`"
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            how = ""
    return (f"It is source code in {name}.{how}",)


def _headings(text: str) -> tuple[str, ...]:
    if str.__len__(text) > _SEARCHED:
        return ()
    for what, form in (("headings", _HEADING), ("chapters", _CHAPTER)):
        found = form.findall(text)
        if len(found) >= _LEAST_LINES:
            shown = "; ".join(line.strip()[:_MOST_NAME_CHARS] for line in found[:4])
            return (f"It has {len(found):,} {what}, each a line of its own: {shown}…",)
    return ()


def _language(text: str) -> tuple[str, ...]:
    """Name the language of prose, where it is not English."""
    size = str.__len__(text)
    sample = str.__getitem__(text, slice(0, _SAMPLE)) + str.__getitem__(text, slice(max(_SAMPLE, size - _SAMPLE), None))
    letters = sum(map(str.isalpha, sample))
    for name, form in {"Japanese": _SCRIPTS["Japanese"], **_SCRIPTS}.items():
        least = 0.1 if name == "Japanese" else 0.4
        if letters > 40 and len(form.findall(sample)) > least * letters:
            return (f"It is written in {name}.",)
    if letters > 40 and len(_CYRILLIC.findall(sample)) > 0.4 * letters:
        return ("It is written in Cyrillic letters.",)
    words = re.findall(r"[^\W\d_]+", sample.lower())
    if len(words) < 40:
        return ()
    counted = Counter(words)
    shares = {name: sum(counted[word] for word in its.split()) / len(words) for name, its in _STOPWORDS.items()}
    best, next_best = sorted(shares, key=lambda name: -shares[name])[:2]
    if best == "English" or shares[best] < _LEAST_SHARE or shares[best] < 1.5 * shares[next_best]:
        return ()
    return (f"It is written in {best}.",)


def _short(name: str) -> str:
    name = " ".join(name.split()).strip("\ufeff")
    return name if len(name) <= _MOST_NAME_CHARS else f"{name[:_MOST_NAME_CHARS]}…"
