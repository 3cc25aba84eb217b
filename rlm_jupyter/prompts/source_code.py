"""Programming languages, told by their lines: several kinds that one has, one of them none of its relatives'."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from rlm_jupyter.prompts.prose import has_text

_PARSED = 300_000
"""Characters of a text that is parsed as a whole, to be sure."""
_LEAST_CODE = 5
"""Lines that are plainly of a language."""
_LEAST_SHARE = 0.08
_BESIDE = {"SQL": 20}
"""Lines for each that is plainly another language's: more where a language stands in others' strings."""
_LEAST_KINDS = 2
"""Kinds of lines: one alone may be another language's."""

_SQL_THINGS = (
    r"(?:TABLE|INDEX|(?:MATERIALIZED )?VIEW|TRIGGER|FUNCTION|PROCEDURE|OPERATOR|TYPE|CAST|AGGREGATE|SCHEMA|DATABASE"
    r"|SEQUENCE|DOMAIN|EXTENSION|ROLE|USER|LANGUAGE|COLUMN|CONSTRAINT)"
)
_SQL = (
    rf"INSERT INTO \S+.*|(?-i:SELECT)\b(?! CASE).*|SELECT .*(?: FROM .*|,)"
    rf"|CREATE (?:OR REPLACE )?(?:\w+ )?{_SQL_THINGS}\b.*"
    rf"|UPDATE \S+ SET\b.*|DELETE FROM \S+.*|(?:ALTER|DROP) {_SQL_THINGS}\b.*|COMMENT ON .*|(?:GRANT|REVOKE) .* ON .*"
)
_LINES = {
    "Python": (
        r"(?:async )?def \w+\((?:.*\)(?: -> .+)?:(?: (?:\.\.\.|pass|return\b.*|raise\b.*))?|(?:.*[,(])?)(?:\s*#.*)?",
        r"class \w+(?:\(.*\))?:(?: \.\.\.|\s*#.*)?",
        r"from [\w.]+ import [\w., *()\\]+(?:#.*)?",
        r"import [a-z_][\w.]*(?: as \w+)?(?:, [\w. ]+)*(?:\s*#.*)?",
        r"(?:el)?if .+:|for .+ in .+:|while .+:|with .+:|else:|try:|except\b.*:|finally:",
        r"self\.\w+ = .*|@\w[\w.]*(?:\(.*\))?|return(?: [^;]*)?",
    ),
    "JavaScript or TypeScript": (
        r"(?:export )?(?:default )?(?:async )?function\*? ?\w*\(.*[{(,]",
        r"(?:export )?(?:const|let|var) [\w${\[][^:]* = .*",
        r"import .* from ['\"].*|(?:const|let|var) .* = require\(.*|import ['\"][^'\"]+['\"];?",
        r"export (?:default|const|class|interface|type|enum|abstract|declare)\b.*|export [{*].*|module\.exports\b.*",
        r"(?:private|public|protected) (?:readonly |async |static )*\w+\??(?:: .*|\(.*\): .*)",
        r".*(?:===|!==|\) => [{(]).*|\}\)(?:\(.*\))?;?|.*\bdocument\.\w+.*",
    ),
    "Java": (
        r"import (?:static )?[a-z]\w*(?:\.\w+)+(?:\.\*)?;|package [\w.]+;",
        r"(?:public |private |protected |static |final |abstract )*(?:class|interface|enum|record) \w+.*",
        r"(?:public|private|protected) (?:static |final |synchronized )*[\w<>\[\], ?]+ \w+(?:\(.*| = .*;|;)",
        r"@Override|.*\) throws \w.*",
    ),
    "C or C++": (
        r"#\s*include\s*[<\"].*",
        r"#\s*define\s+\w+.*",
        r"#\s*(?:ifdef|ifndef|endif|undef|elif|if defined)\b.*",
        r"(?:static |const |unsigned |inline |extern )*(?:int|void|char|double|bool|float|long|size_t) [*&]*\w+\(.*",
        r"typedef .*|(?:struct|union) \w+ ?\{?|extern .*;|using namespace \w+;|template ?<.*|\w+(?:::\w+)+\(.*",
    ),
    "Go": (
        r"func (?:\(\w+ \*?[\w.\[\]]+\) )?\w+(?:\[.*\])?\(.*\{",
        r"package \w+",
        r"type \w+ (?:struct|interface|func)\b.*",
        r"(?:if |for |switch )?\w+(?:, \w+)* := [^;]*(?:; .*\{)?|if err != nil \{",
        r"import \(|import \"[\w./-]+\"",
    ),
    "Rust": (
        r"(?:pub(?:\(\w+\))? )?(?:async |unsafe |const )*fn \w+.*",
        r"(?:pub )?use \w+::.*;?|(?:pub )?mod \w+(?:;| \{)",
        r"impl\b.*\{|(?:pub )?(?:struct|enum|trait) \w+.*\{|#!?\[\w+.*\]",
        r"let (?:mut )?\w+(?:: .+)? = .*[;({]|match .+ \{",
    ),
    "SQL": (_SQL,),
}
"""Of each language, kinds of lines that it has; some of them others have, too."""
_NEEDED = {
    "Python": (0, 1, 2, 4),
    "JavaScript or TypeScript": (0, 2, 3),
    "Java": (0,),
    "C or C++": (0, 1, 2),
    "Go": (0,),
    "Rust": (0,),
}
"""Kinds of lines of which a text has at least one: no relative of the language has them."""
_FORMS = {
    name: tuple(re.compile(form, re.IGNORECASE * (name == "SQL")) for form in its) for name, its in _LINES.items()
}
_OTHER_FILE = re.compile(
    r"<\?php\b.*|@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*|`{3,}.*|diff --git .*|(?:from [\w.]+ )?cimport .*|cdef .*|<%.*"
)
"""What isn't one piece of code in a language that is told: PHP, changes to a file, a text with code in it, Cython."""


def source_code(text: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Name the programming language of a text, in a sentence with code that gets at it; `lines` are samples of it."""
    stripped = [line.strip() for line in lines]
    found = {name: _kinds(forms, stripped) for name, forms in _FORMS.items()}
    counts = {name: sum(kinds) for name, kinds in found.items() if _has_needed(name, kinds)}
    name, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
    others = sum(count for other, count in counts.items() if other != name)
    if most < max(_LEAST_CODE, _LEAST_SHARE * len(lines)):
        return ()
    is_python = name == "Python" or (name == "SQL" and any(found["Python"]))  # with SQL in its strings
    if is_python and str.__len__(text) <= _PARSED and _is_module(text):
        return ("It is source code in Python. It parses as one module. `import ast; tree = ast.parse(context)`",)
    is_several = most < _BESIDE.get(name, 4) * others
    is_example = name in {"Python", "SQL"} and has_text(lines)
    is_vague = name != "SQL" and sum(map(bool, found[name])) < _LEAST_KINDS
    if is_several or is_example or is_vague or any(map(_OTHER_FILE.fullmatch, stripped)):
        return ()
    return (f"It is source code in {name}. `lines = context.splitlines()`",)


def _kinds(forms: Sequence[re.Pattern[str]], lines: Sequence[str]) -> list[int]:
    """Count the lines of each kind; each line once."""
    counts = [0] * len(forms)
    for line in lines:
        which = next((index for index, form in enumerate(forms) if form.fullmatch(line)), None)
        if which is not None:
            counts[which] += 1
    return counts


def _has_needed(name: str, kinds: Sequence[int]) -> bool:
    return name not in _NEEDED or any(kinds[index] for index in _NEEDED[name])


def _is_module(text: str) -> bool:
    import ast

    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        ast.parse(str.__getitem__(text, slice(None)))
        return True
    return False
