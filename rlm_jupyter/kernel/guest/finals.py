"""`Finals`: what FINAL, FINAL_VAR and SUBMIT record.

FINAL *records*: it does not raise, so nothing can swallow it; the value becomes text at that moment, so
later changes don't count; the first call wins. It counts only when it was called by a cell of this run:
the nearest frame that is no library's must be compiled from a cell that the host sent. So helpers,
aliases, loops and threads count, and a document that is executed as a string doesn't.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from rlm_jupyter.kernel.guest import values

_MISSING: Any = object()
_TIMED = ("<timed exec>", "<timed eval>")
"""What `%time` and `%%time` name the source that they were given."""
_TIMES = re.compile(r"^\s*%%?time\b", re.MULTILINE)
"""A cell with such a line: then that source is part of the cell, and no document handed to the magic."""


class Finals:
    """Records one answer.

    Parameters
    ----------
    namespace
        The kernel's `user_ns`.
    is_cell
        Whether a code object's file name is a cell that the host sent.
    source
        That of the running cell.
    names
        The model's own variables, for error texts.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        is_cell: Callable[[str], bool],
        source: Callable[[], str],
        names: Callable[[], list[str]],
    ) -> None:
        self._namespace = namespace
        self._is_cell = is_cell
        self._source = source
        self._names = names
        self.answer: values.Text | None = None
        self.problem = ""
        self.notices: list[str] = []

    def reset(self) -> None:
        """Forget the answer: a new prompt begins."""
        self.answer, self.problem, self.notices = None, "", []

    def functions(self) -> dict[str, Any]:
        """FINAL and its kin, by name."""

        def FINAL(*values: object) -> None:  # noqa: N802
            """End the run with this value as the answer: FINAL(value)."""
            if len(values) != 1:
                raise TypeError(f"FINAL takes one value, not {len(values)}: FINAL(answer)")
            self._record(values[0], "FINAL")

        def FINAL_VAR(name: object = _MISSING, *, value: object = _MISSING) -> None:  # noqa: N802
            """End the run with the content of this variable as the answer: FINAL_VAR(name)."""
            if value is not _MISSING:
                self._record(value, "FINAL_VAR")
            elif name is _MISSING:
                raise TypeError("FINAL_VAR takes the name of a variable: FINAL_VAR(result)")
            elif not isinstance(name, str):
                self._record(name, "FINAL_VAR")
            elif name in self._namespace:
                self._record(self._namespace[name], "FINAL_VAR")
            else:
                listing = ", ".join(self._names()) or "none yet"
                raise NameError(f"FINAL_VAR: there is no variable {name!r}. Variables: {listing}")

        def SUBMIT(*values: object, **fields: object) -> None:  # noqa: N802
            """End the run with this value, or these fields, as the answer."""
            if fields and not values:
                value = next(iter(fields.values())) if len(fields) == 1 else fields
            elif len(values) == 1 and not fields:
                value = values[0]
            else:
                raise TypeError("SUBMIT takes one value, or fields by name: SUBMIT(answer)")
            self._record(value, "SUBMIT")

        return {"FINAL": FINAL, "FINAL_VAR": FINAL_VAR, "SUBMIT": SUBMIT}

    def _record(self, value: object, name: str) -> None:
        if not self._called_by_a_cell():
            self.notices.append(
                f"{name} was called by code that is not a cell of yours (a text that was executed): it did not count."
            )
            return
        if self.answer is not None:
            self.notices.append(f"{name} was called again; the first answer stands.")
            return
        try:
            self.answer = values.as_text(value)
        except TypeError as error:
            self.problem = f"{name}: {error}."
            raise TypeError(self.problem) from None
        self.problem = ""

    def _called_by_a_cell(self) -> bool:
        frame: FrameType | None = sys._getframe(3)
        outermost = frame
        while frame is not None:
            name = frame.f_code.co_filename
            if self._is_cell(name) or (name in _TIMED and _TIMES.search(self._source())):
                return True
            if not _is_library(frame):
                return False
            outermost, frame = frame, frame.f_back
        # Thread(target=FINAL, args=…): only library code stands below it
        return outermost is not None and outermost.f_code.co_name == "_bootstrap"


def _is_library(frame: FrameType) -> bool:
    """Whether a frame runs a loaded module's own code: a text that was executed has other globals."""
    if frame.f_code.co_filename.startswith("<") and not frame.f_code.co_filename.startswith("<frozen "):
        return False  # a text, executed by a library
    name = frame.f_globals.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
    return module is not None and getattr(module, "__dict__", None) is frame.f_globals


class NamedFinals(ast.NodeTransformer):
    """Makes `FINAL_VAR(x)` mean the variable `x`, whatever text it holds.

    Only a literal stays a name: `FINAL_VAR(result)` with `result = "B"` must not look for a variable `B`.
    """

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Turn the argument of FINAL_VAR into `value=`, unless it is a string literal."""
        self.generic_visit(node)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "FINAL_VAR"
            and len(node.args) == 1
            and not node.keywords
        ):
            argument = node.args[0]
            if not isinstance(argument, ast.Constant | ast.Starred):
                keyword = ast.copy_location(ast.keyword(arg="value", value=argument), argument)
                return ast.copy_location(ast.Call(func=node.func, args=[], keywords=[keyword]), node)
        return node
