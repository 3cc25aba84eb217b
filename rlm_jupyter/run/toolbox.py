"""`Toolbox`: the tools that a run is handed: looked up by name, described, never more than these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

from rlm_jupyter.policies.import_string import imported
from rlm_jupyter.run.tool import Approval, Tool
from rlm_jupyter.types.call_text import Call
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted


class HostTool(Protocol):
    """What a cell may call: a function of the user's (`Tool`), or a tool of a server (`mcp.tool.McpTool`)."""

    name: str
    repeatable: bool
    approval: Approval

    @property
    def spec(self) -> dict[str, Any]:
        """What the kernel and the record are told of it."""

    @property
    def source(self) -> str:
        """What it does, as it is written; empty where nobody here can know."""

    async def call(self, call: Call) -> str:
        """Call it, and return its result as JSON; raises `ToolFailedError`."""


class Toolbox:
    """Tools by their names.

    Parameters
    ----------
    tools
        In the order in which the model is told of them.
    specs
        Of tools that are only known from a record: they can be described, and not called.
    """

    def __init__(self, tools: Iterable[HostTool] = (), specs: Sequence[dict[str, Any]] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.specs: list[dict[str, Any]] = [*(tool.spec for tool in self._tools.values()), *specs]
        """What the kernel is told, each as `Tool.spec`."""

    @classmethod
    def of(cls, wanted: object, option: str = "tools") -> Self:
        """Return the tools of what a user gave: functions and `Tool`s.

        Raises
        ------
        ConfigurationError
            It is no list of these, or two have one name.
        """
        if isinstance(wanted, cls):
            return wanted
        if wanted is None:
            return cls()
        if isinstance(wanted, str | bytes | dict) or not isinstance(wanted, Iterable):
            raise ConfigurationError(f"{option} is a list of functions, not {quoted(wanted)}.")
        tools = [_as_tool(one) for one in wanted]
        names = [tool.name for tool in tools]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ConfigurationError(f"Two tools are called {twice[0]}: give one another name, Tool(…, name=…).")
        return cls(tools)

    def joined(self, tools: Iterable[HostTool]) -> Toolbox:
        """Return a toolbox with these tools, too."""
        return Toolbox([*self._tools.values(), *tools])

    def __bool__(self) -> bool:
        return bool(self.specs)

    def get(self, name: str | None) -> HostTool | None:
        """Return the tool of this name, if it was handed over and can be called."""
        return None if name is None else self._tools.get(name)

    @property
    def sources(self) -> list[str]:
        """What they do, as it is written."""
        return [tool.source for tool in self._tools.values() if tool.source]

    @property
    def asking(self) -> list[str]:
        """What those are called about whose calls a person is asked."""
        return [tool.name for tool in self._tools.values() if tool.approval != "never"]

    @property
    def names(self) -> list[str]:
        """What they are called."""
        return [spec["name"] for spec in self.specs]


def imported_tools(paths: Sequence[str] | None, option: str = "--tool") -> list[Tool] | None:
    """Return the functions that texts of the form `package.module:function` name; `None` where there are none.

    Raises
    ------
    ConfigurationError
        There is no such module or function; the option is named.
    """
    try:
        return [_as_tool(imported(path)) for path in paths] if paths else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{option} {error}") from error


def _as_tool(found: Any) -> Tool:
    return found if isinstance(found, Tool) else Tool(found)


Tools = Iterable[Tool | Callable[..., Any]]
"""What a user gives."""
