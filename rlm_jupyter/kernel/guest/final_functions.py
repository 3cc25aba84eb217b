"""`Finals`: what FINAL, FINAL_VAR and SUBMIT declare.

FINAL *declares*: it does not raise, so nothing can swallow it; the value becomes text at that moment, so
later changes don't count; the first call wins. It counts only when it was called by a cell of this run:
the nearest frame that is no library's must be compiled from a cell that the host sent. So helpers,
aliases, loops and threads count, and a document that is executed as a string doesn't.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from rlm_jupyter.kernel.guest import values
from rlm_jupyter.types.quoted import quoted

_MISSING: Any = object()
_NONE = values.Text("null", "null", "NoneType")
_NAMES = frozenset({"FINAL", "FINAL_VAR", "SUBMIT"})
_EVALUATES = ("pandas.core.computation",)
"""Packages that execute a text without compiling it: what they call, the text called."""


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
    announce
        Lets the host fetch the answer; returns when it has, so that nothing after it can lose the answer.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        is_cell: Callable[[str], bool],
        source: Callable[[], str],
        names: Callable[[], list[str]],
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        self._namespace = namespace
        self._is_cell = is_cell
        self._source = source
        self._names = names
        self._announce = announce
        self._declaring = threading.RLock()
        """The first call is the first to get here, however long its value takes to become text."""
        self._is_rendering = False
        """An answer is turned into text: the value's own `__str__`, or a signal's handler, may call FINAL."""
        self.takes_none = False
        """Whether `None` is an answer: a type was asked for that has it."""
        self.confidence: float | None = None
        self.answer: values.Text | None = None
        self.problem = ""
        self.notices: list[str] = []
        self._made: tuple[Callable[..., None], ...] = ()

    def reset(self) -> None:
        """Forget the answer: a new prompt begins."""
        self.answer, self.confidence, self.problem, self.notices = None, None, "", []

    def functions(self) -> dict[str, Any]:
        """Return FINAL and its kin, by name."""

        def FINAL(*values: object, confidence: object = None, **fields: object) -> None:  # noqa: N802
            """End the run with this value as the answer: FINAL(value), or FINAL(value, confidence=0.9)."""
            if len(values) != 1 or fields:
                raise TypeError(f"FINAL takes one value, not {len(values) + len(fields)} or by name: FINAL(answer)")
            self._declare(values[0], "FINAL", confidence)

        def FINAL_VAR(  # noqa: N802
            name: object = _MISSING, *, value: object = _MISSING, confidence: object = None
        ) -> None:
            """End the run with the content of this variable as the answer: FINAL_VAR(name)."""
            if value is not _MISSING:
                self._declare(value, "FINAL_VAR", confidence)
            elif name is _MISSING:
                raise TypeError("FINAL_VAR takes the name of a variable: FINAL_VAR(result)")
            elif not isinstance(name, str):
                self._declare(name, "FINAL_VAR", confidence)
            elif name in self._namespace:
                self._declare(self._namespace[name], "FINAL_VAR", confidence)
            else:
                listing = ", ".join(self._names()) or "none yet"
                raise NameError(f"FINAL_VAR: there is no variable {quoted(name)}. Variables: {listing}")

        def SUBMIT(*values: object, **fields: object) -> None:  # noqa: N802
            """End the run with this value, or these fields, as the answer."""
            if fields and not values:
                value = next(iter(fields.values())) if len(fields) == 1 else fields
            elif len(values) == 1 and not fields:
                value = values[0]
            else:
                raise TypeError("SUBMIT takes one value, or fields by name: SUBMIT(answer)")
            self._declare(value, "SUBMIT")

        self._made = (FINAL, FINAL_VAR, SUBMIT)
        return {"FINAL": FINAL, "FINAL_VAR": FINAL_VAR, "SUBMIT": SUBMIT}

    def _declare(self, value: object, name: str, confidence: object = None) -> None:
        if not self._called_by_a_cell():
            self._notice(
                f"{name} was called by code that is not a cell of yours (a text that was executed): it did not count."
            )
            return
        with self._declaring:
            if self.answer is not None or self._is_rendering:
                self._notice(f"{name} was called again; the first answer stands.")
                return
            self._is_rendering = True
            try:
                answer = _NONE if value is None and self.takes_none else values.as_text(value)
                if not answer.text.strip():
                    raise TypeError("the text is empty; pass the answer itself, or say in words that there is none")
            except TypeError as error:
                self.problem = f"{name}: {error}."
                raise TypeError(self.problem) from None
            finally:
                self._is_rendering = False
            self.problem = ""
            # before the answer: with that, it is fetched
            self.confidence = as_share(confidence)
            self.answer = answer
        if confidence is not None and self.confidence is None:
            self._notice(f"{name}: confidence is a number from 0 to 1; what you gave was left out.")
        self._announce()

    def _notice(self, text: str) -> None:
        if text not in self.notices:  # a loop calls a thousand times
            self.notices.append(text)

    def _called_by_a_cell(self) -> bool:
        # of whoever called FINAL: below it stand FINAL, `_declare`, and this; a helper between them changes the 3
        frame: FrameType | None = sys._getframe(3)
        outermost, is_direct = frame, True
        while frame is not None:
            if self._is_cell(frame.f_code.co_filename):
                return is_direct or self._passes_it_on(frame)
            if not _is_library(frame):
                return False
            is_direct, outermost, frame = False, frame, frame.f_back
        # Thread(target=FINAL, args=…): only library code stands below it
        return outermost is not None and outermost.f_code.co_name == "_bootstrap" and self._knows(self._named())

    def _passes_it_on(self, frame: FrameType) -> bool:
        """Return whether a cell's frame can have handed FINAL to the library that calls it: it names or holds it."""
        code = frame.f_code
        if frame.f_locals is self._namespace:
            return self._knows(self._named())  # each statement of a cell is compiled by itself
        held = [frame.f_locals.get(name) for name in code.co_varnames + code.co_freevars + code.co_cellvars]
        return self._knows(code.co_names) or any(value in self._made for value in held if callable(value))

    def _named(self) -> Iterable[str]:
        """Return the names in the running cell, outside of its strings."""
        try:
            module = ast.parse(self._source())
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return re.findall(r"\w+", self._source())  # a magic is in it
        return {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}

    def _knows(self, names: Iterable[str]) -> bool:
        return any(self._namespace.get(name) is function for name in names for function in self._made)


def as_share(value: object) -> float | None:
    """Return a number from 0 to 1 as a float; `None` for anything else. Runs none of the model's code."""
    # numpy's float64 is a float; a subclass of the model's own could run its code
    share = float.__float__(value) if isinstance(value, float) else float(value) if type(value) is int else None
    return share if share is not None and 0 <= share <= 1 else None


def _is_library(frame: FrameType) -> bool:
    """Return whether a frame runs a loaded module's own code: a text that was executed has other globals.

    A library is given FINAL and calls it by another name; a script or module that says FINAL is a document.
    """
    if frame.f_code.co_filename.startswith("<") and not frame.f_code.co_filename.startswith("<frozen "):
        return False  # a text, executed by a library
    if not _NAMES.isdisjoint(frame.f_code.co_names):
        return False
    name = frame.f_globals.get("__name__")
    if isinstance(name, str) and name.startswith(_EVALUATES):
        return False
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
            and all(keyword.arg == "confidence" for keyword in node.keywords)
        ):
            argument = node.args[0]
            if not isinstance(argument, ast.Constant | ast.Starred):
                keyword = ast.copy_location(ast.keyword(arg="value", value=argument), argument)
                return ast.copy_location(ast.Call(func=node.func, args=[], keywords=[keyword, *node.keywords]), node)
        return node
