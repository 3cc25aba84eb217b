"""Anthropic's messages.

https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.client_pool import TIMEOUTS, http_arguments
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.listener import Listener
from rlm_jupyter.models.reply_fields import told_name, told_text
from rlm_jupyter.models.usage import counted, tokens
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import FinishReason, Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import anthropic

    from rlm_jupyter.models.structured import Structured

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_CACHED = {"cache_control": {"type": "ephemeral"}}
_EMPTY = "(empty)"
"""Stands for a message without visible characters, which the interface refuses."""


class AnthropicModel(HostedModel):
    """A model behind Anthropic's messages interface, always streamed.

    A conversation with a system message is cached up to its last message, since the next request begins with
    all of it; a lone sub-call is not: writing to the cache costs a quarter more and nobody would read it.
    https://docs.claude.com/en/docs/build-with-claude/prompt-caching
    """

    sdk = "anthropic"

    def _client(self) -> anthropic.AsyncAnthropic:
        import anthropic

        at = self.endpoint
        is_token = at.key_variable == "ANTHROPIC_AUTH_TOKEN"
        return anthropic.AsyncAnthropic(
            base_url=at.url,
            api_key=None if is_token else at.key or "none",
            auth_token=at.key if is_token else None,
            default_headers=dict(at.headers),
            max_retries=0,
            timeout=anthropic.Timeout(**TIMEOUTS),
            http_client=anthropic.DefaultAsyncHttpxClient(**http_arguments(self.endpoint.url)),
        )

    def _send(self, client: anthropic.AsyncAnthropic) -> Any:
        return client.messages.stream

    def _output_config(self, client: anthropic.AsyncAnthropic, form: Structured) -> dict[str, Any]:
        """Return the field that names the form of a reply; empty for an SDK that is older than it."""
        import anthropic

        transform = getattr(anthropic, "transform_schema", None)
        if transform is None or "output_config" not in signature(self._send(client)).parameters:
            return {}
        # the SDK's own function: bounds, which the interface refuses, become descriptions
        told = {"type": "json_schema", "schema": transform(dict(form.schema))}
        return {"output_config": self._placed.get("output_config", {}) | {"format": told}}

    async def _stream(
        self,
        client: anthropic.AsyncAnthropic,
        messages: Sequence[Message],
        cap: int,
        hear: Listener,
        *,
        logprobs: bool,
        temperature: float | None,
        form: Structured | None,
    ) -> Reply | None:
        fields = self._placed | {"model": self.endpoint.model, "max_tokens": cap} | _conversation(messages)
        if form is not None:
            fields |= self._output_config(client, form)
        async with self._send(client)(**fields) as stream:
            hear()
            began = False
            async for event in stream:
                began = True
                if hear(told_text(event.text, "text") if event.type == "text" else ""):
                    break
            if not began:
                return None
            final = stream.current_message_snapshot
        stop_reason = told_text(final.stop_reason, "stop_reason")
        closed = hear.over and not stop_reason
        if not stop_reason and not closed:
            return None
        text = "".join(told_text(block.text, "text") for block in final.content if block.type == "text")
        usage, estimated = _usage(final.usage, messages, text)
        if closed:  # what was read is told at the beginning, what was written at the end
            usage = replace(usage, output_tokens=max(usage.output_tokens, estimate_tokens(text)))
        return Reply(
            text=text,
            model=told_name(final.model) or self.endpoint.model,
            usage=usage,
            finish=_FINISH.get(stop_reason or "end_turn", "other"),
            estimated=estimated or closed,
        )


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    spoken: list[dict[str, Any]] = [
        {"role": message.role, "content": _content(message)} for message in messages if message.role != "system"
    ]
    if not system:
        return {"messages": spoken}
    if spoken and spoken[-1]["role"] == "user":
        said = spoken[-1]["content"]
        *parts, last = said if isinstance(said, list) else [{"type": "text", "text": said}]
        spoken[-1]["content"] = [*parts, {**last, **_CACHED}]
    return {"system": [{"type": "text", "text": system, **_CACHED}], "messages": spoken}


def _content(message: Message) -> str | list[dict[str, Any]]:
    parts = [_part(part) for part in message.parts if not isinstance(part, str) or part.strip()]
    return parts or (message.content if message.content.strip() else _EMPTY)


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = b64encode(part.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": data}}


def _usage(usage: Any, messages: Sequence[Message], text: str) -> tuple[Usage, bool]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    parts = [getattr(usage, name, None) for name in names]
    counts = [0 if part is None else tokens(part) for part in parts]
    # `input_tokens` there leaves the cache out
    known = [count for count in counts if count is not None]
    details = getattr(usage, "output_tokens_details", None)
    return counted(
        messages,
        text,
        read=sum(known) if len(known) == len(counts) else None,
        written=getattr(usage, "output_tokens", None),
        cached=parts[1],
        cache_write=parts[2],
        reasoning=getattr(details, "thinking_tokens", None),
    )
