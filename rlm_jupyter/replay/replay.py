"""`replay`: a recorded run again, without any model, as a test of whether the same comes out.

The same code goes over the record as when the run was new: replies come from it, cells are executed in a fresh kernel,
sub-calls are answered from the record. What comes out is compared with what is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.policies import PolicyRegistry, SharedPolicy
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.diff import Difference, text_difference
from rlm_jupyter.replay.recorded_configuration import configuration
from rlm_jupyter.replay.recorded_tools import described
from rlm_jupyter.replay.recording import PlaybackOptions, RecordEnds, Recording
from rlm_jupyter.replay.resume import play
from rlm_jupyter.replay.session_record import last_prompt
from rlm_jupyter.run import background
from rlm_jupyter.run.arguments import server_of
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.result import OnEvent
from rlm_jupyter.run.settings import RECORDED, Settings
from rlm_jupyter.types.errors import ModelError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.tokens import DEFAULT_WINDOW
from rlm_jupyter.types.values import Message, Reply, Usage

_OF_MODELS = frozenset({"compact_at", "see_figures", "system_prompt_extra"})
"""What says how a model is asked: here none is."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay."""

    run_id: str
    cells: int
    """That were executed, with those of the runs before it in its kernel."""
    subcalls: int
    """Of these cells, that the record answered."""
    differences: tuple[Difference, ...] = ()
    passed_over: tuple[int, ...] = ()
    """Iterations with cells that were not executed, because they had been interrupted."""
    trajectory: Trajectory = field(default_factory=Trajectory, repr=False)
    tool_calls: int = 0
    """Of these cells, that the record answered."""

    @property
    def same(self) -> bool:
        """Whether the same came out."""
        return not self.differences

    def __str__(self) -> str:
        if self.same:
            return f"{self.run_id}: the same came out."
        return "\n".join(difference.text for difference in self.differences)


def replay(
    run: str | Path | SavedRun,
    *,
    sandbox: str | None = None,
    kernel: str | None = None,
    token: str | None = None,
    on_event: OnEvent | None = None,
) -> Replayed:
    """Run a recorded run again without any model, and compare; works in a script and in a notebook.

    Its cells are executed, with their side effects. Nothing is asked, spent or written.

    Parameters
    ----------
    run
        Its id, its name, or the path of its notebook or folder.
    sandbox
        Another than the run had.
    kernel, token
        As for `RLM`; a run whose kernel was on a server is given one again.
    on_event
        Told what happens, on a thread of ours.

    Raises
    ------
    RecordError
        There is no such run, or its context is missing.
    ConfigurationError
        It drove a notebook's own kernel, or answers a sub-call.
    """
    background.refuse_inside()
    return background.submit(areplay(run, sandbox=sandbox, kernel=kernel, token=token, on_event=on_event)).result()


async def areplay(
    run: str | Path | SavedRun,
    *,
    sandbox: str | None = None,
    kernel: str | None = None,
    token: str | None = None,
    on_event: OnEvent | None = None,
) -> Replayed:
    """Do what `replay` does, to be awaited."""
    saved = run if isinstance(run, SavedRun) else last_prompt(run)
    recording = Recording(saved.records, PlaybackOptions(only=True))
    try:
        settings = _settings(saved, {"sandbox": sandbox, "kernel": kernel, "token": token})
        again = (await play(settings, saved, recording, None, on_event, None)).ended
    except RecordEnds:
        again = None
    before = saved.trajectory.ended if saved.has_answer else None
    if text := text_difference(_ending(before), _ending(again), "the run's end"):
        recording.note(saved.trajectory.iterations[-1].index if saved.trajectory.iterations else 0, None, text)
    runs = [saved, *(run for run, _ in saved.earlier())]
    is_tool = [call.kind == "tool" for run in runs for call in run.trajectory.subcalls]
    return Replayed(
        saved.trajectory.run_id,
        saved.cells_again,
        is_tool.count(False),
        tuple(recording.differences),
        tuple(dict.fromkeys(recording.passed_over)),
        saved.trajectory,
        is_tool.count(True),
    )


def _ending(ended: RunEnded | None) -> str:
    if ended is None:
        return "no answer of its own"
    # no type is there to write the answer in its way: its class is not in the record
    answer = ended.answer if ended.declared is None else ended.declared
    return f"{ended.stop_reason}\n{answer or ''}"


def _settings(saved: SavedRun, changes: dict[str, Any]) -> Settings:
    """Return the settings as the run was configured, with nobody to be asked."""
    started = saved.trajectory.started
    tools = described(started.options)
    options = configuration(saved, changes, calls=False).options
    as_recorded = {name: options[name] for name in RECORDED if name in options and name not in _OF_MODELS}
    subs = started.options.get("sub_models") or [started.sub_model or started.model]
    return Settings(
        routing=Routing(Silent(started.model), [Silent(name) for name in subs]),
        limits=options["limits"],
        termination=SharedPolicy(PolicyRegistry.termination_from(options.get("termination"), "declared")),
        reward=SharedPolicy(PolicyRegistry.reward_from(options.get("reward"))),
        save=False,
        kernel_name=options.get("kernel_name"),
        server=server_of(options.get("kernel"), options.get("token"), sandbox=options.get("sandbox")),
        cwd=None if options.get("cwd") is None else Path(options["cwd"]),
        sandbox=Sandbox.of(options.get("sandbox", "auto")),
        outputs=Outputs.of(options.get("outputs")),
        tools=tools["tools"],
        sub_tools=tools["sub_tools"],
        **as_recorded,
    )


class Silent:
    """A model that is named and never asked."""

    window = DEFAULT_WINDOW

    def __init__(self, name: str) -> None:
        self.name = name

    def cost(self, usage: Usage) -> float | None:
        """Return nothing: it costs nothing."""
        return 0.0

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Hold nothing."""
        yield

    async def complete(
        self, messages: Sequence[Message], *, max_output_tokens: int, on_text: Callable[[str], None] | None = None
    ) -> Reply:
        """Refuse.

        Raises
        ------
        ModelError
            Always.
        """
        raise ModelError(f"{self.name} is not asked while a record is replayed.")
