"""What reads our exports, by our own reading of it: for machines where `harbor` and `verifiers` are not installed.

Both forbid what they do not know, or drop it without a word; so do these, which know only what we write.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AtifAgent(Strict):
    name: str
    version: str
    model_name: str
    extra: dict[str, Any]


class AtifMetrics(Strict):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float | None


class AtifToolCall(Strict):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any]


class AtifReference(Strict):
    trajectory_id: str


class AtifResult(Strict):
    source_call_id: str | None = None
    content: str | None = None
    subagent_trajectory_ref: list[AtifReference] | None = None


class AtifObservation(Strict):
    results: list[AtifResult]


class AtifStep(Strict):
    step_id: int = Field(ge=1)
    source: Literal["system", "user", "agent"]
    message: str
    timestamp: str | None = None
    model_name: str | None = None
    llm_call_count: int | None = Field(default=None, ge=1)
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    extra: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _of_agents_only(self) -> Self:
        if self.source != "agent" and (self.model_name or self.tool_calls or self.metrics):
            raise ValueError("only an agent's step has a model, calls and metrics")
        called = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in called:
                raise ValueError(f"{result.source_call_id} is no call of this step")
        return self


class AtifTotals(Strict):
    total_prompt_tokens: int
    total_completion_tokens: int
    total_cached_tokens: int
    total_cost_usd: float | None
    total_steps: int
    extra: dict[str, int]


class Atif(Strict):
    schema_version: Literal["ATIF-v1.7"]
    session_id: str
    trajectory_id: str
    agent: AtifAgent
    steps: list[AtifStep] = Field(min_length=1)
    final_metrics: AtifTotals
    extra: dict[str, Any]
    subagent_trajectories: list[Atif] = []

    @model_validator(mode="after")
    def _resolves(self) -> Self:
        if [step.step_id for step in self.steps] != [*range(1, len(self.steps) + 1)]:
            raise ValueError("steps are numbered from 1")
        below = [one.trajectory_id for one in self.subagent_trajectories]
        results = [result for step in self.steps if step.observation for result in step.observation.results]
        named = {one.trajectory_id for result in results for one in result.subagent_trajectory_ref or ()}
        if len({*below}) != len(below) or not named <= {*below}:
            raise ValueError(f"{named} are not all in {below}")
        return self


class Spent(Strict):
    prompt_tokens: int = Field(ge=0)
    """Without what was read from the cache."""
    completion_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    cost: float | None


class Said(Strict):
    role: Literal["system", "user", "assistant"]
    content: str


class Node(Strict):
    parent: int | None
    message: Said
    sampled: bool


class Span(Strict):
    start: float
    end: float


class Call(Strict):
    node: int | None
    model: str
    finish_reason: Literal["stop", "length"] | None
    usage: Spent
    time: Span


class Reward(Strict):
    score: float


class TaskOf(Strict):
    type: str
    data: dict[str, Any]


class Failure(Strict):
    type: str
    message: str


class AgentOf(Strict):
    config: dict[str, Any]
    name: str


class Timing(Strict):
    start: float
    agent: Span


class Trace(Strict):
    version: Literal[1]
    id: str
    task: TaskOf
    agent: AgentOf
    nodes: list[Node]
    calls: list[Call]
    rewards: dict[str, Reward]
    metrics: dict[str, float]
    info: dict[str, Any]
    root_reply: str | None
    extra_usage: list[Spent]
    is_completed: bool
    ok: bool
    stop_condition: str
    is_timeout: bool
    errors: list[Failure]
    timing: Timing

    @model_validator(mode="after")
    def _is_a_graph(self) -> Self:
        if any(node.parent is not None and node.parent >= place for place, node in enumerate(self.nodes)):
            raise ValueError("a message stands after its parent")
        called = [call.node for call in self.calls if call.node is not None]
        if sorted(called) != [place for place, node in enumerate(self.nodes) if node.sampled]:
            raise ValueError("each reply has its call")
        return self


class Episode(Strict):
    id: str
    env: dict[str, str]
    task: TaskOf
    ok: bool
    traces: list[Trace] = Field(min_length=1)
