"""`ToolCalls`: answers the calls of a run's cells to its tools.

The kernel is not trusted: what was not handed to this run can't be called, whatever a message says.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rlm_jupyter.run.state import Run
from rlm_jupyter.run.tool import MOST_CHARS, Tool, ToolFailedError
from rlm_jupyter.run.toolbox import HostTool, Toolbox
from rlm_jupyter.types import call_text
from rlm_jupyter.types.events import CallDecided, CallProposed, SubcallStarted
from rlm_jupyter.types.values import Subcall, SubcallFailure

PERSON_REFUSED = "The person refused this call"
"""How the result of such a call begins."""
NOT_MADE = "the run was stopped before this call was made"
"""The result of a call that was still to be allowed."""
_HEAD_CHARS = 400
"""Of a call that a person is asked about."""
_TAIL_CHARS = 200

RecordCall = Callable[[Run, Subcall, SubcallStarted, str, bool, float], None]
"""Writes down what came of a call: what it gave, whether it failed, and the seconds that it took."""


class ToolCalls:
    """Answers the tool calls of one run's kernel.

    Parameters
    ----------
    tools
        Those of the run.
    head_chars
        Of a call's text, in what is shown while it is made.
    """

    def __init__(self, tools: Toolbox, head_chars: int) -> None:
        self._tools = tools
        self._head_chars = head_chars

    async def answer(self, run: Run, call: Subcall, record: RecordCall) -> list[str | SubcallFailure]:
        """Return what the tool gave, as JSON, or why there is nothing.

        Where the record has a result it is that one, unless the tool is to be called again.
        """
        ordinal, run.subcalls.ordinal = run.subcalls.ordinal, run.subcalls.ordinal + 1
        if len(call.prompts) != 1:
            return [SubcallFailure("a tool is called once at a time")] * len(call.prompts)
        recorded = {} if run.playback is None else run.playback.answers(call, "tool", ordinal)
        if recorded and not (run.is_replaying and self._is_repeatable(call.model)):
            return [recorded[0]]
        [text] = call.prompts
        asked = SubcallStarted(
            run.iteration, run.cell_state.block, "tool", ordinal, len(text), text[: self._head_chars], call.model or ""
        )
        began, is_recorded = time.monotonic(), run.is_replaying
        given, failed = NOT_MADE, True
        run.emit(asked)
        try:
            tool, wanted = await self._allowed(run, call.model, text, ordinal, asks=not recorded)
            given = "it was stopped before it had a result"
            given, failed = await tool.call(wanted), False
        except ToolFailedError as error:
            given = f"{str(error).rstrip('.')}."
        finally:
            # what was stopped may have had an effect, and is written down, too
            if not is_recorded:
                record(run, call, asked, given, failed, time.monotonic() - began)
        return [SubcallFailure(given) if failed else given]

    async def _allowed(
        self, run: Run, name: str | None, text: str, ordinal: int, *, asks: bool
    ) -> tuple[HostTool, call_text.Call]:
        """Return the tool and what it is called with, once limits and a person allow it."""
        tool, call = self._read(name, text)
        if not run.ledger.take_tool_call():
            most = run.limits.max_tool_calls
            raise ToolFailedError(f"tools were called {most:,} times, which is the most (max_tool_calls)")
        if asks and tool.approval != "never":
            if isinstance(tool, Tool):  # a server's are checked by the server alone
                tool.check(call)
            await _approved(run, tool, text, ordinal)
        return tool, call

    def _read(self, name: str | None, text: str) -> tuple[HostTool, call_text.Call]:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailedError(f"there is no tool {(name or '')[:60]!r} for this run")
        if len(text) > MOST_CHARS:
            raise ToolFailedError(
                f"the arguments of {tool.name} take {len(text):,} characters, and {MOST_CHARS:,} are the most"
            )
        try:
            call = call_text.read(text)
        except ValueError as error:
            raise ToolFailedError(f"this is no call: {error}") from None
        if call.name != tool.name:
            raise ToolFailedError(f"this is a call of {call.name[:60]!r}, not of {tool.name!r}")
        return tool, call

    def _is_repeatable(self, name: str | None) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.repeatable


async def _approved(run: Run, tool: HostTool, text: str, ordinal: int) -> None:
    """Wait until a person allows a call.

    Raises
    ------
    ToolFailedError
        They refuse it; the text has what they say.
    """
    position = (run.iteration, run.cell_state.block, ordinal)
    is_asked = False

    def propose() -> None:
        nonlocal is_asked
        is_asked = True
        run.emit(CallProposed(*position, tool.name, _shortened(text)))

    with run.ledger.deadline.held():
        decision = await run.control.call_decision(tool.name, position, propose, once=tool.approval == "once")
    if is_asked:
        run.emit(CallDecided(*position, decision.runs))
    if not decision.runs:
        said = f". Their message: {decision.note}" if decision.note else ""
        raise ToolFailedError(f"{PERSON_REFUSED}{said}")


def _shortened(text: str) -> str:
    """Return a call as people read it: its beginning and its end, and nothing that a terminal would act on."""
    if len(text) > _HEAD_CHARS + _TAIL_CHARS:
        left_out = f" … {len(text) - _HEAD_CHARS - _TAIL_CHARS:,} characters … "
        text = text[:_HEAD_CHARS] + left_out + text[-_TAIL_CHARS:]
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
