"""`iterations_behind`: in which iterations of a run's notebook its answer was computed."""

from __future__ import annotations

import ast

from rlm_jupyter.parsing.source import only_constant_final, tree
from rlm_jupyter.record.iteration import Iteration
from rlm_jupyter.record.trajectory import Trajectory

_DONE = {"ok", "error"}
_ENDS = {"FINAL", "FINAL_VAR", "SUBMIT"}
_LEAST_CHARS = 2
"""Of an answer that is looked for in outputs: a digit is in any."""


def iterations_behind(trajectory: Trajectory) -> list[int]:
    """Return the iterations that an answer comes from, in order.

    Of an answer that a cell computed: those whose cells made the variables that it was computed from, as the sources
    tell (a cell that changes a variable counts as one that makes it). Of one that the model typed: those whose outputs
    hold it, else all before it. Empty where there is no answer, or no cell gave it.
    """
    ended = trajectory.ended
    iterations = trajectory.iterations
    if ended is None or ended.answer is None or not iterations:
        return []
    last = next((one for one in iterations if one.index == ended.iteration), iterations[-1])
    before = [one for one in iterations if one.index < last.index]
    sources = [cell.code for cell in last.cells if cell.status in _DONE]
    if not sources or any(only_constant_final(source) for source in sources[-1:]):
        return [*_showing(before, ended.answer), last.index]
    return [*_making(before, sources), last.index]


def _showing(before: list[Iteration], answer: str) -> list[int]:
    """Return those whose outputs hold the answer, else all of them."""
    wanted = " ".join(answer.split()).casefold()
    found = [
        one.index for one in before if len(wanted) >= _LEAST_CHARS and wanted in " ".join(one.shown.split()).casefold()
    ]
    return found or [one.index for one in before]


def _making(before: list[Iteration], sources: list[str]) -> list[int]:
    """Return those that made what these sources use, and what that was made from."""
    used = set[str]().union(*map(_used, sources))
    found = []
    for one in reversed(before):
        for cell in reversed(one.cells):
            source = cell.code
            if cell.status in _DONE and _made(source) & used:
                used |= _used(source)
                found.append(one.index)
    return sorted(set(found))


def _used(source: str) -> set[str]:
    """Return the names that a source reads; of `FINAL_VAR("name")`, that name."""
    names: set[str] = set()
    for node in ast.walk(tree(source) or ast.Module([], [])):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                names.add(name)
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as variable)]) if name in _ENDS:
                names.add(variable)
    return names


def _made(source: str) -> set[str]:
    """Return the names that a source makes, or may change: what it stores in, and whose methods it calls."""
    names: set[str] = set()
    for node in ast.walk(tree(source) or ast.Module([], [])):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                names |= _owner(node)
            case ast.Expr(value=ast.Call(func=function)):
                names |= _owner(function)
    return names


def _owner(node: ast.AST) -> set[str]:
    """Return `results` of `results[0].found.append`; nothing of a name alone."""
    if isinstance(node, ast.Name):
        return set()
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
