"""`Tool`: a function of the host that cells may call."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import json
import keyword
import re
from collections.abc import Callable
from typing import Any, Literal, cast, get_args

from rlm_jupyter.run.tool_arguments import checking, converting
from rlm_jupyter.run.tool_forms import bare, form_of, resolved
from rlm_jupyter.types.call_text import Call
from rlm_jupyter.types.detached import detached
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.function_source import source_of
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.quoted import quoted

MOST_CHARS = 1_000_000
"""Of a call, and of its result, as JSON."""
_REASON_CHARS = 1_000
_DOC_CHARS = 4_000
_RESERVED = re.compile(
    r"context(_\d+)?|history(_\d+)?|answer|trajectory|OUTPUTS|output_\d+|confidence|FINAL|FINAL_VAR|SHOW_VARS|SHOW_TOOLS|SEARCH|a?(llm|rlm)_query"
    r"(_batched)?|SubcallError|SubcallFailure|In|Out|exit|quit|get_ipython|display|_\w*"
)


Approval = Literal["never", "once", "always"]
"""When a person is asked about the calls of a tool."""


class ToolFailedError(Exception):
    """A call has no result; the text, which the cell is shown, says why."""


@names_keywords()
class Tool:
    """A function that the model's code may call; it runs where the run is started, not in the kernel.

    Parameters
    ----------
    function
        Sync or async. Arguments and results are plain data (JSON): what its annotations say is made of the arguments
        (pydantic), dataclasses, models and dates in its result become plain data. A sync function is called in a
        thread, several at a time if the model's code does so.
    name
        What it is called in the kernel. Default: its own name.
    seconds
        How long a call may take. A sync function can't be ended: the cell is told, the thread goes on.
        Default: 60; `None`: no limit.
    repeatable
        When recorded cells are executed again (`resume`, `fork`), it is called again. Default: its recorded results
        are used, and nothing is done a second time.
    approval
        Whether a person is asked about a call before it is made: `"always"`, `"once"` (of each run, until one is
        allowed) or `"never"`. Recorded results are used without asking.

    Raises
    ------
    ConfigurationError
        It is no function, or its name can't be one in the kernel, or an argument can't be that.
    """

    def __init__(
        self,
        function: object,
        *,
        name: str | None = None,
        seconds: float | None = 60.0,
        repeatable: bool = False,
        approval: Approval = "never",
    ) -> None:
        if not callable(function) or inspect.isclass(function):
            # neither its content nor its repr: a text that is named by mistake is as long as a context
            what = (
                f"the class {function.__name__}"
                if inspect.isclass(function)
                else f"a value of type {type(function).__name__}"
            )
            raise ConfigurationError(f"A tool is a function, not {what}.")
        self.name = check_name(getattr(function, "__name__", "") if name is None else name, function)
        if not _is_duration(seconds):
            raise ConfigurationError(f"Tool(…, seconds={quoted(seconds)}): a number above zero is needed, or None.")
        self.seconds = seconds
        self.repeatable = bool(repeatable)
        self.approval = check_approval(approval, "Tool(…, approval=")
        self._function: Callable[..., Any] = function
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  whether an object's call is a coroutine function
        )

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """What the kernel and the record are told: `name`, `doc`, `parameters` (`None`: unknown) and `returns`.

        `forms`, where there are any: of parameters and of the result (`""`) whose types have fields.
        """
        doc = inspect.getdoc(self._function) or ""
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):  # some of those that are written in C tell none
            return {"name": self.name, "doc": doc[:_DOC_CHARS], "parameters": None, "returns": ""}
        parameters = [
            [
                one.name,
                one.kind.name,
                None if one.default is inspect.Parameter.empty else shown(one.default),
                self._type(one.annotation),
            ]
            for one in signature.parameters.values()
        ]
        returns = self._type(signature.return_annotation)
        spec = {"name": self.name, "doc": doc[:_DOC_CHARS], "parameters": parameters, "returns": returns}
        annotated = [(one.name, one.annotation) for one in signature.parameters.values()]
        annotated.append(("", signature.return_annotation))
        named = [[name, form_of(resolved(self._function, annotation))] for name, annotation in annotated]
        forms = [one for one in named if one[1]]
        return spec | ({"forms": forms} if forms else {})

    @property
    def source(self) -> str:
        """What the function does, as it is written."""
        return source_of(self._function)

    async def call(self, call: Call) -> str:
        """Call the function, and return its result as JSON.

        Raises
        ------
        ToolFailedError
            The arguments are wrong, it raised, took too long, or its result is no plain data.
        """
        try:
            async with asyncio.timeout(self.seconds):
                result = await self._called(call)
        except TimeoutError as error:
            if self.seconds is not None and not str(error):
                more = "" if self._is_async else "; it may still be at work"
                raise ToolFailedError(f"{self.name} took more than {self.seconds:g} s{more}") from None
            raise ToolFailedError(self._said(error)) from None
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  the function's, whatever it was
            raise ToolFailedError(self._said(error)) from None
        return self._written(result)

    def check(self, call: Call) -> None:
        """Check the arguments of a call that a person is to be asked about.

        Raises
        ------
        ToolFailedError
            They are wrong.
        """
        try:
            self._checks(*call.positional, **call.named)
        except Exception as error:  # noqa: BLE001  a validator of the user's may raise anything
            raise ToolFailedError(self._said(error)) from None

    async def _called(self, call: Call) -> Any:
        if self._is_async:
            return await self._checked(*call.positional, **call.named)
        function = functools.partial(self._checked, *call.positional, **call.named)
        return await detached(function, f"rlm-tool-{self.name}")

    @functools.cached_property
    def _checks(self) -> Callable[..., Any]:
        return checking(self._function)

    @functools.cached_property
    def _checked(self) -> Callable[..., Any]:
        return converting(self._function)

    def _type(self, annotation: object) -> str:
        """Return an annotation as its module's own code would write it; empty for none."""
        if annotation is inspect.Parameter.empty:
            return ""
        if (without := bare(found := resolved(self._function, annotation))) is not found:
            annotation = without
        module = getattr(self._function, "__module__", None) or ""
        return re.sub(rf"\b(?:{re.escape(module)}|__main__|typing|collections\.abc)\.", "", _formatted(annotation))

    def _said(self, error: BaseException) -> str:
        """Return what went wrong, in short: of wrong arguments, each in a few words."""
        errors = getattr(error, "errors", None)
        if type(error).__name__ != "ValidationError" or not callable(errors):
            return f"{type(error).__name__}: {error}"[:_REASON_CHARS]
        names = [parameter[0] for parameter in self.spec["parameters"] or ()]
        reasons = []
        for one in errors()[:5]:
            first, *rest = one["loc"] or ("",)
            if isinstance(first, int) and first < len(names):  # given without its name
                first = names[first]
            reasons.append(f"{'.'.join(map(str, (first, *rest)))}: {one['msg']}")
        return f"wrong arguments: {'; '.join(reasons)}"[:_REASON_CHARS]

    def _written(self, result: Any) -> str:
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            text = json.dumps(to_jsonable_python(result, inf_nan_mode="constants"), ensure_ascii=False)
        except (PydanticSerializationError, TypeError, ValueError, RecursionError):
            raise ToolFailedError(
                f"{self.name} gave {type(result).__name__}, which is no plain data: it has to return text, numbers, "
                "lists, dicts, dataclasses or pydantic models"
            ) from None
        if len(text) > MOST_CHARS:
            raise ToolFailedError(
                f"the result of {self.name} takes {len(text):,} characters, {MOST_CHARS:,} are the most: ask for less"
            )
        return text


def _is_duration(seconds: object) -> bool:
    return seconds is None or (isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0)


def check_name(name: str, function: object) -> str:
    """Return a name that a tool can have in a kernel.

    Raises
    ------
    ConfigurationError
        It can't.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigurationError(
            f"The tool {quoted(function)} needs a name that can be called in Python: Tool(…, name='search')."
        )
    if is_taken(name):
        raise ConfigurationError(f"A tool can't be called {name}: the kernel has that name already. Tool(…, name=…).")
    return name


def check_approval(given: object, what: str) -> Approval:
    """Return when a person is asked, as it was given; `what` is what stands before it in the error.

    Raises
    ------
    ConfigurationError
        It is something else.
    """
    if given not in get_args(Approval):
        raise ConfigurationError(f"{what}{quoted(given)}{')' if '(' in what else ''}: it is never, once or always.")
    return cast(Approval, given)


def is_taken(name: str) -> bool:
    """Return whether a kernel has a name already."""
    return _RESERVED.fullmatch(name) is not None or hasattr(builtins, name)


def shown(default: object) -> str:
    """Return what the model sees of a default: `...` where that is long, or a place in memory."""
    text = repr(default)
    return text if len(text) <= 40 and "0x" not in text else "..."


def _formatted(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
