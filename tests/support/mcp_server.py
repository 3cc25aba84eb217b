"""A server of the Model Context Protocol, made with its own SDK: `python -m tests.support.mcp_server [http PORT]`."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

server = MCPServer("things")


class Thing(BaseModel):
    name: str
    size: int


@server.tool()
def search_things(query: str, limit: int = 2) -> list[Thing]:
    """Search the things.

    Largest first.
    """
    return [Thing(name=f"{query} {i}", size=9 - i) for i in range(limit)]


@server.tool(name="get-secret")
def get_secret(name: str) -> str:
    """Tell what the server's environment has."""
    return os.environ.get(name, "nothing")


def between(**given: int) -> int:
    """Count."""
    return given["more"] - given["from"]


# the SDK calls a function by the aliases of its parameters, and Python has none that is called `from`
_FROM = Annotated[int, Field(alias="from", description="the first")]
_KIND = inspect.Parameter.KEYWORD_ONLY
between.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("more", _KIND, annotation=int), inspect.Parameter("start", _KIND, annotation=_FROM)],
    return_annotation=int,
)
server.add_tool(between)


@server.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool()
def leave() -> str:
    """End the server."""
    os._exit(3)


@server.resource("things://all")
def everything() -> str:
    """All things, as text."""
    return "a thing, another thing"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        print("here is the server", file=sys.stderr)
        server.run()
