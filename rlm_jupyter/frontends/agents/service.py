"""`Service`: does what the tools say. It knows neither the protocol nor its transport."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.agents.asked import Asked
from rlm_jupyter.frontends.agents.roots import absolute
from rlm_jupyter.frontends.agents.served_run import ServedRun, Tell, Work
from rlm_jupyter.frontends.agents.tool_reply import ToolReply, of_ended
from rlm_jupyter.frontends.agents.tools import Forms, tools
from rlm_jupyter.record import catalog
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.files.load import load
from rlm_jupyter.run.result import OnEvent
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.shortened import shortened

WAIT_SECONDS = 50.0
"""How long a call waits where nothing else is said: many clients give a call up after a minute."""
MOST_RUNS = 4
"""Runs at once: each has a kernel."""
_STOP_SECONDS = 10.0
"""How long `stop` waits for the best answer so far."""
_LISTED = 20
_QUESTION_CHARS = 80
_LINE_CHARS = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """What the owner of the server allows."""

    limits: Limits
    """For each run."""
    folder: Path
    """Where runs are kept."""
    wait: float = WAIT_SECONDS
    """Seconds that a call waits where it says nothing else."""
    total_cost: float | None = None
    """US dollars that all runs may cost together; `None`: no limit."""
    prefix: str = ""
    """Of the tools' names, where they stand among others."""


class Service:
    """The runs that an agent has asked for, and what it does with them.

    Parameters
    ----------
    owner
        What is allowed.
    rlm_of
        Gives the `RLM` with the limits of a run.
    """

    def __init__(self, owner: Owner, rlm_of: Callable[[Limits], RLM]) -> None:
        self._owner, self._rlm_of = owner, rlm_of
        self._runs: dict[str, ServedRun] = {}
        self._asked = 0
        self.tools = tools(owner.wait)
        self._forms = Forms(self.tools)

    async def call(self, name: str, arguments: Mapping[str, Any], folders: Sequence[Path], tell: Tell) -> ToolReply:
        """Call a tool.

        Parameters
        ----------
        folders
            In which files may be named.
        tell
            Told at once, and again and again, how far the run is that is waited for.

        Returns
        -------
        ToolReply
            What went wrong is one, too, in one line.
        """
        try:
            if name == "ask":
                await tell("reading the question")
            self._forms.check(name, arguments)
            return await self._call(name, arguments, folders, tell)
        except RLMError as error:
            return ToolReply(shortened(" ".join(str(error).split()), _LINE_CHARS), is_error=True)

    async def _call(self, name: str, arguments: Mapping[str, Any], folders: Sequence[Path], tell: Tell) -> ToolReply:
        wait = float(arguments.get("wait_seconds", self._owner.wait))
        match name:
            case "ask":
                return await self._waited(self._ask(Asked.of(arguments, self._owner.limits), folders), wait, tell)
            case "runs":
                return await asyncio.to_thread(self._list)
            case _:
                run = self._runs.get(arguments["run"])
        if run is None:
            # one of an earlier server has ended, or this can't reach it
            if name == "note":
                raise ConfigurationError(f"note: there is no run {arguments['run']} that goes on; runs lists them.")
            return await asyncio.to_thread(self._kept, arguments["run"])
        if name == "result":
            return await self._waited(run, wait, tell)
        if name == "note":
            run.note(arguments["text"])
            return ToolReply(f"Run {run.id}: its model reads this before its next step.", {"run": run.id})
        if name == "stop":
            run.stop("stopped by the agent that asked")
            await run.settle(_STOP_SECONDS)
        return run.reply(f"{self._owner.prefix}result")

    async def _waited(self, run: ServedRun, seconds: float, tell: Tell) -> ToolReply:
        await run.wait(seconds, tell)
        try:
            return run.reply(f"{self._owner.prefix}result")
        except RLMError:
            del self._runs[run.id]  # it never began, and now that is known
            raise

    def _ask(self, asked: Asked, folders: Sequence[Path]) -> ServedRun:
        going = [run.id for run in self._runs.values() if not run.done]
        if len(going) >= MOST_RUNS:
            raise ConfigurationError(
                f"ask: {len(going)} runs go on, and no more may at once: {', '.join(going)}. Wait for one by result, "
                "or stop one."
            )
        limits = self._within_total(asked.limits)
        if asked.paths and not folders:
            raise ConfigurationError(
                "ask: no folder may be read here. Pass the text itself, or start the server with --root FOLDER."
            )

        def read() -> Context:
            if not asked.paths:
                return Context(asked.text)
            # as it is: a text that is a file's name may be what the file holds
            return Context(load(absolute(asked.paths, folders), note=lambda _: None, within=folders))

        def start(context: Context, on_event: OnEvent) -> RunHandle:
            return self._rlm_of(limits).start(asked.question, context, answer=asked.schema, on_event=on_event)

        self._asked += 1
        run = ServedRun(f"r{self._asked}", asked.question, limits.max_cost, Work(read, start))
        self._runs[run.id] = run
        return run

    def _within_total(self, limits: Limits) -> Limits:
        """Return the limits of a run that can't spend more than is left for all."""
        total = self._owner.total_cost
        if total is None:
            return limits
        left = total - sum(run.cost for run in self._runs.values())
        if left <= 0:
            raise ConfigurationError(f"ask: all of the ${total:g} that this server may spend is spent, or is in use.")
        return within(limits, left)

    def _list(self) -> ToolReply:
        own = [*reversed(self._runs.values())]
        listed = [{"run": run.id, "state": run.state, "question": _brief(run.question)} for run in own]
        notebooks = {run.notebook for run in own}
        for one in catalog.list_runs(self._owner.folder):
            if one.files.shown not in notebooks and len(listed) < _LISTED:
                state = in_short(one.ended.stop_reason, one.ended.message) if one.ended else "has not ended"
                listed.append({"run": one.files.name, "state": state, "question": _brief(one.started.prompt)})
        lines = [f"{one['run']}  {one['state']}: {one['question']}" for one in listed]
        return ToolReply("\n".join(lines) or "There are no runs yet.", {"runs": listed})

    def _kept(self, name: str) -> ToolReply:
        """Return what came of an earlier run, which is kept under its name."""
        for one in catalog.list_runs(self._owner.folder):
            if name in {one.files.name, one.started.run_id}:
                trajectory = Trajectory(read_files(one.files)[0])
                if trajectory.ended is None:
                    raise ConfigurationError(f"Run {name} has not ended, and is none of this server's.")
                return of_ended(name, trajectory, one.files.shown)
        raise ConfigurationError(f"There is no run {name}; runs lists them.")

    def stop(self, why: str) -> None:
        """Stop all runs; nothing more is sent to any model."""
        for run in self._runs.values():
            run.stop(why)

    async def close(self, why: str, seconds: float) -> None:
        """Stop all runs, and wait for so many seconds at most until each has written down its end."""
        self.stop(why)
        await asyncio.gather(*(run.settle(seconds) for run in self._runs.values()))


def within(limits: Limits, left: float) -> Limits:
    """Return limits of a run that costs no more than is left, in US dollars."""
    most = left if limits.max_cost is None else min(left, limits.max_cost)
    return dataclasses.replace(limits, max_cost=most)


def _brief(question: str) -> str:
    return shortened(" ".join(question.split()), _QUESTION_CHARS)
