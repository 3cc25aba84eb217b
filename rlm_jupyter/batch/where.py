"""`Where`: a condition on the columns of a row, such as `score >= 1 and stop_reason == "answered"`.

It is read by Python's own parser, of which a few forms are taken: comparisons of columns and plain values, `in`, `and`,
`or`, `not`. Nothing is evaluated as Python.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

_EXAMPLE = 'such as: score >= 1 and stop_reason == "answered"'
_MOST_CHARS = 2_000
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Where:
    """A condition that rows may meet.

    Parameters
    ----------
    text
        Columns are named as they are; fields of an object with a dot, `answer.total`.

    Raises
    ------
    ConfigurationError
        It is no such condition.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: list[str] = []
        """The columns that it names, in order."""
        try:
            if len(text) > _MOST_CHARS:
                raise ValueError(f"it has more than {_MOST_CHARS:,} characters")
            self._tree = ast.parse(text.strip(), mode="eval").body
            self._check(self._tree)
        except SyntaxError as error:
            raise ConfigurationError(f"--where {quoted(text)} is no condition on columns, {_EXAMPLE}.") from error
        except ValueError as error:
            raise ConfigurationError(f"--where {quoted(text)}: {error}; {_EXAMPLE}.") from error
        except (RecursionError, MemoryError) as error:
            raise ConfigurationError(f"--where {quoted(text)} is nested too deeply.") from error

    def check(self, columns: Collection[str]) -> None:
        """Refuse a column that no row has.

        Raises
        ------
        ConfigurationError
            It names one.
        """
        for name in self.columns:
            if name not in columns and name.partition(".")[0] not in columns:
                hint = " (scores come of --expected, given to the same batch again)" if name == "score" else ""
                raise ConfigurationError(
                    f"--where names {name}, which is no column{hint}: there are {', '.join(columns)}."
                )

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row meets it; what can't be compared does not."""
        return self._holds(self._tree, row)

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.BoolOp(values=values):
                for value in values:
                    self._check(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._check(operand)
            case ast.Compare(left=left, comparators=others):
                for value in (left, *others):
                    self._check_value(value)
            case _:
                raise ValueError(f"{ast.unparse(node)} compares nothing")

    def _check_value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple | ast.List):
            for value in node.elts:
                self._check_value(value)
        elif (name := _column(node)) is not None:
            self.columns.append(name)
        elif not _is_plain(node):
            raise ValueError(f"{ast.unparse(node)} is neither a column nor a plain value")

    def _holds(self, node: ast.expr, row: Mapping[str, Any]) -> bool:
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                return all(self._holds(value, row) for value in values)
            case ast.BoolOp(values=values):
                return any(self._holds(value, row) for value in values)
            case ast.UnaryOp(operand=operand):
                return not self._holds(operand, row)
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [_value(one, row) for one in (left, *others)]
                return all(map(_compare, ops, values, values[1:]))
        raise AssertionError(ast.dump(node))


def _column(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = _column(value)
            return None if before is None else f"{before}.{attribute}"
    return None


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return isinstance(node, ast.Constant) and type(node.value) in {int, float}
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None)


def _value(node: ast.expr, row: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Tuple | ast.List):
        return [_value(value, row) for value in node.elts]
    if (name := _column(node)) is None:
        return ast.literal_eval(node)
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = _object(value).get(part)
    return value


def _object(value: Any) -> Mapping[str, Any]:
    """Return the object that a value is; in CSV and Parquet one is JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    match op:
        case ast.Eq() | ast.Is():
            return _equal(left, right)
        case ast.NotEq() | ast.IsNot():
            return not _equal(left, right)
        case ast.In():
            return _contains(right, left)
        case ast.NotIn():
            return not _contains(right, left)
    left, right = _alike(left, right)
    try:
        return left is not None and right is not None and bool(_ORDERS[type(op)](left, right))
    except TypeError:
        return False


def _equal(left: Any, right: Any) -> bool:
    left, right = _alike(left, right)
    return bool(left == right)


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    return isinstance(whole, list | tuple) and any(_equal(one, part) for one in whole)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Return the two as values of one kind: in CSV, numbers and truth values are texts."""
    if isinstance(left, str) and isinstance(right, int | float):
        return _read(left, right), right
    if isinstance(right, str) and isinstance(left, int | float):
        return left, _read(right, left)
    return left, right


def _read(text: str, like: float) -> Any:
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    try:
        return float(text)
    except ValueError:
        return text
