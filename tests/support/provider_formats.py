"""Replies as OpenAI's chat completions and Anthropic's messages write them, whole and streamed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.loopback_replies import Fault, Request, Said


def _pieces(text: str, pieces: int) -> Sequence[str]:
    size = max(-(-len(text) // pieces), 1)
    return [text[i : i + size] for i in range(0, len(text), size)]


def _sse(data: dict[str, Any], event: str = "") -> bytes:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(data)}\n\n".encode()


def _openai_usage(said: Said) -> dict[str, Any] | None:
    if not said.counted:
        return None
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens + said.uncounted_thinking,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": said.reasoning_tokens},
    }


def openai_whole(said: Said, request: Request) -> dict[str, Any]:
    """Return a reply as a chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said.text},
        "finish_reason": said.finish,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", "deployment"),
        "choices": [choice],
        "usage": _openai_usage(said),
    }


def openai_events(said: Said | Fault, request: Request) -> Iterator[bytes]:
    """Yield it as the chunks of one, or what of it comes before a fault."""
    model = request.body.get("model", "deployment")
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: dict[str, str], finish: str | None = None, logprob: float | None = None) -> bytes:
        told = None if logprob is None else {"content": [{"token": "", "logprob": logprob, "top_logprobs": []}]}
        return _sse({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": told}]})

    yield chunk({"role": "assistant", "content": ""})
    if isinstance(said, Fault):
        if said.drop != "early":
            yield chunk({"content": said.text})
        if said.drop == "error":
            yield _sse({"error": {"message": "out of memory", "type": "server_error"}})
        return
    if said.thinking:
        yield chunk({"reasoning_content": said.thinking})
    logprobs = itertools.cycle(said.logprobs if request.body.get("logprobs") and said.logprobs else (None,))
    for piece, logprob in zip(_pieces(said.text, said.pieces), logprobs, strict=False):
        yield chunk({"content": piece}, None, logprob)
    yield chunk({}, said.finish)
    if said.counted and request.body.get("stream_options", {}).get("include_usage"):
        yield _sse({**base, "choices": [], "usage": _openai_usage(said)})
    yield b"data: [DONE]\n\n"


_ANTHROPIC_FINISH = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.input_tokens - said.cached_tokens - said.cache_write_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": said.cache_write_tokens,
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"thinking_tokens": said.reasoning_tokens},
    }


def _anthropic_message(request: Request, content: list[dict[str, Any]], stop: str | None, usage: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic_whole(said: Said, request: Request) -> dict[str, Any]:
    """Return a reply as a message."""
    content = [{"type": "text", "text": said.text}] if said.text else []
    return _anthropic_message(request, content, _ANTHROPIC_FINISH[said.finish], _anthropic_usage(said))


def anthropic_events(said: Said | Fault, request: Request) -> Iterator[bytes]:
    """Yield it as the events of one, or what of it comes before a fault."""

    def block(index: int, kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
        empty = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
        yield _sse({"type": "content_block_start", "index": index, "content_block": empty}, "content_block_start")
        for piece in pieces:
            delta = {"type": f"{kind}_delta", kind: piece}
            yield _sse({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")

    usage = _anthropic_usage(said if isinstance(said, Said) else Said(""))
    start = _anthropic_message(request, [], None, {**usage, "output_tokens": 1})
    yield _sse({"type": "message_start", "message": start}, "message_start")
    if isinstance(said, Fault):
        if said.drop != "early":
            yield from block(0, "text", [said.text])
        if said.drop == "error":
            yield _sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error")
        return
    index = 0
    for kind, text in (("thinking", said.thinking), ("text", said.text)):
        if text:
            yield from block(index, kind, _pieces(text, said.pieces))
            yield _sse({"type": "content_block_stop", "index": index}, "content_block_stop")
            index += 1
    ending = {"stop_reason": _ANTHROPIC_FINISH[said.finish], "stop_sequence": None}
    yield _sse({"type": "message_delta", "delta": ending, "usage": usage}, "message_delta")
    yield _sse({"type": "message_stop"}, "message_stop")
