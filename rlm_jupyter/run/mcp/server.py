"""`McpServer`: a server of the Model Context Protocol that runs as long as a session does."""

from __future__ import annotations

import asyncio
import contextlib
import keyword
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from rlm_jupyter.run.mcp.config import OTHERS, ServerConfig
from rlm_jupyter.run.mcp.tool import McpResources, McpTool
from rlm_jupyter.run.tool import ToolFailedError
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

START_SECONDS = 60.0
"""How long a server may take until it has said what tools it has: `npx` may fetch it first."""
_MOST_TOOLS = 1_000
_REASON_CHARS = 300
_LINK = re.compile(r" For further information visit \S+")
"""By which pydantic ends what it finds wrong."""
T = TypeVar("T")


class McpServer:
    """A server, started or reached by `start`.

    A task of its own holds the connection, because whoever opens a session need not be who closes it.

    Parameters
    ----------
    config
        How it is started, or reached.
    note
        Told in a line, once, that it printed what is none of the protocol.
    """

    def __init__(self, config: ServerConfig, note: Callable[[str], None]) -> None:
        self._config = config
        self._note = note
        self._printed = ""
        self.name = config.name
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._errors: Any = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> list[McpTool | McpResources]:
        """Start it, and return its tools.

        Raises
        ------
        ConfigurationError
            It does not start, or does not speak the protocol.
        """
        self._serving = asyncio.create_task(self._serve())
        try:
            async with asyncio.timeout(START_SECONDS):
                client = await asyncio.shield(self._ready)
                return await self._tools(client)
        except TimeoutError:
            raise ConfigurationError(self._not_started(f"it has said nothing for {START_SECONDS:g} s")) from None
        except ConfigurationError:
            raise
        except ImportError as error:
            raise ConfigurationError(f"mcp=… needs {error.name}: pip install 'rlm_jupyter[mcp]'") from None
        except Exception as error:  # noqa: BLE001  as above
            raise ConfigurationError(self._not_started(_innermost(error), found=not _is_missing(error))) from None

    async def request(self, send: Callable[[Any], Awaitable[T]]) -> T:
        """Make a request of the client.

        Raises
        ------
        ToolFailedError
            The server has ended, or refuses.
        """
        serving = self._serving
        if serving is None or serving.done():
            raise ToolFailedError(self._why("it has ended"))
        client = self._ready.result()
        asking = asyncio.ensure_future(send(client))
        try:
            await asyncio.wait([asking, serving], return_when="FIRST_COMPLETED")
            if not asking.done():
                raise ToolFailedError(self._why("it has ended"))
            return asking.result()
        except ToolFailedError:
            raise
        except Exception as error:  # noqa: BLE001  whatever the library raises for what a server did
            raise ToolFailedError(f"{self.name}: {_innermost(error)}"[:_REASON_CHARS]) from None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def close(self) -> None:
        """End it."""
        self._closing.set()
        if self._serving is not None:
            if not self._ready.done():  # it may never say a word
                self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        self._ready.cancel()
        self._errors.close()

    async def _serve(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._client(stack))
                self._ready.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001  told to whoever waits for it
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _client(self, stack: AsyncExitStack) -> Any:
        from mcp import Client, StdioServerParameters, stdio_client

        log = logging.getLogger("mcp")
        if not log.handlers:  # else Python itself prints what it logs, tracebacks and all
            log.addHandler(logging.NullHandler())
        config = self._config
        if not config.url:
            program, *args = config.command
            started = StdioServerParameters(
                command=program, args=args, env=dict(config.env), cwd=config.cwd, encoding_error_handler="replace"
            )
            return Client(stdio_client(started, errlog=self._errors), message_handler=self._hear)
        if not config.headers:
            return Client(config.url)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(config.headers)))
        return Client(streamable_http_client(config.url, http_client=http))

    async def _hear(self, message: object) -> None:
        """Say so, where it prints on the stream that the protocol has to itself."""
        from pydantic import ValidationError

        if isinstance(message, ValidationError) and not self._printed:
            self._printed = quoted(message.errors(include_url=False)[0]["input"])
            self._note(
                f"The MCP server {self.name} printed {self._printed} on its standard output, which is for the protocol "
                "alone: it was left out."
            )

    async def _tools(self, client: Any) -> list[McpTool | McpResources]:
        tools: list[McpTool | McpResources] = []
        names: set[str] = set()
        cursor: str | None = None
        while len(tools) < _MOST_TOOLS:
            page = await client.list_tools(cursor=cursor)
            for one in page.tools:
                name = _name(one.name, names)
                names.add(name)
                about, schema = one.description or "", one.input_schema or {}
                tools.append(McpTool(self._config, self.request, one.name, name, about, schema))
            cursor = page.next_cursor
            if not cursor:
                break
        known = [tool.remote for tool in tools if isinstance(tool, McpTool)]
        if unknown := [name for name in self._config.approvals if name not in (OTHERS, *known)]:
            raise ConfigurationError(
                f"The MCP server {self.name} has no tool {unknown[0]}, about whose calls a person is to be asked. "
                f"It has: {', '.join(known) or 'none'}."
            )
        if client.server_capabilities.resources is not None:
            about = "List the server's resources: uri, name and what each is about."
            tools.append(McpResources(self._config, self.request, _name("list_resources", names), about, []))
            name, about = _name("read_resource", names), "Read a resource as text."
            tools.append(McpResources(self._config, self.request, name, about, ["uri"]))
        return tools

    def _not_started(self, what: str, *, found: bool = True) -> str:
        """Return why it has not started, and what to look at.

        Parameters
        ----------
        found
            Whether there is such a command, and its working directory.
        """
        if not found:
            words = ' Words that follow the program go into "args".' if " " in self._config.address else ""
            return f"{self._why(what, f' ({self._config.address})').rstrip('.')}.{words}"
        look = (
            "Does it run, and is that its whole address, often one that ends in /mcp?"
            if self._config.url
            else "Its command has to speak the Model Context Protocol over its standard streams."
        )
        return f"{self._why(what, f' ({self._config.address})').rstrip('.')}. {look}"

    def _why(self, what: str, address: str = "") -> str:
        """Return what is wrong with it, with the last line that it wrote to standard error, or else what it printed."""
        last = self._printed
        with contextlib.suppress(ValueError, OSError):
            self._errors.seek(0)
            if lines := self._errors.read().strip().splitlines():
                last = lines[-1].strip()
        what = f"{what}: {last}" if last else what
        return f"The MCP server {self.name}{address}: {what}"[:_REASON_CHARS]


@asynccontextmanager
async def running(
    configs: Sequence[ServerConfig], note: Callable[[str], None]
) -> AsyncIterator[list[McpTool | McpResources]]:
    """Start servers, all at once, and give their tools; they end on leaving.

    Parameters
    ----------
    configs
        How they are started, or reached.
    note
        As for `McpServer`.

    Raises
    ------
    ConfigurationError
        One does not start.
    """
    servers = [McpServer(config, note) for config in configs]
    try:
        tools = await asyncio.gather(*(server.start() for server in servers))
        yield [tool for of_one in tools for tool in of_one]
    finally:
        await asyncio.gather(*(server.close() for server in servers))


def _name(remote: str, taken: set[str]) -> str:
    """Return a name of Python's for a tool: `get-issue` is `get_issue`."""
    name = re.sub(r"\W", "_", remote) or "tool"
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"tool_{name}"
    while name in taken:
        name += "_"
    return name


def _innermost(error: BaseException) -> str:
    first = _first(error)
    if _is_missing(error) and isinstance(first, OSError) and first.strerror:
        # without the error's number, which says nothing to a reader
        return f"{first.strerror}: {first.filename!r}"
    text = " ".join(str(first).split())
    return _LINK.sub("", text) or type(first).__name__


def _is_missing(error: BaseException) -> bool:
    """Return whether the command, or the folder that it is to run in, can't be executed."""
    return isinstance(_first(error), FileNotFoundError | NotADirectoryError | PermissionError)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
