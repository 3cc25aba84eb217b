"""`TOOLS`: what an agent is told of each tool, and the form of its arguments. A model reads this: it is short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.json_schema import JsonSchema
from rlm_jupyter.types.shortened import shortened

INSTRUCTIONS = (
    "Answers questions about files or text too long to read yourself: folders, logs, tables, PDFs, code. Another model "
    "works through them by code in a Jupyter kernel; each run is kept as a notebook that you can cite. Call ask. If it "
    "returns a run that goes on, call result with that run's id until it has ended."
)
LOWERABLE = ("max_cost", "max_tokens", "max_seconds")
"""The limits that who asks may set, to less than the owner's."""
_REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool, as an agent sees it."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    only_reads: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: dict(about) for name, about in self.properties.items()},
            "required": [*self.required],
            "additionalProperties": False,
        }


class Forms:
    """Checks arguments of tools."""

    def __init__(self, tools: Iterable[AgentTool]) -> None:
        self._schemas = {tool.name: JsonSchema(tool.schema) for tool in tools}

    def check(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Check the arguments of a tool.

        Raises
        ------
        ConfigurationError
            Says in one line what is wrong with them, or that there is no such tool.
        """
        if name not in self._schemas:
            raise ConfigurationError(f"There is no tool {name}. There are: {', '.join(self._schemas)}.")
        for where, why in self._schemas[name].errors(dict(arguments)):
            place = f"{name}: {where}: " if where else f"{name}: "
            raise ConfigurationError(f"{place}{shortened(' '.join(why.split()), _REASON_CHARS)}.")


def _text(about: str) -> dict[str, Any]:
    return {"type": "string", "description": about}


_RUN = _text("The run's id, as ask or runs gave it.")
_WAIT = {
    "type": "number",
    "minimum": 0,
    "description": "Return after so many seconds at the latest; the run goes on. Default: {wait:g}. 0: at once.",
}
_MONEY = {"type": "number", "exclusiveMinimum": 0, "description": "US dollars this run may cost at most."}
_TOKENS = {"type": "integer", "exclusiveMinimum": 0, "description": "Tokens it may use at most."}
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "description": "Seconds it may take at most."}


def tools(wait: float) -> tuple[AgentTool, ...]:
    """Return the tools.

    Parameters
    ----------
    wait
        Seconds that a call waits where nothing else is asked for.
    """
    waiting = _WAIT | {"description": str(_WAIT["description"]).format(wait=wait)}
    return (
        _ask(waiting),
        AgentTool(
            "result",
            "Get a run's answer",
            "Wait for a run, and return its answer with its notebook and the iterations it comes from. A run that is "
            "not done after wait_seconds goes on: call this again. Cancelling the call stops the run.",
            {"run": _RUN, "wait_seconds": waiting},
            ("run",),
        ),
        AgentTool(
            "status",
            "See how far a run is",
            "Tell how far a run is and what it has spent, without waiting.",
            {"run": _RUN},
            ("run",),
            only_reads=True,
        ),
        AgentTool(
            "note",
            "Tell a run something",
            "Tell the model of a run that goes on something, as a correction or a narrower question. It reads that "
            "before its next step.",
            {"run": _RUN, "text": _text("What to tell it.")},
            ("run", "text"),
        ),
        AgentTool(
            "stop", "Stop a run", "End a run now, and return its best answer so far, if any.", {"run": _RUN}, ("run",)
        ),
        AgentTool(
            "runs", "List runs", "List runs: those that go on, and earlier ones, newest first.", {}, only_reads=True
        ),
    )


def _ask(waiting: Mapping[str, Any]) -> AgentTool:
    return AgentTool(
        "ask",
        "Ask about long text",
        "Answer a question about files or text of any length (many megabytes are fine) without reading them "
        "yourself. Give paths or text. Another model works through it by code; you get its answer, the run's "
        "notebook, and the iterations in it that the answer comes from. Takes seconds to minutes, and costs money: "
        "ask one full question, not many small ones. If it is not done after wait_seconds, you get the run's id: "
        "call result with it. Cancelling the call stops the run.",
        {
            "question": _text("The whole question, and what form the answer should have."),
            "paths": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Files, folders or patterns (docs/**/*.md): text, code, csv, json, parquet, pdf, "
                "docx, xlsx, pptx, html, zip. Inside your workspace only.",
            },
            "text": _text("The text itself, in place of paths."),
            "schema": {"type": "object", "description": "A JSON schema that the answer must keep."},
            "wait_seconds": waiting,
            "max_cost": _MONEY,
            "max_tokens": _TOKENS,
            "max_seconds": _SECONDS,
        },
        ("question",),
    )
