"""The same tools in a running Jupyter server: functions for the extension `jupyter-server-mcp`, by its entry point.

It takes annotations as they are, and docstrings for what models read. So annotations are not put off here.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.frontends.agents.service import Service

VARIABLE = "RLM_MCP_OPTIONS"
"""Options of `jupyter rlm mcp`. Without it there are no tools: nobody's money is spent because two packages meet."""
_TOOLS = ("rlm_ask", "rlm_result", "rlm_status", "rlm_note", "rlm_stop", "rlm_runs")

Run = Annotated[str, Field(description="The run's id, as rlm_ask or rlm_runs gave it.")]
Seconds = Annotated[float | None, Field(description="Return after so many seconds at the latest; the run goes on.")]


def get_tools() -> list[str]:
    """Return the functions as `module:name`; none where the server's owner has not set `RLM_MCP_OPTIONS`."""
    return [f"{__name__}:{name}" for name in _TOOLS] if VARIABLE in os.environ else []


async def rlm_ask(
    question: Annotated[str, Field(description="The whole question, and what form the answer should have.")],
    paths: Annotated[list[str] | None, Field(description="Files, folders or patterns of this server's folder.")] = None,
    text: Annotated[str | None, Field(description="The text itself, in place of paths.")] = None,
    schema: Annotated[dict[str, Any] | None, Field(description="A JSON schema that the answer must keep.")] = None,
    wait_seconds: Seconds = None,
    max_cost: Annotated[float | None, Field(description="US dollars this run may cost at most.")] = None,
) -> str:
    """Answer a question about files or text of any length without reading them yourself.

    Another model works through them by code in a Jupyter kernel; you get its answer, the run's notebook, and the
    iterations in it that the answer comes from. If it is not done after wait_seconds, you get the run's id: call
    rlm_result with it. Cancelling the call stops the run.
    """
    given = {"question": question, "paths": paths, "text": text, "schema": schema, "max_cost": max_cost}
    return await _call("ask", given | {"wait_seconds": wait_seconds})


async def rlm_result(run: Run, wait_seconds: Seconds = None) -> str:
    """Wait for a run, and return its answer; one that is not done after wait_seconds goes on: call this again."""
    return await _call("result", {"run": run, "wait_seconds": wait_seconds})


async def rlm_status(run: Run) -> str:
    """Tell how far a run is and what it has spent, without waiting."""
    return await _call("status", {"run": run})


async def rlm_note(run: Run, text: Annotated[str, Field(description="What to tell it.")]) -> str:
    """Tell the model of a run that goes on something, which it reads before its next step."""
    return await _call("note", {"run": run, "text": text})


async def rlm_stop(run: Run) -> str:
    """End a run now, and return its best answer so far, if any."""
    return await _call("stop", {"run": run})


async def rlm_runs() -> str:
    """List runs: those that go on, and earlier ones, newest first."""
    return await _call("runs", {})


async def _call(tool: str, arguments: Mapping[str, object]) -> str:
    async def tell(_words: str) -> None:
        """Tell nobody: a function of the extension has no way to."""

    service, folders = _service()
    given = {name: value for name, value in arguments.items() if value is not None}
    reply = await service.call(tool, given, folders, tell)
    if reply.is_error:
        raise ConfigurationError(reply.text)
    return reply.text


@cache
def _service() -> "tuple[Service, Sequence[Path]]":
    """Return what does the work, and the folders that it may read: made by the first call."""
    from rlm_jupyter.frontends.agents import roots
    from rlm_jupyter.frontends.cli.commands.mcp import service_of
    from rlm_jupyter.frontends.cli.parser import parsed

    try:
        args = parsed(["mcp", *shlex.split(os.environ[VARIABLE])])
    except (SystemExit, ValueError):  # neither is to end the Jupyter server
        raise ConfigurationError(f"{VARIABLE}: jupyter rlm mcp does not take this; see the server's log.") from None
    return service_of(args, "rlm_"), roots.allowed(roots.owners(args.root), None)
