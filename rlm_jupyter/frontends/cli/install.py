"""`install`: what an agent's configuration says to start this server: printed, or put beside what is in its file."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.errors import ConfigurationError

NAME = "rlm"
"""What the server is called there."""
_PATIENCE_SECONDS = 3600
"""How long a call may take, where that can be configured."""
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Client:
    """An agent, and the form of its configuration."""

    title: str
    file: Callable[[], Path]
    """Where it is: of the project in the working directory, or of the user."""
    key: str
    """Under which servers stand in it."""
    variable: str
    """How a value of the environment is named there; empty: by its name in `env_vars`."""
    more: Mapping[str, Any]
    """What else it is told of a server."""
    is_patient: bool = False
    """A call may take as long as `_PATIENCE_SECONDS`."""


def _codex() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


CLIENTS: Mapping[str, Client] = {
    "claude": Client("Claude Code", lambda: Path(".mcp.json"), "mcpServers", "${NAME}", {}, is_patient=True),
    "codex": Client(
        "Codex",
        _codex,
        "mcp_servers",
        "",
        {"startup_timeout_sec": _START_SECONDS, "tool_timeout_sec": _PATIENCE_SECONDS},
        is_patient=True,
    ),
    "cursor": Client("Cursor", lambda: Path(".cursor/mcp.json"), "mcpServers", "${env:NAME}", {}),
    "gemini": Client(
        "Gemini CLI",
        lambda: Path(".gemini/settings.json"),
        "mcpServers",
        "$NAME",
        {"timeout": _PATIENCE_SECONDS * 1000},
        is_patient=True,
    ),
    "vscode": Client("VS Code", lambda: Path(".vscode/mcp.json"), "servers", "${env:NAME}", {"type": "stdio"}),
}
"""Agents by their names on the command line."""


def install(name: str, arguments: Sequence[str], keys: Sequence[str], *, merge: bool) -> None:
    """Print what the configuration has to say, or put it in.

    Parameters
    ----------
    arguments
        Of `jupyter rlm`, from `mcp` on.
    keys
        Names of variables of this environment, which the server needs; their values are written nowhere.
    merge
        Write it into the file; what else is there stays as it is.

    Raises
    ------
    ConfigurationError
        The file can't be merged with: it is left as it was.
    """
    client = CLIENTS[name]
    file = client.file()
    server = _server(client, arguments, keys)
    text = _as_toml(client, server) if file.suffix == ".toml" else json.dumps({client.key: {NAME: server}}, indent=2)
    if not merge:
        terminal.say(f"For {client.title}, in {file} (--merge puts it there):")
        terminal.write(text)
        return
    from rlm_jupyter.record import atomic

    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        after = _merged_toml(client, file, before, text) if file.suffix == ".toml" else ""
        after = after or _merged_json(client, file, before, server)
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.replace(file, [after.encode()])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is left as it is: {error}. Without --merge, it is printed.") from None
    terminal.write(f"{file}: {client.title} can start the server {NAME}.")


def _server(client: Client, arguments: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    program = Path(sys.executable).with_name("jupyter-rlm")
    command = [str(program)] if program.exists() else [sys.executable, "-P", "-m", "rlm_jupyter.frontends.cli.main"]
    patience = ["--wait", str(_PATIENCE_SECONDS - 60)] if client.is_patient and "--wait" not in arguments else []
    found: dict[str, Any] = {"command": command[0], "args": [*command[1:], *arguments, *patience]}
    if keys and client.variable:
        found["env"] = {key: client.variable.replace("NAME", key) for key in keys}
    elif keys:
        found["env_vars"] = [*keys]
    return found | dict(client.more)


def _as_toml(client: Client, server: Mapping[str, Any]) -> str:
    # a JSON text, list or whole number is one of TOML, too
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in server.items()]
    return "\n".join([f"[{client.key}.{NAME}]", *lines])


def _merged_toml(client: Client, file: Path, before: str, text: str) -> str:
    """Return a file with a table more at its end; all before it is as it was, comments too."""
    try:
        servers = tomllib.loads(before).get(client.key, {})
        _refuse_twice(file, servers)
        after = f"{before.rstrip()}\n\n{text}\n" if before.strip() else f"{text}\n"
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise _not_merged(file, f"its TOML can't be added to ({error})") from None
    return after


def _merged_json(client: Client, file: Path, before: str, server: Mapping[str, Any]) -> str:
    try:
        found = json.loads(before) if before.strip() else {}
    except ValueError as error:  # as with comments, which would be lost
        raise _not_merged(file, f"it is no plain JSON ({error})") from None
    servers = found.setdefault(client.key, {}) if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        raise _not_merged(file, f"it has another form than {{{json.dumps(client.key)}: {{…}}}}")
    _refuse_twice(file, servers)
    servers[NAME] = server
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _refuse_twice(file: Path, servers: object) -> None:
    if not isinstance(servers, dict):
        raise _not_merged(file, "its servers are no table")
    if NAME in servers:
        raise _not_merged(file, f"it has a server {NAME} already")


def _not_merged(file: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"{file} is left as it is: {why}. Without --merge, what to add is printed.")
