"""A server of the Model Context Protocol, made with its own SDK: `python -m tests.support.mcp_server [http PORT]`."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

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
