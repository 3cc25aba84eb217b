"""Chat completions: OpenAI, and every server that speaks as it does.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.client_pool import TIMEOUTS, http_arguments
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.listener import Listener
from rlm_jupyter.models.reply_fields import MalformedReply, kind_of, told_name, told_text
from rlm_jupyter.models.usage import counted, tokens
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import FinishReason, Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import openai

    from rlm_jupyter.models.structured import Structured

_FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length", "content_filter": "refusal"}
_LEAST_LOGPROB = -1e4
_NO_KEY = "none"
"""The SDK insists on a key; servers of one's own read none."""


class OpenAIModel(HostedModel):
    """A model behind an endpoint that speaks chat completions, always streamed."""

    sdk = "openai"
    gives_logprobs = True

    @property
    def takes_temperature(self) -> bool:
        """One's own server does; of a provider's models, some refuse it, but not where the user has set one."""
        return self.endpoint.is_own or "temperature" in self.options

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        at = self.endpoint
        http_client = openai.DefaultAsyncHttpxClient(**http_arguments(self.endpoint.url))
        if at.preset.wire == "azure":
            is_token = at.key_variable == "AZURE_OPENAI_AD_TOKEN"
            return openai.AsyncAzureOpenAI(
                azure_endpoint=at.url,
                azure_deployment=at.model,
                api_version=at.api_version,
                api_key=None if is_token else at.key or _NO_KEY,
                azure_ad_token=at.key if is_token else None,
                max_retries=0,
                timeout=openai.Timeout(**TIMEOUTS),
                http_client=http_client,
            )
        client = openai.AsyncOpenAI(
            base_url=at.url,
            api_key=_NO_KEY if at.key is None or at.preset.key_header else at.key,
            default_headers=dict(at.headers),
            max_retries=0,
            timeout=openai.Timeout(**TIMEOUTS),
            http_client=http_client,
        )
        if at.preset.provider != "openai":
            client.organization = client.project = None  # read from OPENAI_*: nobody else's business
        return client

    def _send(self, client: openai.AsyncOpenAI) -> Any:
        return client.chat.completions.create

    def _fields(
        self, cap: int, *, logprobs: bool, temperature: float | None, form: Structured | None
    ) -> dict[str, Any]:
        """Return what a request says beside its messages."""
        fields = self._placed | {self.endpoint.preset.cap_field: cap} | ({"logprobs": True} if logprobs else {})
        if temperature is not None:
            fields["temperature"] = temperature
        if form is not None and "response_format" not in fields:
            # strict would refuse optional fields and bounds; one's own servers keep to the schema in any case
            named = {"name": "reply", "schema": dict(form.schema), "strict": False}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        if self.endpoint.preset.provider == "llamacpp":
            # tells now and then how far it is with a long prompt, so that the connection is not silent for minutes
            fields["extra_body"] = {"return_progress": True} | (fields.get("extra_body") or {})
        return fields

    async def _stream(
        self,
        client: openai.AsyncOpenAI,
        messages: Sequence[Message],
        cap: int,
        hear: Listener,
        *,
        logprobs: bool,
        temperature: float | None,
        form: Structured | None,
    ) -> Reply | None:
        fields = self._fields(cap, logprobs=logprobs, temperature=temperature, form=form)
        probabilities: list[float] = []
        pieces: list[str] = []
        refusal: list[str] = []
        finish: str = ""
        usage: Any = None
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
                if not hasattr(chunk, "choices"):  # the SDK makes an object of nothing but an object
                    raise MalformedReply(f"an event is {kind_of(chunk)}, not an object")
                model = told_name(chunk.model) or model
                usage = chunk.usage or usage
                # The last chunk has the usage and no choice; some servers send `null` for the list.
                for choice in chunk.choices or ():
                    finish = told_text(choice.finish_reason, "finish_reason") or finish
                    text = told_text(choice.delta.content, "content") if choice.delta else ""
                    refusal.append(told_text(choice.delta.refusal, "refusal") if choice.delta else "")
                    pieces.append(text)
                    if logprobs:
                        probabilities += _logprobs(choice.logprobs)
                    hear(text)
                if hear.over:
                    break
        if not finish and not hear.over:
            return None
        text, refused = "".join(pieces), "".join(refusal)
        used, estimated = _usage(usage, messages, text or refused)
        return Reply(
            text=text or refused,
            model=model,
            usage=used,
            finish="refusal" if refused and not text else _FINISH.get(finish or "stop", "other"),
            token_confidence=math.exp(math.fsum(probabilities) / len(probabilities)) if probabilities else None,
            estimated=estimated,
        )


def _wire(message: Message) -> Any:
    content: Any = [_part(part) for part in message.parts if part != ""] or message.content
    return {"role": message.role, "content": content}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{b64encode(part.data).decode()}"}}


def _logprobs(told: Any) -> list[float]:
    """Return the tokens' logarithms, less what is none."""
    numbers = [token.logprob for token in (told and told.content) or ()]
    return [
        min(max(number, _LEAST_LOGPROB), 0.0)
        for number in numbers
        if isinstance(number, int | float) and not math.isnan(number)
    ]


def _usage(usage: Any, messages: Sequence[Message], text: str) -> tuple[Usage, bool]:
    read, written, total = (
        getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    # Some endpoints (Gemini's) leave thinking out of `completion_tokens` and count it in the total only.
    if (known := tokens(written)) is not None:
        written = max(known, (tokens(total) or 0) - (tokens(read) or 0)) if tokens(read) else known
    of_read, of_written = (getattr(usage, f"{name}_tokens_details", None) for name in ("prompt", "completion"))
    return counted(
        messages,
        text,
        read=read,
        written=written,
        cached=getattr(of_read, "cached_tokens", None),
        cache_write=getattr(of_read, "cache_write_tokens", None),
        reasoning=getattr(of_written, "reasoning_tokens", None),
    )
