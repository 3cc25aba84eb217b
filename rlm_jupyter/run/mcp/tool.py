"""`McpTool`: a tool of a server, as cells call it: `github.search_issues("label:bug")`."""

from __future__ import annotations

import asyncio
import json
import keyword
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rlm_jupyter.run.mcp.config import ServerConfig
from rlm_jupyter.run.tool import MOST_CHARS, Approval, ToolFailedError, shown
from rlm_jupyter.types.call_text import Call
from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.json_schema import JsonSchema

Request = Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
"""Makes a request of a server's client; raises `ToolFailedError` where the server has ended, or refuses."""
CALL_SECONDS = 120.0
"""How long a call may take."""
_REASON_CHARS = 1_000
_DOC_CHARS = 4_000
_TYPE_CHARS = 60
_MOST_RESOURCES = 1_000


class McpTool:
    """A tool of a server.

    Parameters
    ----------
    server
        Which server it is of.
    request
        Makes a request of the server.
    remote
        Its name there.
    name
        Its name in the module.
    doc
        What it does.
    schema
        Of its arguments, a JSON schema.
    """

    repeatable = False
    source = ""

    def __init__(
        self, server: ServerConfig, request: Request, remote: str, name: str, doc: str, schema: Mapping[str, Any]
    ) -> None:
        self._request = request
        self.remote = remote
        """Its name on the server."""
        self.approval = server.approval(remote)
        self.name = f"{server.module}.{name}"
        properties, required = schema.get("properties") or {}, schema.get("required") or []
        # those that have to be given come first, as they do in Python
        names = sorted(filter(_is_name, properties), key=lambda key: key not in required)
        others = [key for key in properties if key not in names]
        self._names = names
        self._required = frozenset(required)
        self._schema = schema
        parameters: list[list[str | None]] = [
            [
                key,
                "POSITIONAL_OR_KEYWORD",
                None if key in required else shown(_default(properties[key])),
                _type(properties[key]),
            ]
            for key in names
        ]
        if others or schema.get("additionalProperties"):
            parameters.append([_unlike("more", names), "VAR_KEYWORD", None, ""])
        said = [f"{key}: {text}" for key in names if (text := _description(properties[key]))]
        said += [f"**{{{key!r}: {_type(properties[key])}}}: {_description(properties[key])}" for key in others]
        self.spec: dict[str, Any] = {
            "name": self.name,
            "doc": "\n\n".join(filter(None, [doc.strip(), "\n".join(said)]))[:_DOC_CHARS],
            "parameters": parameters,
            "returns": "",
        } | _server(server)

    async def call(self, call: Call) -> str:
        """Have the server call it, and return its result as JSON.

        Raises
        ------
        ToolFailedError
            The server is gone, took too long, or says that the call failed.
        """
        given_arguments = dict(zip(self._names, call.positional, strict=False)) | call.named
        # Python's way to leave an argument out, where the server knows no null
        arguments = {key: value for key, value in given_arguments.items() if value is not None or self._needs(key)}
        try:
            async with asyncio.timeout(CALL_SECONDS):
                result = await self._request(lambda client: client.call_tool(self.remote, arguments))
        except TimeoutError:
            raise ToolFailedError(f"{self.name} took more than {CALL_SECONDS:g} s") from None
        text = "\n".join(_text(block) for block in result.content)
        if result.is_error:
            raise ToolFailedError(f"{self.name}: {text[:_REASON_CHARS] or 'it failed'}")
        given = result.structured_content
        if isinstance(given, dict) and [*given] == ["result"]:  # how servers wrap what is no object
            given = given["result"]
        written = json.dumps(text if given is None else given, ensure_ascii=False)
        if len(written) > MOST_CHARS:
            raise ToolFailedError(
                f"the result of {self.name} takes {len(written):,} characters, {MOST_CHARS:,} are the most"
            )
        return written

    def _needs(self, key: str) -> bool:
        """Return whether `None` is an argument, and not one that is left out."""
        part = (self._schema.get("properties") or {}).get(key)
        if key in self._required or not isinstance(part, Mapping):
            return True
        shared = {name: self._schema[name] for name in ("$defs", "definitions") if name in self._schema}
        try:
            return not JsonSchema({**part, **shared}).errors(None)
        except ValueError:
            return True


class McpResources:
    """A function on the resources of a server: `list_resources()` or `read_resource(uri)`."""

    repeatable = False
    source = ""
    approval: Approval = "never"

    def __init__(self, server: ServerConfig, request: Request, name: str, doc: str, parameters: Sequence[str]) -> None:
        self._request = request
        self._reads = bool(parameters)
        self.name = f"{server.module}.{name}"
        kind = "POSITIONAL_OR_KEYWORD"
        self.spec: dict[str, Any] = {
            "name": self.name,
            "doc": doc,
            "parameters": [[parameter, kind, None, "str"] for parameter in parameters],
            "returns": "str" if parameters else "list[dict]",
        } | _server(server)

    async def call(self, call: Call) -> str:
        """Return a resource's text, or what resources there are, as JSON.

        Raises
        ------
        ToolFailedError
            The server is gone, took too long, or has no such resource.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                if not self._reads:
                    return json.dumps(await self._request(_listed), ensure_ascii=False)
                [uri] = [*call.positional, *call.named.values()]
                read = await self._request(lambda client: client.read_resource(str(uri)))
        except TimeoutError:
            raise ToolFailedError(f"{self.name} took more than {CALL_SECONDS:g} s") from None
        except ValueError:
            raise ToolFailedError(f"{self.name} takes one text, the uri") from None
        text = "\n".join(getattr(one, "text", None) or "[data that is no text]" for one in read.contents)
        if len(text) > MOST_CHARS:
            raise ToolFailedError(f"{uri} has {len(text):,} characters, {MOST_CHARS:,} are the most")
        return json.dumps(text, ensure_ascii=False)


def _server(server: ServerConfig) -> dict[str, str]:
    """Return what a spec says of the server, where its module is called otherwise."""
    return {} if server.name == server.module else {"server": server.name}


async def _listed(client: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < _MOST_RESOURCES:
        page = await client.list_resources(cursor=cursor)
        found += [{"uri": str(one.uri), "name": one.name, "about": one.description} for one in page.resources]
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _is_name(key: str) -> bool:
    """Return whether a parameter of Python's can be called so; `from` can't."""
    return key.isidentifier() and not keyword.iskeyword(key)


def _unlike(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


def _text(block: Any) -> str:
    """Return a piece of a result as text; of what is none, what it is."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and (text := getattr(block.resource, "text", None)) is not None:
        return str(text)
    kind = getattr(block, "mime_type", None) or getattr(block, "uri", "")
    return f"[{block.type}{f', {kind}' if kind else ''}: no text]"


def _type(schema: object) -> str:
    """Return what a parameter takes, in a few words."""
    if not isinstance(schema, Mapping):
        return ""
    text = form({key: value for key, value in schema.items() if key not in {"description", "title", "default"}})
    text = " ".join(text.split())
    return text if len(text) <= _TYPE_CHARS else "dict" if text.startswith("{") else "list"


def _default(schema: object) -> Any:
    return schema.get("default") if isinstance(schema, Mapping) else None


def _description(schema: object) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return " ".join(text.split()) if isinstance(text, str) else ""
