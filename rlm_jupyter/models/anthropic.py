"""Anthropic's messages.

https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.client_pool import TIMEOUTS, http_arguments
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.listener import Listener
from rlm_jupyter.models.reply_fields import MalformedReply, kind_of, told_name, told_text
from rlm_jupyter.models.usage import counted, tokens
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import FinishReason, Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        return client.messages.create

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
        message = _Message()
        stream = await self._send(client)(**fields, stream=True)
        hear()
        async with stream:
            async for event in stream:
                if hear(message.take(event)):
                    break
        if not message.told:
            return None
        if not message.begun:
            raise MalformedReply("no message_start is in it")
        if not message.stop_reason and not hear.over:
            return None
        text = message.text
        usage, estimated = _usage(message.counts, messages, text)
        return Reply(
            text=text,
            model=message.model or self.endpoint.model,
            usage=usage,
            finish=_FINISH.get(message.stop_reason or "end_turn", "other"),
            estimated=estimated,
        )


_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens_details")


@dataclass(slots=True)
class _Message:
    """What has come of a message, event by event.

    The SDK can gather it too (`messages.stream`), but fails on a server that tells no usage.
    """

    told: bool = False
    """Any event has come."""
    begun: bool = False
    model: str = ""
    stop_reason: str = ""
    counts: dict[str, Any] = field(default_factory=dict)
    """Of the usage, by the interface's names, what was told last."""
    _kinds: list[str] = field(default_factory=list)
    _blocks: list[list[str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return what is visible."""
        return "".join("".join(pieces) for pieces in self._blocks)

    def take(self, event: Any) -> str:
        """Add an event; return the visible text that it brings.

        Raises
        ------
        MalformedReply
            It is not what the interface has there.
        """
        self.told = True
        if not hasattr(event, "type"):  # the SDK makes an object of nothing but an object
            raise MalformedReply(f"an event is {kind_of(event)}, not an object")
        if event.type == "message_start":
            if not hasattr(event.message, "model"):
                raise MalformedReply(f"the message is {kind_of(event.message)}, not an object")
            self.begun = True
            self.model = told_name(event.message.model)
            self._count(event.message)
        elif not self.begun:
            return ""
        elif event.type == "content_block_start":
            self._kinds.append(event.content_block.type)
            self._blocks.append([])
            return self._add(-1, event.content_block)
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            return self._add(event.index, event.delta)
        elif event.type == "message_delta":
            self.stop_reason = told_text(event.delta.stop_reason, "stop_reason") or self.stop_reason
            self._count(event)
            # only the end tells what was written: at the beginning it is a token or so
            self.counts["output_tokens"] = getattr(getattr(event, "usage", None), "output_tokens", None)
        return ""

    def _add(self, index: int, holder: Any) -> str:
        if self._kinds[index] != "text":
            return ""
        text = told_text(holder.text, "text")
        self._blocks[index].append(text)
        return text

    def _count(self, holder: Any) -> None:
        """Take the counts that are told; those that are not keep their last value."""
        usage = getattr(holder, "usage", None)
        told = {name: getattr(usage, name, None) for name in _COUNTS}
        self.counts |= {name: count for name, count in told.items() if count is not None}


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


def _usage(counts: Mapping[str, Any], messages: Sequence[Message], text: str) -> tuple[Usage, bool]:
    *parts, details = map(counts.get, _COUNTS)
    # `input_tokens` there leaves the cache out
    known = [count for count in (0 if part is None else tokens(part) for part in parts) if count is not None]
    return counted(
        messages,
        text,
        read=sum(known) if len(known) == len(parts) else None,
        written=counts.get("output_tokens"),
        cached=parts[1],
        cache_write=parts[2],
        reasoning=getattr(details, "thinking_tokens", None),
    )
