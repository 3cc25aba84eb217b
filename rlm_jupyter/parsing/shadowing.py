"""Stand-ins: what a cell defines though the session has it, as in `def FINAL(value): print(value)`.

Models have seen code in files, where nothing may be missing, and put something in place of what they were promised: a
function that returns its prompt, `FINAL = None`, a `context` with the few lines of it that they have seen. Executed, it
hides the real one from the rest of the cell, whose result is then made up.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

from rlm_jupyter.parsing import source as sources
from rlm_jupyter.parsing.final import mend_prose_final

_FUNCTIONS = frozenset(
    f"{prefix}{kind}_query{suffix}" for prefix in ("", "a") for kind in ("llm", "rlm") for suffix in ("", "_batched")
) | {"FINAL", "FINAL_VAR", "SUBMIT", "SHOW_VARS", "SEARCH"}
_CONTEXT = "context"
_MAY_BE = re.compile(rf"\b(?:{'|'.join(_FUNCTIONS)}|{_CONTEXT})\s*(?:[=:(])")


def mend_cell(source: str, *, has_context: bool = True) -> str | None:
    """Mend a cell that would not do what it says: a prose FINAL is made to run, stand-ins are left out.

    Parameters
    ----------
    source
        As the model wrote it.
    has_context
        Whether `context` holds anything; else it is the model's to set.

    Returns
    -------
    str or None
        The source to execute; `None`: the cell as it is.
    """
    if (mended := mend_prose_final(source)) is not None:
        return mended
    less = without_shadowing(source, has_context=has_context)
    return None if less == source else less


def shadowed_names(source: str, *, has_context: bool = True) -> tuple[str, ...]:
    """Return the names that a cell puts a stand-in for, in their order; see `without_shadowing`."""
    return tuple(dict.fromkeys(name for name, _ in _found(source, has_context)))


def without_shadowing(source: str, *, has_context: bool = True) -> str:
    """Return the cell less its stand-ins, a comment in place of each; the other lines keep their numbers.

    Left out are statements of the cell itself, in lines of their own, that define one of our functions or give it a
    value, or that give `context` a constant, where there is one. One whose name the cell reads before, or in that
    statement, stays: it makes something of the real one. So does everything in a cell with lines that only IPython
    understands.
    """
    lines = source.split("\n")
    for name, statement in _found(source, has_context):
        first, last = _rows(statement)
        lines[first - 1 : last] = [f"# {name} is there already", *[""] * (last - first)]
    return "\n".join(lines)


def _found(source: str, has_context: bool) -> Iterator[tuple[str, ast.stmt]]:
    # most cells have none, and are spared the reading; to Python, a lone \r ends a line, too
    if not _MAY_BE.search(source) or "\r" in source:
        return
    module = sources.python(source)
    if module is None:
        return
    rows = [(0, 0), *(_rows(statement) for statement in module.body), (sys.maxsize, sys.maxsize)]
    read: set[str] = set()
    for statement, before, own, after in zip(module.body, rows, rows[1:], rows[2:], strict=False):
        names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        reads = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        name = _given(statement, has_context)
        has_lines_of_its_own = before[1] < own[0] and own[1] < after[0]
        if name is not None and name not in read | reads and has_lines_of_its_own:
            yield name, statement
        else:
            read |= reads


def _given(statement: ast.stmt, has_context: bool) -> str | None:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name if name in _FUNCTIONS else None
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            is_one = name in _FUNCTIONS or (has_context and name == _CONTEXT and isinstance(value, ast.Constant))
            return name if is_one else None
    return None


def _rows(statement: ast.stmt) -> tuple[int, int]:
    """Return its first and its last line, from 1."""
    decorators: Iterable[ast.expr] = getattr(statement, "decorator_list", ())
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first, statement.end_lineno or statement.lineno
