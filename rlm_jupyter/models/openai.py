"""Chat completions: OpenAI, and every server that speaks as it does.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.endpoint import on_this_machine
from rlm_jupyter.models.hosted import REQUEST_SECONDS, HostedModel, Listener
from rlm_jupyter.tokens import estimate_tokens
from rlm_jupyter.types import FinishReason, Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import openai
    from openai.types import CompletionUsage

_FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length", "content_filter": "refusal"}
_CONNECT_SECONDS = 5.0
_NO_KEY = "none"
"""The SDK insists on a key; servers of one's own read none."""


class OpenAIModel(HostedModel):
    """A model behind an endpoint that speaks chat completions, always streamed."""

    sdk = "openai"
    tells_logprobs = True

    @property
    def takes_temperature(self) -> bool:
        """One's own server does; of a provider's models, some refuse it, but not where the user has set one."""
        return self.endpoint.is_own or "temperature" in self.options

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        at = self.endpoint
        if at.preset.wire == "azure":
            is_token = at.key_variable == "AZURE_OPENAI_AD_TOKEN"
            return openai.AsyncAzureOpenAI(
                azure_endpoint=at.url,
                azure_deployment=at.model,
                api_version=at.api_version,
                api_key=None if is_token else at.key or _NO_KEY,
                azure_ad_token=at.key if is_token else None,
                max_retries=0,
            )
        client = openai.AsyncOpenAI(
            base_url=at.url,
            api_key=_NO_KEY if at.key is None or at.preset.key_header else at.key,
            default_headers=dict(at.headers),
            max_retries=0,
            timeout=openai.Timeout(max(self.patience, REQUEST_SECONDS), connect=_CONNECT_SECONDS),
            # a proxy that the environment names can't reach this machine from where it is
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if on_this_machine(at.url) else None,
        )
        if at.preset.provider != "openai":
            client.organization = client.project = None  # read from OPENAI_*: nobody else's business
        return client

    def _send(self, client: openai.AsyncOpenAI) -> Any:
        return client.chat.completions.create

    async def _stream(
        self,
        client: openai.AsyncOpenAI,
        messages: Sequence[Message],
        cap: int,
        hear: Listener,
        *,
        logprobs: bool,
        temperature: float | None,
    ) -> Reply | None:
        fields = self._placed | {self.endpoint.preset.cap_field: cap} | ({"logprobs": True} if logprobs else {})
        if temperature is not None:
            fields["temperature"] = temperature
        if self.endpoint.preset.provider == "llamacpp":
            # tells now and then how far it is with a long prompt, so that the connection is not silent for minutes
            fields["extra_body"] = {"return_progress": True} | (fields.get("extra_body") or {})
        told: list[float] = []
        pieces: list[str] = []
        refusal: list[str] = []
        finish = usage = None
        model = self.endpoint.model
        stream = await self._send(client)(
            model=self.endpoint.model,
            messages=[_wire(message) for message in messages],
            stream=True,
            stream_options={"include_usage": True},
            **fields,
        )
        hear()
        async with stream:
            async for chunk in stream:
                hear()
                model = chunk.model or model
                usage = chunk.usage or usage
                # The last chunk has the usage and no choice; some servers send `null` for the list.
                for choice in chunk.choices or ():
                    finish = choice.finish_reason or finish
                    text = (choice.delta.content or "") if choice.delta else ""
                    refusal.append((choice.delta.refusal or "") if choice.delta else "")
                    pieces.append(text)
                    told += [token.logprob for token in (choice.logprobs and choice.logprobs.content) or ()]
                    hear(text)
                if hear.over:
                    break
        if finish is None and not hear.over:
            return None
        text, refused = "".join(pieces), "".join(refusal)
        return Reply(
            text=text or refused,
            model=model,
            usage=_usage(usage) if usage is not None else _estimate(messages, text),
            finish="refusal" if refused and not text else _FINISH.get(finish or "stop", "other"),
            token_confidence=math.exp(min(math.fsum(told) / len(told), 0.0)) if told else None,
            estimated=usage is None,
        )


def _wire(message: Message) -> Any:
    return {"role": message.role, "content": message.content}


def _usage(usage: CompletionUsage) -> Usage:
    read, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
    of_read, of_written = usage.prompt_tokens_details, usage.completion_tokens_details
    # Some endpoints (Gemini's) leave thinking out of `completion_tokens` and count it in the total only.
    written = max(written, (usage.total_tokens or 0) - read)
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=(of_read.cached_tokens or 0) if of_read else 0,
        cache_write_tokens=(getattr(of_read, "cache_write_tokens", None) or 0) if of_read else 0,
        reasoning_tokens=(of_written.reasoning_tokens or 0) if of_written else 0,
    )


def _estimate(messages: Sequence[Message], text: str) -> Usage:
    """For a server that counts nothing: so that limits still mean something."""
    return Usage(sum(estimate_tokens(message.content) for message in messages), estimate_tokens(text))
