"""`Span`: one step of a trace, and what such steps say by the semantic conventions (`semconv.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rlm_jupyter.record.export import semconv as names
from rlm_jupyter.record.export.timeline import Interval
from rlm_jupyter.types import call_text
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.values import Usage

Kind = Literal["INTERNAL", "CLIENT"]
Attributes = dict[str, str | bool | int | float | list[str]]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something at one moment of a span."""

    name: str
    moment: float
    """In seconds since 1970."""
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a trace."""

    trace_id: str
    """In hexadecimal, as the others."""
    span_id: str
    parent_id: str | None
    name: str
    kind: Kind
    interval: Interval
    attributes: Attributes
    error: str | None = None
    """Why it has failed; may be empty. `None`: it has not."""
    events: tuple[SpanEvent, ...] = field(default=())


def chat(model: str) -> Attributes:
    """Return what a request to a model says, by the name under which it was asked for."""
    provider, own = names.provider(model)
    return {names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: own}


def agent(model: str) -> Attributes:
    """Return what a run with this root model says."""
    return chat(model) | {names.OPERATION: names.INVOKE_AGENT, names.AGENT_NAME: names.AGENT}


def tool(name: str, call_id: str) -> Attributes:
    """Return what the call of a tool says."""
    return {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL_NAME: name,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL: call_id,
    }


def tokens(usage: Usage) -> Attributes:
    """Return tokens; of the cache and of thinking only where there are some."""
    more = {
        names.CACHE_READ: usage.cached_tokens,
        names.CACHE_WRITE: usage.cache_write_tokens,
        names.REASONING: usage.reasoning_tokens,
    }
    told: Attributes = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    return told | {name: count for name, count in more.items() if count}


def billed(usage: Usage, cost: float | None) -> Attributes:
    """Return tokens and cost of what was paid for."""
    return tokens(usage) | ({} if cost is None else {names.COST: cost})


def messages(said: Iterable[tuple[str, str]]) -> str:
    """Return messages, given as roles and texts, in the form of `semconv.INPUT_MESSAGES`."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said])


def output(text: str, finish: str = "stop") -> str:
    """Return a reply in the form of `semconv.OUTPUT_MESSAGES`."""
    finish = names.FINISHES.get(finish, finish)
    return json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": finish}])


def call(record: SubcallSettled, model: str, *, has_content: bool) -> Attributes:
    """Return what a sub-call, or the call of a tool, says; of a run of its own, where there is no record of that.

    Parameters
    ----------
    model
        Who was to be asked.
    """
    prompt = record.prompt if record.prompt is not None else record.prompt_head
    if record.kind == "tool":
        attributes = tool(_called(prompt), f"{record.iteration}.{record.block}.{record.ordinal}")
        content: Attributes = {names.TOOL_ARGUMENTS: prompt, names.TOOL_RESULT: record.text}
    else:
        attributes = (agent if record.child else chat)(model) | billed(record.usage, record.cost)
        content = {names.INPUT_MESSAGES: messages([("user", prompt)]), names.OUTPUT_MESSAGES: output(record.text)}
        if record.model:
            attributes[names.RESPONSE_MODEL] = record.model
    if record.failed:
        attributes[names.ERROR_TYPE] = "refused" if record.refused else "_OTHER"
    return attributes | (content if has_content else {})


def _called(text: str) -> str:
    try:
        return call_text.read(text).name
    except ValueError:  # only its head is there
        return text.partition("(")[0]


def clean(attributes: Attributes) -> Attributes:
    """Return attributes whose texts the protocol takes."""
    return {key: whole(value) if isinstance(value, str) else value for key, value in attributes.items()}


def whole(text: str) -> str:
    """Return a text with question marks in place of lone surrogates, which no UTF-8 has."""
    return text.encode("utf-8", "replace").decode()


def name(attributes: Attributes) -> str:
    """Return a span's name, which the conventions derive from its attributes."""
    operation = str(attributes[names.OPERATION])
    of = {names.CHAT: names.REQUEST_MODEL, names.INVOKE_AGENT: names.AGENT_NAME, names.EXECUTE_TOOL: names.TOOL_NAME}
    return f"{operation} {attributes[of[operation]]}"
