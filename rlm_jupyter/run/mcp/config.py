"""`ServerConfig`: how a server of the Model Context Protocol is started, or reached."""

from __future__ import annotations

import hashlib
import json
import keyword
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlm_jupyter.run.tool import Approval, check_approval, is_taken
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

FILE = ".mcp.json"
"""Holds the servers that are named, under `mcpServers`; of the working directory, else of the home directory."""
_KEYS = {"command", "args", "env", "cwd", "url", "headers", "type", "description", "disabled", "approval"}
_COMMAND_TYPES = ("stdio",)
_URL_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http")
"""What clients call streamable HTTP in their files."""
OTHERS = "*"
"""In `approval`: all tools that are not named."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server: a command that speaks over its standard streams, or an address (streamable HTTP)."""

    name: str
    """As the user has named it."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside a few usual variables; nothing else of this process's environment is passed on."""
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    """Whether a person is asked about calls, by the names of the server's tools; `*`: of all others."""

    def approval(self, tool: str) -> Approval:
        """Return whether a person is asked about calls of a tool, by its name on the server."""
        return self.approvals.get(tool, self.approvals.get(OTHERS, "never"))

    @property
    def asking(self) -> str:
        """Which of its tools ask a person about calls, to begin a sentence with; empty: none."""
        names = [name for name, approval in self.approvals.items() if approval != "never"]
        if not names:
            return ""
        if OTHERS in names:
            return f"The MCP server {self.name}"
        return f"The tool {' or '.join(names)} of the MCP server {self.name}"

    @property
    def module(self) -> str:
        """What its module is called in the kernel: `my_tickets` for `my-tickets`, `mcp_os` for `os`."""
        name = re.sub(r"\W", "_", self.name)
        # of Python's own modules the model's code may import one, and would have lost this
        is_taken = name in sys.stdlib_module_names or not name.isidentifier() or keyword.iskeyword(name)
        return f"mcp_{name}" if is_taken else name

    @property
    def address(self) -> str:
        """Where it is, without what may be secret: its program, or its address without a query."""
        if not self.url:
            return self.command[0]
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def digest(self) -> str:
        """Digest which server it is, without its secrets."""
        return hashlib.sha256(repr((self.name, self.command, self.url)).encode()).hexdigest()


def servers_of(given: object) -> tuple[ServerConfig, ...]:
    """Return the servers of what a user gave.

    Parameters
    ----------
    given
        By name: a command line, a list of its words, an address, or a dict as in the usual configuration files
        (`command`, `args`, `env`, `cwd`; or `url`, `headers`), with `approval` for all its tools or by their names
        (`*` for all others). With `mcpServers` around them, as there, those that are `disabled` are left out. What a
        name has that is none in Python is `_` in the kernel. `None`: none.

    Raises
    ------
    ConfigurationError
        It is something else.
    """
    if given is None:
        return ()
    if isinstance(given, Mapping) and [*given] == ["mcpServers"]:  # as the configuration files have them
        given = given["mcpServers"]
        if isinstance(given, Mapping):
            given = {name: wanted for name, wanted in given.items() if not _is_disabled(wanted)}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"mcp is a dict of servers by their names, not {quoted(given)}.")
    servers = tuple(_server(str(name), wanted) for name, wanted in given.items())
    modules: dict[str, str] = {}
    for server in servers:
        _check_module(server)
        if (other := modules.setdefault(server.module, server.name)) != server.name:
            raise ConfigurationError(
                f"The MCP servers {quoted(other)} and {quoted(server.name)} would both be the module {server.module} "
                "in the kernel: rename one."
            )
    return servers


def named_servers(names: Sequence[str] | None) -> dict[str, Any] | None:
    """Return what the configuration file says of the servers of these names; `None` where none are named.

    Raises
    ------
    ConfigurationError
        There is no file, or no such server in it.
    """
    if not names:
        return None
    paths = [folder / FILE for folder in (Path.cwd(), Path.home())]
    known: dict[str, Any] = {}
    found = [path for path in paths if path.is_file()]
    for path in reversed(found):
        known |= _read(path)
    if not found:
        raise ConfigurationError(f"--mcp names a server of {FILE}: there is none here, nor in your home directory.")
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"{' and '.join(map(str, found))} {'knows' if len(found) == 1 else 'know'} no server {quoted(name)}. "
                f"Known: {', '.join(known) or 'none'}."
            )
    return {name: known[name] for name in names}


def _is_disabled(wanted: object) -> bool:
    return isinstance(wanted, Mapping) and wanted.get("disabled") is True


def _check_module(server: ServerConfig) -> None:
    """Refuse a name that nothing can be called by in the kernel."""
    if not server.name.strip():
        raise ConfigurationError("mcp: each server needs a name.")
    if is_taken(server.module):
        raise ConfigurationError(
            f"The MCP server {server.name} can't be called so: the kernel has the name {server.module} already. "
            "Rename it."
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        servers = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} can't be read: {error}.") from None
    except (KeyError, TypeError):
        raise ConfigurationError(f'{path} needs the form {{"mcpServers": {{"name": {{"command": …}}}}}}.') from None
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{path}: mcpServers is an object of servers by their names.")
    return servers


def _server(name: str, wanted: object) -> ServerConfig:
    if isinstance(wanted, str) and wanted.startswith(("http://", "https://")):
        return ServerConfig(name, url=wanted)
    if isinstance(wanted, str):
        try:
            words = shlex.split(wanted)
        except ValueError as error:
            raise ConfigurationError(f"The MCP server {name}: {quoted(wanted)} is no command: {error}.") from None
        wanted = {"command": words[0], "args": words[1:]} if words else {}
    elif isinstance(wanted, list | tuple) and all(isinstance(word, str) for word in wanted):
        wanted = {"command": wanted[0], "args": [*wanted[1:]]} if wanted else {}
    if isinstance(wanted, Mapping) and (unknown := [str(key) for key in wanted if key not in _KEYS]):
        raise ConfigurationError(
            f"The MCP server {name}: what is {', '.join(unknown)}? Known: {', '.join(sorted(_KEYS))}."
        )
    if not isinstance(wanted, Mapping) or not (_is_text(wanted.get("command")) or _is_text(wanted.get("url"))):
        raise ConfigurationError(f"The MCP server {name} needs a command or a url.")
    if _is_disabled(wanted):
        raise ConfigurationError(f'The MCP server {name} is disabled: take its "disabled" out.')
    _check_type(name, wanted)
    args = wanted.get("args", [])
    if not isinstance(args, list | tuple) or not all(isinstance(word, str) for word in args):
        raise ConfigurationError(f"The MCP server {name}: args is a list of texts.")
    approvals = _approvals(name, wanted.get("approval", {}))
    if url := wanted.get("url"):
        if not _expanded(name, url).startswith(("http://", "https://")):
            raise ConfigurationError(f"The MCP server {name}: its url begins with http:// or https://.")
        headers = _texts(name, wanted, "headers")
        return ServerConfig(name, url=_expanded(name, url), headers=headers, approvals=approvals)
    command = tuple(_expanded(name, word) for word in (wanted["command"], *args))
    cwd = wanted.get("cwd")
    env, folder = _texts(name, wanted, "env"), None if cwd is None else str(cwd)
    return ServerConfig(name, command, env, folder, approvals=approvals)


def _check_type(name: str, wanted: Mapping[str, Any]) -> None:
    """Refuse a server that is to be started and to be reached, or in a way that is not known."""
    has_command = _is_text(wanted.get("command"))
    if has_command and _is_text(wanted.get("url")):
        raise ConfigurationError(f"The MCP server {name} has a command and a url: leave one of them out.")
    kinds = _COMMAND_TYPES if has_command else _URL_TYPES
    if wanted.get("type") not in (None, *kinds):
        raise ConfigurationError(
            f"The MCP server {name}: its type is {' or '.join(kinds)}, or left out, not {quoted(wanted['type'])}."
        )


def _approvals(name: str, wanted: object) -> dict[str, Approval]:
    by_tool = wanted if isinstance(wanted, Mapping) else {OTHERS: wanted}
    return {str(tool): check_approval(given, f"The MCP server {name}: approval=") for tool, given in by_tool.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(name: str, wanted: Mapping[str, Any], key: str) -> dict[str, str]:
    found = wanted.get(key) or {}
    if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
        raise ConfigurationError(f"The MCP server {name}: {key} is an object of texts.")
    return {str(one): _expanded(name, value) for one, value in found.items()}


def _expanded(name: str, text: str) -> str:
    """Put in what `${VARIABLE}` and `${VARIABLE:-default}` stand for."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise ConfigurationError(f"The MCP server {name} needs {match[1]} in the environment.")
        return found

    return _VARIABLE.sub(value, text)
