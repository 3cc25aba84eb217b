"""Another agent: the `mcp` package's own client, over real standard streams, before `jupyter rlm mcp`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, ListRootsResult, Root, TextContent

from tests.support.loopback import Loopback

SERVER = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", "mcp"]
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
"""The newest protocol, and the one with a handshake before it."""


class SilentError(Exception):
    """A client has given a call up: nothing was heard for too long."""


@dataclass
class Agent:
    """What calls tools, and keeps what it was told meanwhile."""

    client: Client
    heard: list[tuple[float, str]] = field(default_factory=list)
    """When, in seconds since the call, and what."""

    async def call(self, tool: str, /, *, patience: float | None = None, **arguments: Any) -> CallToolResult:
        """Call a tool; after so many seconds of silence, give it up."""
        began = last = time.monotonic()
        self.heard.clear()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            nonlocal last
            last = time.monotonic()
            self.heard.append((last - began, message or ""))

        call = asyncio.create_task(self.client.call_tool(tool, arguments, progress_callback=hear))
        try:
            while not call.done():
                await asyncio.wait({call}, timeout=0.05)
                if patience is not None and not call.done() and time.monotonic() - last > patience:
                    raise SilentError
        finally:
            call.cancel()
        return call.result()

    async def ask(self, question: str = "What?", **arguments: Any) -> dict[str, Any]:
        """Ask, and return what came of it as data."""
        result = await self.call("ask", question=question, **arguments)
        assert not result.is_error, text(result)
        found: dict[str, Any] = result.structured_content
        return found


def text(result: CallToolResult) -> str:
    """Return what a model reads of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def agent(*options: str, roots: Iterable[Path] | None = None, mode: Mode = "auto") -> AsyncIterator[Agent]:
    """Start the server in the working directory, and connect; the errors of the server are in `errors.txt`."""
    listed = None if roots is None else [Root(uri=path.as_uri()) for path in roots]  # type: ignore[arg-type]

    async def roots_of(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=listed or [])

    program, *arguments = SERVER
    parameters = StdioServerParameters(
        command=program, args=[*arguments, *options], cwd=Path.cwd(), env=dict(os.environ)
    )
    with Path("errors.txt").open("w", encoding="utf-8") as errors:
        streams = stdio_client(parameters, errlog=errors)
        async with Client(streams, mode=mode, list_roots_callback=None if roots is None else roots_of) as client:
            yield Agent(client)


def endless(seconds: float = 0.2) -> Callable[[Any], str]:
    """Replies of a model that works on and on, a cell of so many seconds each."""
    number = itertools.count()

    def reply(_messages: Any) -> str:
        return f"```repl\nimport time\ntime.sleep({seconds})\nfound_{next(number)} = {time.monotonic()}\n```"

    return reply


def served(server: Loopback) -> list[str]:
    """Return the options with which the loopback server is the model."""
    os.environ["OPENAI_API_KEY"] = "sk-loopback"
    return ["-m", "openai/any", "--base-url", server.openai_url]


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.02)


def lines_of_protocol(out: bytes) -> list[dict[str, Any]]:
    """Return the messages in what a server has written; fails at anything else."""
    found = [json.loads(line) for line in out.decode().splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in found)
    return found
