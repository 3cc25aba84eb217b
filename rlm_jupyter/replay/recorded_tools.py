"""The tools that a saved run had: described by its record, which holds neither functions nor servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_jupyter.run.mcp.config import servers_of
from rlm_jupyter.run.toolbox import Toolbox
from rlm_jupyter.types.errors import ConfigurationError

_OPTIONS = ("tools", "sub_tools")


def check_given(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to resume a run without the tools and servers that it had.

    Parameters
    ----------
    recorded
        The options in its record.
    given
        The options that it is resumed with.

    Raises
    ------
    ConfigurationError
        One is missing.
    """
    for option in _OPTIONS:
        had = [spec["name"] for spec in recorded.get(option, ()) if "." not in spec["name"]]
        if missing := [name for name in had if name not in Toolbox.of(given.get(option), option).names]:
            what = f"This run had the {option} {', '.join(missing)}, give them again"
            flag = f"--{option.replace('_', '-').removesuffix('s')}"
            raise ConfigurationError(
                f"{what}: {option}=[…]", notebook=f"{what}: {flag} NAME", command=f"{what}: {flag} MODULE:FUNCTION"
            )
    names = [server.name for server in servers_of(given.get("mcp"))]
    if missing := [name for name in recorded.get("mcp", ()) if name not in names]:
        what = f"This run had the MCP servers {', '.join(missing)}, give them again"
        raise ConfigurationError(
            f"{what}: mcp={{…}}", notebook=f"{what}: --mcp FILE or NAME", command=f"{what}: --mcp FILE or NAME"
        )


def described(recorded: Mapping[str, Any]) -> dict[str, Toolbox]:
    """Return its tools and those of its children, by option; they can be described, and not called."""
    return {option: Toolbox(specs=recorded.get(option, [])) for option in _OPTIONS}
