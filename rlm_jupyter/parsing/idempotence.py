"""Whether a cell, executed again, can come to anything else: what goes in circles from what gets on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlm_jupyter.parsing.source import python

_SAME = (
    "abs all any bool bytes chr dict divmod enumerate filter float format frozenset int isinstance len list map max "
    "min ord pow print range repr reversed round set slice sorted str sum tuple type zip "
    "AttributeError Exception IndexError KeyError TypeError ValueError StopIteration"
)
"""Builtins that give the same for the same."""
_SAME_MODULES = "bisect collections csv functools heapq itertools json math operator re string"
_IMPORTED = "re math collections itertools Counter defaultdict"
"""What another cell may have imported, and nobody calls a variable."""
_CONTEXT = "context"
_CHANGERS = "add append clear discard extend insert pop popitem remove reverse setdefault sort update"
_WITH_STATE = (ast.ClassDef, ast.AsyncFunctionDef, ast.Await, ast.Delete, ast.Global, ast.Nonlocal, ast.NamedExpr)
_BLOCKS = (ast.For, ast.FunctionDef, ast.If, ast.Try, ast.While, ast.With)


def is_settled(source: str) -> bool:
    """Return whether a cell that has succeeded must come to the same when it is executed again.

    `True` only for plain Python that reads nothing but `context`, which it leaves as it is, what it has set before, and
    builtins and modules that know neither chance nor time.
    """
    module = python(source)
    if module is None:
        return False
    known = {*_SAME.split(), *_IMPORTED.split(), _CONTEXT}
    for statement in module.body:
        if any(_has_state(node) for node in ast.walk(statement)) or not set(_read(statement)) <= known:
            return False
        known |= set(_set(statement))
    return True


def _has_state(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] not in _SAME_MODULES.split() for alias in names)
        case ast.ImportFrom(module=module):
            return (module or "").partition(".")[0] not in _SAME_MODULES.split()
        case ast.Call(func=ast.Attribute(attr=method, value=value)) if method in _CHANGERS.split():
            return _CONTEXT in _roots(value)
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return _CONTEXT in _roots(node)
    return isinstance(node, _WITH_STATE)


def _read(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement reads and does not bring along itself."""
    inside = set(_set(statement)) if isinstance(statement, _BLOCKS) else set(_bound_inside(statement))
    for node in ast.walk(statement):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)) if not isinstance(statement, ast.FunctionDef):
                yield name
            case ast.Name(id=name, ctx=ast.Load()) if name not in inside:
                yield name


def _set(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement sets, in it or for those after it."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.ExceptHandler(name=str() as name):
                yield name
            case ast.alias(name=name, asname=other):
                yield (other or name).partition(".")[0]


def _bound_inside(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of a line's own comprehensions and lambdas."""
    for node in ast.walk(statement):
        if isinstance(node, ast.comprehension):
            yield from (name.id for name in ast.walk(node.target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.arg):
            yield node.arg


def may_advance(source: str) -> bool:
    """Return whether a cell may do something else each time though it shows the same: count on, take the next.

    `False` only where its syntax rules that out, as far as names and methods of the usual kind go. What the cell itself
    begins anew, as in `total = 0`, it may count and fill as it likes.
    """
    module = python(source)
    if module is None:
        return True
    fresh: set[str] = set()
    for statement in module.body:
        if any(_advances(node, fresh) for node in ast.walk(statement)):
            return True
        if isinstance(statement, ast.Assign):
            names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
            fresh = fresh | names if _is_new(statement.value) else fresh - names
    return False


_TAKERS = {"pop", "popleft", "read", "readline", "readlines", "get_nowait"}
_MAKERS = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set", "str", "int", "float"}


def _is_new(value: ast.expr) -> bool:
    """Return whether this makes an object each time, or is a constant."""
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _MAKERS
    return made or isinstance(
        value, ast.Constant | ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    )


def _roots(target: ast.expr) -> set[str]:
    """Return the names of what an assignment changes: `words` in `words[word]`."""
    match target:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript(value=value) | ast.Attribute(value=value) | ast.Starred(value=value):
            return _roots(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            return {name for one in targets for name in _roots(one)}
    return set()


def _advances(node: ast.AST, fresh: set[str]) -> bool:
    match node:
        case ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
            return name not in fresh
        case ast.Assign(targets=targets, value=value):
            # `context` itself is put back after each cell
            own = [target for target in targets if not (isinstance(target, ast.Name) and target.id == "context")]
            taken = {name for target in own for name in _roots(target)} - fresh
            return any(isinstance(name, ast.Name) and name.id in taken for name in ast.walk(value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value))):
            return not _is_one_of(fresh, value)  # x.append(y)
        case ast.Call(func=ast.Name(id="next" | "input" | "exec" | "eval")):
            return True
        case ast.Call(func=ast.Attribute(attr=taker, value=value)):
            return taker in _TAKERS and not _is_one_of(fresh, value)
    return isinstance(node, ast.AugAssign | ast.NamedExpr | ast.Delete | ast.Await | ast.Yield | ast.Global)


def _is_one_of(names: set[str], value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in names
