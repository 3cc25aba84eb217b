"""FINAL and FINAL_VAR where they are written: in prose, and in source that is no Python because of them.

What FINAL means when it is *run* is decided in the kernel (`kernel/guest/final_functions.py`). Here it is only text. In
prose, a declaration stands alone: it begins its line, its brackets balance, and nothing but punctuation follows it, so
that a plan such as `FINAL(x) will be returned later` declares nothing. Emphasis and inline code around the whole of it
don't count.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from rlm_jupyter.parsing import fences
from rlm_jupyter.parsing import source as sources
from rlm_jupyter.parsing.brackets import LITERAL, Brackets
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_QUOTE_PAIRS = (("“", "”"), ("‘", "’"), ("«", "»"), ("„", "“"))
_OF_WORDS = (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.Sub, ast.Div, ast.expr_context)
"""What words turn into that are read as Python: names, numbers, commas, hyphens, slashes."""
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_PYTHONS_OWN = frozenset(dir(builtins))
_WORD = r"(FINAL(?:_VAR)?)[^\S\n]*\("
_IN_SOURCE = re.compile(rf"^[^\S\n]*{_WORD}", re.MULTILINE)
_IN_ANY_CASE = re.compile(_IN_SOURCE.pattern, re.MULTILINE | re.IGNORECASE)
_IN_PROSE = re.compile(rf"^[^\S\n]*[*_`]{{0,4}}{_WORD}", re.MULTILINE)
_ALONE = re.compile(r"[\s*_`.!,;…)]*?$", re.MULTILINE)
"""The rest of a line with a declaration that stands alone: emphasis, punctuation (a bracket too many), white space."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An answer declared in a text."""

    kind: Literal["FINAL", "FINAL_VAR"]
    content: str
    """What stands between the brackets, white space around it taken off."""
    start: int
    """Offset of the word."""
    end: int
    """Offset after the closing bracket."""


@runtime_checkable
class Environment(Protocol):
    """Where a FINAL_VAR is looked up: anything that runs a line of Python and tells what it printed."""

    def execute_code(self, code: str) -> Any:
        """Run `code`; return what it printed, as a text or as an object with a `stdout`."""
        ...


def declarations(text: str, *, case_sensitive: bool = True) -> Iterator[Declaration]:
    """Find every FINAL and FINAL_VAR at the start of a line, in order; never one inside another.

    Parameters
    ----------
    text
        The source of a cell, or what was printed: fenced blocks are looked into, and anything may follow.
    case_sensitive
        `False`: `final(` counts too.
    """
    return _found(text, _IN_SOURCE if case_sensitive else _IN_ANY_CASE)


def prose_declarations(text: str) -> Iterator[Declaration]:
    """Find every FINAL and FINAL_VAR that stands alone in prose, outside fenced blocks, in order."""
    if not opens_in_prose(text):
        return
    blocks = iter(fences.find_fences(text))
    block = next(blocks, None)
    for declaration in _found(text, _IN_PROSE):
        while block and block.end <= declaration.start:
            block = next(blocks, None)
        is_fenced = block is not None and block.start <= declaration.start
        if not is_fenced and _ALONE.match(text, declaration.end):
            yield declaration


def _found(text: str, word: re.Pattern[str]) -> Iterator[Declaration]:
    words = word.finditer(text)
    first = next(words, None)
    if first is None:
        return
    brackets = Brackets(text)
    end = 0
    for match in [first, *words]:
        closing = brackets.closing(match.end()) if match.start(1) >= end else None
        if closing is not None:
            end = closing + 1
            kind: Literal["FINAL", "FINAL_VAR"] = "FINAL_VAR" if match[1].upper() == "FINAL_VAR" else "FINAL"
            yield Declaration(kind, text[match.end() : closing].strip(), match.start(1), end)


def opens_in_prose(prose: str) -> bool:
    """Return whether a FINAL is begun at the start of a line, its bracket closed or not."""
    return _IN_PROSE.search(prose) is not None


def declared_in_prose(prose: str) -> Declaration | None:
    """Return the answer that prose declares, FINAL_VAR before FINAL; `None` when there is none.

    It stands alone on its line, or lines, outside fenced blocks. In the middle of a sentence, with a sentence
    after it, in a quotation or a list, and without its closing bracket it doesn't count.
    """
    found = list(prose_declarations(prose))
    return next((d for d in found if d.kind == "FINAL_VAR"), found[0] if found else None)


def find_final_answer(text: str, environment: Environment | Callable[[str], Any] | None = None) -> str | None:
    r"""Return the answer that a reply declares with `FINAL(...)` or `FINAL_VAR(name)`, as text.

    For users: a run reads its replies by `parse` and `declared_in_prose`.

    Follows the protocol of the paper (arXiv 2512.24601, the system prompt in its appendix): the word stands
    at the start of a line, white space before it allowed; the brackets balance, and brackets within quotes
    don't count where the content begins with a quote; what is inside fenced blocks is code and not looked at.

    Stricter than the paper in two ways: nothing but punctuation may follow the closing bracket on its line
    (`FINAL(x) will be returned later` is a plan), and `FINAL()` holds no answer. Looser in two: `FINAL (x)` counts,
    and so does a declaration in emphasis or inline code, as in `**FINAL(42)**`.

    Parameters
    ----------
    text
        A model's reply.
    environment
        Where `FINAL_VAR(name)` is looked up: an `Environment`, or a function that takes a line of Python and
        returns what it printed (a text, or an object with a `stdout`).

    Returns
    -------
    str or None
        The content of FINAL as written, its quotes kept, white space around it taken off. FINAL_VAR is
        looked at first: it gives the value of the variable, or `None` when there is no environment or no
        such variable; it never falls back to a FINAL.

    Raises
    ------
    ConfigurationError
        `environment` can't run code.

    Examples
    --------
    >>> find_final_answer("Done.\nFINAL(42 (forty-two))")
    '42 (forty-two)'
    """
    declaration = declared_in_prose(text)
    if declaration is None:
        return None
    if declaration.kind == "FINAL":
        return declaration.content or None
    name = unquoted(declaration.content)
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return _printed(environment, name) if environment is not None and is_name else None


def literal_cell(declaration: Declaration, variables: Collection[str] = ()) -> str:
    """Return the source of the cell that a declaration in prose is made into.

    Parameters
    ----------
    declaration
        From `declared_in_prose`.
    variables
        Names that exist in the kernel: a FINAL of nothing but such a name is read as FINAL_VAR.

    Returns
    -------
    str
        `FINAL('text')`, so that `FINAL(2024-11-12)` is that text and not 2001; or `FINAL_VAR('name')`, or
        FINAL_VAR of an expression such as `FINAL_VAR(rows[0])`.
    """
    text = unquoted(declaration.content)
    if declaration.kind == "FINAL":
        return f"FINAL_VAR({text!r})" if text == declaration.content and text in variables else f"FINAL({text!r})"
    if not text:
        return "FINAL_VAR()"  # the kernel says what is missing
    if text.isidentifier() or text != declaration.content or (value := sources.expression(text)) is None:
        return f"FINAL_VAR({text!r})"
    text += "\n" if "#" in text else ""  # it may end with a comment
    return f"FINAL_VAR(({text}))" if isinstance(value, ast.Tuple) else f"FINAL_VAR({text})"


def mend_prose_final(source: str) -> str | None:
    """Mend source that is no Python because of `FINAL(the answer (in prose))`, so that it runs.

    The content of each such FINAL at the start of a line becomes a string literal. Those inside strings
    stay as they are, and a cell magic is not touched.

    Returns
    -------
    str or None
        The source to execute; `None` when there is nothing to mend, or when that doesn't mend it.
    """
    if source.lstrip().startswith("%%") or sources.tree(source) is not None:
        return None
    found = [d for d in declarations(source) if d.kind == "FINAL"]
    broken = [d for d in found if not sources.call_arguments(d.content)]
    # which of them are calls, and not text within a string, is only known once the source parses
    marks = [f"\ue000{index}\ue000" for index in range(len(broken))]
    module = sources.tree(_with_literals(source, broken, marks)) if broken else None
    if module is None:
        return None
    called = {
        node.args[0].value
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Constant)
    }
    calls = [declaration for declaration, mark in zip(broken, marks, strict=True) if mark in called]
    mended = _with_literals(source, calls, [unquoted(declaration.content) for declaration in calls])
    return mended if calls and sources.tree(mended) is not None else None


def bare_final(source: str) -> tuple[str, frozenset[str]] | None:
    """Read a cell that is nothing but `FINAL(Ann Arbor)` of words without their quotes, if they happen to be Python.

    `FINAL(Oslo)`, `FINAL(Oslo, Bergen)` and `FINAL(host-12)` are names to Python; so is a variable. To it,
    `FINAL(555-8123)` is a difference, and `FINAL(1,234)` two numbers.

    Returns
    -------
    tuple of str and frozenset of str, or None
        The content as text, and the names in it; `None`: it is no such cell, or a name in it is one of Python's own.
    """
    # most cells hold none, and are spared the reading
    module = sources.tree(source) if "FINAL" in source else None
    match module:
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Name(id="FINAL"), args=[_, *_], keywords=[]) as call)]):
            nodes = [node for argument in call.args for node in ast.walk(argument)]
        case _:
            return None
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    if not all(isinstance(node, _OF_WORDS) for node in nodes) or names & _PYTHONS_OWN:
        return None
    declaration = next(declarations(source), None)
    content = "" if declaration is None else declaration.content
    is_read_otherwise = names or any(isinstance(node, ast.BinOp) for node in nodes) or _THOUSANDS.fullmatch(content)
    return (content, names) if content and is_read_otherwise else None


def unquoted(content: str) -> str:
    """Return `content` without the quotes around the whole of it; a Python string literal becomes its value."""
    content = content.strip()
    if len(content) >= 2 and content[-1] in "\"'" and LITERAL.match(content):
        literal = sources.expression(content)
        if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
            return literal.value
        # several lines in plain quotes, or an apostrophe within single ones
        quote = re.match(r"\"{3}|'{3}|\"|'", content)
        if quote and len(content) >= 2 * len(quote[0]) and content.endswith(quote[0]):
            inner = content[len(quote[0]) : -len(quote[0])]
            if not re.search(rf"(?<!\\){quote[0]}", re.sub(r"(?<=\w)['’](?=\w)", "", inner)):
                return inner
    for left, right in _QUOTE_PAIRS:
        inner = content[1:-1]
        if len(content) >= 2 and content[0] == left and content[-1] == right and left not in inner:
            return inner if right not in re.sub(r"(?<=\w)’(?=\w)", "", inner) else content
    return content


def _with_literals(source: str, replaced: list[Declaration], texts: list[str]) -> str:
    pieces, position = [], 0
    for declaration, text in zip(replaced, texts, strict=True):
        pieces += [source[position : declaration.start], f"FINAL({text!r})"]
        position = declaration.end
    return "".join([*pieces, source[position:]])


def _printed(environment: Environment | Callable[[str], Any], name: str) -> str | None:
    if isinstance(environment, Environment):
        run: Callable[[str], Any] = environment.execute_code
    elif callable(environment):
        run = environment
    else:
        raise ConfigurationError(
            f"environment: {type(environment).__name__} can't run code; pass an object with "
            "execute_code(code), or a function that takes a line of Python and returns what it printed."
        )
    try:
        result = run(f"print({name})")
    except NameError:
        return None
    printed = result if isinstance(result, str) else getattr(result, "stdout", None)
    if not isinstance(printed, str) or not printed:
        return None
    return printed.removesuffix("\n")
