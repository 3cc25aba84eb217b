"""What the source of a cell says: read as Python, with the lines that only IPython understands."""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings

_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*")
_PYTHON_CELL_MAGICS = {"capture", "prun", "time", "timeit"}
"""The cell magics whose body is Python that runs in the same namespace."""
_IPYTHON_LINE = re.compile(
    r"^([^\S\n]*)(?:[%!?](?:[^\\\n]|\\.)*|[\w.*\[\]]+\?\??[^\S\n]*)$"
    r"|^([\w., \t\[\]]+=[ \t]*)[%!](?:[^\\\n]|\\.)*$",
    re.MULTILINE | re.DOTALL,
)
"""`%magic`, `!command`, `?help`, `help?`; and `name = %magic`, `name = !command`."""
_NO_CODE = (ast.Import, ast.ImportFrom, ast.Pass)
_warnings_lock = threading.Lock()

_INNER_SPACE = re.compile(r"(?<=\S)[ \t]+")


_FINALS = frozenset({"FINAL", "SUBMIT", "FINAL_VAR"})


def tree(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell's source; `None` when it is no Python, IPython's additions allowed.

    A line that only IPython understands is read as `pass`, and a cell magic with a body that isn't Python
    (`%%bash`) as an empty cell.
    """
    magic = _CELL_MAGIC.match(source)
    if magic:
        if magic[1] not in _PYTHON_CELL_MAGICS:
            return ast.Module([], [])
        source = source[magic.end() :]
    return python(source) or python(_IPYTHON_LINE.sub(_placeholder, textwrap.dedent(source)))


def normal(source: str) -> str:
    """Normalize a cell's source: without white space and comments, so equal for two that do the same."""
    module = python(source)
    if module is not None:
        return ast.dump(module)
    # no Python, or IPython's: indentation may be the very thing that was mended
    lines = (_INNER_SPACE.sub(" ", line.rstrip()) for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def expression(source: str) -> ast.expr | None:
    """Return the syntax tree of one expression; `None` when it is none."""
    # a line of its own for the bracket: the source may end with a comment
    module = python(f"({source}\n)")
    if module and len(module.body) == 1 and isinstance(module.body[0], ast.Expr):
        return module.body[0].value
    return None


def call_arguments(source: str) -> bool:
    """Return whether `source` can stand between the brackets of a call."""
    return python(f"_({source}\n)") is not None


def declares_ready(source: str) -> bool:
    """Return whether a cell sets `answer["ready"]` to a literal `True`.

    Item assignment, `update`, `|=`, `setdefault` and rebinding count, wherever they stand in the cell.
    `"False"`, `1`, a variable and whatever a document says don't: a document that was read into `answer`
    must not end a run.
    """
    # most cells say nothing of it, and are spared the reading
    if "ready" not in source or "answer" not in source:
        return False
    module = tree(source)
    return module is not None and any(_sets_ready(node) for node in ast.walk(module))


def only_constant_final(source: str) -> bool:
    """Return whether a cell is nothing but `FINAL` (or `SUBMIT`) of a literal: an answer computed nowhere."""
    module = tree(source)
    if module is None:
        return False
    finals = 0
    for statement in module.body:
        if not isinstance(statement, ast.Expr):
            return False
        value = statement.value
        if isinstance(value, ast.Constant):
            continue
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
            return False
        arguments = _answers(value)
        if value.func.id not in {"FINAL", "SUBMIT"} or not all(map(_is_literal, arguments)):
            return False
        finals += 1
    return finals > 0


def is_literal(source: str) -> bool:
    """Return whether a cell is nothing but a literal: it does nothing, and shows what was typed."""
    value = expression(source)
    return value is not None and _is_literal(value)


def types_text(source: str, text: str) -> bool:
    """Return whether a cell holds this text as a literal."""
    module = tree(source)
    nodes = () if module is None else ast.walk(module)
    return any(isinstance(node, ast.Constant) and node.value == text for node in nodes)


def is_no_code(source: str) -> bool:
    """Return whether a block does nothing: it can't be read, or is nothing but a literal."""
    return tree(source) is None or is_literal(source)


def constant_final(source: str) -> str | None:
    """Return the text of a cell's first FINAL or SUBMIT, where that is a literal and no branch or function holds it."""
    module = tree(source)
    for statement in module.body if module is not None else ():
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Name(id="FINAL" | "FINAL_VAR" | "SUBMIT" as name)) as call):
                arguments = _answers(call)
                return _literal_text(arguments[0]) if len(arguments) == 1 and name != "FINAL_VAR" else None
    return None


def types_final(source: str) -> bool:
    """Return whether a cell has code, and answers with a literal beside it: it can have read no output of that."""
    module = tree(source)
    if module is None or constant_final(source) is None:
        return False
    return any(not isinstance(one, _NO_CODE) and not _is_final(one) for one in module.body)


def _is_final(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="FINAL" | "FINAL_VAR" | "SUBMIT"))):
            return True
    return False


def only_final(source: str) -> bool:
    """Return whether a cell does nothing but declare an answer that is there already: a name, or a literal."""
    module = tree(source)
    if module is None or not module.body:
        return False
    for statement in module.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
            return False
        given = [*value.args, *(keyword.value for keyword in value.keywords)]
        if value.func.id not in _FINALS or not all(isinstance(one, ast.Name) or _is_literal(one) for one in given):
            return False
    return True


def _answers(call: ast.Call) -> list[ast.expr]:
    """Return what a FINAL is given as the answer: how sure the model is of it is no part of that."""
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "confidence")]


def _literal_text(node: ast.expr) -> str | None:
    """Return what the kernel would make of a literal; `None` is no answer, nor is `...`."""
    if not _is_literal(node):
        return None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    value = ast.literal_eval(node)
    return None if value is None or value is ... else str(value)


def named_final(source: str) -> str | None:
    """Return the variable that a cell answers with which is nothing but FINAL or FINAL_VAR of a name."""
    module = tree(source)
    match module:
        case ast.Module(
            body=[
                ast.Expr(value=ast.Call(func=ast.Name(id="FINAL" | "FINAL_VAR" | "SUBMIT"), args=[ast.Name(id=name)]))
            ]
        ):
            return name
        case ast.Module(
            body=[ast.Expr(value=ast.Call(func=ast.Name(id="FINAL_VAR"), args=[ast.Constant(value=str() as name)]))]
        ):
            return name
    return None


def python(source: str) -> ast.Module | None:
    """Return the syntax tree of plain Python; `None` when it is none."""
    if not source.isascii():
        # Python refuses lone surrogates; inside a string, which is where they occur, any character will do
        source = source.encode("utf-8", "replace").decode()
    try:
        # an invalid escape in a model's string is the model's affair, not a warning to the user.
        # The filters are global: without the lock, two threads could leave them changed for good
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _placeholder(line: re.Match[str]) -> str:
    return f"{line[1]}pass" if line[1] is not None else f"{line[2]}None"


def _sets_ready(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=targets, value=value):
            return any(_assigns_ready(target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _assigns_ready(target, value)
        case (
            ast.AugAssign(target=ast.Name(id="answer"), op=ast.BitOr(), value=value)
            | ast.NamedExpr(target=ast.Name(id="answer"), value=value)
        ):
            return _holds_ready(value)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="answer"), attr=method), args=args, keywords=keywords):
            return _call_sets_ready(method, args, keywords)
    return False


def _call_sets_ready(method: str, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    if method == "update":
        return any(map(_holds_ready, args)) or any(map(_is_ready_keyword, keywords))
    return method in {"setdefault", "__setitem__"} and _is_ready_pair(ast.Tuple(args, ast.Load()))


def _assigns_ready(target: ast.expr, value: ast.expr) -> bool:
    match target, value:
        case ast.Subscript(value=ast.Name(id="answer"), slice=ast.Constant(value="ready")), _:
            return _is_true(value)
        case ast.Name(id="answer"), _:
            return _holds_ready(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(elts=values):
            return any(map(_assigns_ready, targets, values))
    return False


def _holds_ready(value: ast.expr) -> bool:
    """Return whether this makes a mapping in which a literal `True` stands for `ready`."""
    match value:
        case ast.Dict(keys=keys, values=values):
            return any(
                (isinstance(key, ast.Constant) and key.value == "ready" and _is_true(item))
                or (key is None and _holds_ready(item))
                for key, item in zip(keys, values, strict=True)
            )
        case ast.Call(func=ast.Name(id="dict"), args=args, keywords=keywords):
            return any(map(_is_ready_keyword, keywords)) or any(map(_holds_ready, args))
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _holds_ready(left) or _holds_ready(right)
        case ast.List(elts=pairs) | ast.Tuple(elts=pairs):
            return any(_is_ready_pair(pair) for pair in pairs)
    return False


def _is_ready_pair(pair: ast.expr) -> bool:
    match pair:
        case ast.Tuple(elts=[ast.Constant(value="ready"), value]) | ast.List(elts=[ast.Constant(value="ready"), value]):
            return _is_true(value)
    return False


def _is_ready_keyword(keyword: ast.keyword) -> bool:
    return (keyword.arg == "ready" and _is_true(keyword.value)) or (keyword.arg is None and _holds_ready(keyword.value))


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in node.values)
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True
