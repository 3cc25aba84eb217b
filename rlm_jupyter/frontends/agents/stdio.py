"""`serve`: the tools as a server of the Model Context Protocol over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.agents import roots
from rlm_jupyter.frontends.agents.service import Service
from rlm_jupyter.frontends.agents.tool_reply import ToolReply
from rlm_jupyter.frontends.agents.tools import INSTRUCTIONS, AgentTool
from rlm_jupyter.run import background
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult, ListToolsResult

_ROOTS = "roots"
"""The question for the client's roots, in protocols where the answer comes with the call's next try."""
_ROOTS_SECONDS = 10.0
_CLOSE_SECONDS = 1.5
"""How long runs have to write down their end: a client waits for two seconds, then kills."""
_INTERRUPTED = 130


class StdioServer:
    """The server, for one client.

    Parameters
    ----------
    service
        Does what is asked for.
    owner_roots
        The folders in which files may be named, where the owner has named some.
    """

    def __init__(self, service: Service, owner_roots: tuple[Path, ...] | None) -> None:
        self._service, self._owner_roots = service, owner_roots

    async def run(self) -> None:
        """Serve until the client goes away; then, nothing goes on any more."""
        from mcp.server.lowlevel import Server
        from mcp.server.stdio import stdio_server

        server: Any = Server(
            "rlm_jupyter",
            version=version("rlm_jupyter"),
            title="rlm_jupyter",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def _list(self, _context: ServerRequestContext[Any], _params: object) -> ListToolsResult:
        from mcp_types import ListToolsResult

        return ListToolsResult(tools=[_described(tool) for tool in self._service.tools])

    async def _call(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        began = time.monotonic()

        async def tell(words: str) -> None:
            await context.session.report_progress(round(time.monotonic() - began, 6), message=_sendable(words))

        arguments = params.arguments or {}
        folders: tuple[Path, ...] = ()
        if params.name == "ask" and arguments.get("paths"):
            client = await self._client_roots(context, params)
            if client is not None and not isinstance(client, tuple):
                return client
            folders = roots.allowed(self._owner_roots, client)
        return _result(await self._service.call(params.name, arguments, folders, tell))

    async def _client_roots(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> tuple[Path, ...] | InputRequiredResult | None:
        """Return the client's roots; `None`: it has none; or the question for them, which it answers by calling again.

        Raises
        ------
        MCPError
            It does not say them.
        """
        from mcp_types import InputRequiredResult, ListRootsRequest, ListRootsResult

        capabilities = context.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return None
        if context.session.can_send_request:
            asked = context.session.send_request(ListRootsRequest(), ListRootsResult, _ROOTS_SECONDS)
            return roots.of_uris(str(root.uri) for root in (await asked).roots)
        answer = (params.input_responses or {}).get(_ROOTS)
        if not isinstance(answer, ListRootsResult):
            return InputRequiredResult(input_requests={_ROOTS: ListRootsRequest()})
        return roots.of_uris(str(root.uri) for root in answer.roots)


def _described(tool: AgentTool) -> Any:
    from mcp_types import Tool as Described
    from mcp_types import ToolAnnotations

    return Described(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(read_only_hint=tool.only_reads, destructive_hint=False, open_world_hint=False),
    )


def _result(reply: ToolReply) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    data = json.loads(_sendable(json.dumps(reply.data, ensure_ascii=False))) if reply.data else None
    return CallToolResult(
        content=[TextContent(type="text", text=_sendable(reply.text))],
        structured_content=data,
        is_error=reply.is_error,
    )


def _sendable(text: str) -> str:
    """Return a text without lone surrogates: a model may have written some, and UTF-8 has no form for them."""
    return text.encode("utf-8", "replace").decode()


def serve(service: Service, owner_roots: tuple[Path, ...] | None) -> None:
    """Serve over standard input and output until the client goes away; a signal ends the process.

    Raises
    ------
    ConfigurationError
        The package `mcp` is missing.
    """
    try:
        from mcp.shared.exceptions import MCPDeprecationWarning
    except ImportError as error:
        package = (error.name or "mcp").partition(".")[0]
        raise ConfigurationError(f"jupyter rlm mcp needs {package}: pip install 'rlm_jupyter[mcp]'") from None
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # roots are, in the newest protocol, and are still respected
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    asyncio.run(_serve(StdioServer(service, owner_roots), service))
    # else the interpreter's exit looks through all objects of the SDKs, for longer than a client waits before it kills
    gc.freeze()


async def _serve(server: StdioServer, service: Service) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    why = "the client went away"

    def end(name: str) -> None:
        nonlocal why
        why = f"{name} ended the server"
        ended.set()

    serving = asyncio.create_task(server.run())
    serving.add_done_callback(lambda _: ended.set())
    _on_signals(loop, end)
    await ended.wait()
    await service.close(why, _CLOSE_SECONDS)
    await asyncio.to_thread(background.shut_down)
    if not serving.done():
        # a thread waits for a line of standard input, which nothing can call back
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(_INTERRUPTED)
    try:
        await serving
    except* OSError:  # the client had closed its end of standard output, too
        pass


def _on_signals(loop: asyncio.AbstractEventLoop, end: Callable[[str], None]) -> None:
    """Let a signal, which is named to `end`, end the server as the client's going away does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if (number := getattr(signal, name, None)) is not None:
            with contextlib.suppress(NotImplementedError, ValueError):  # Windows
                loop.add_signal_handler(number, end, name)
