"""Where models are served: providers as data.

Most speak the chat completions of OpenAI (https://platform.openai.com/docs/api-reference/chat) and differ in
an address, a key and a few words: how they are asked is written here. What servers say of themselves is read in
`servers.py`, their refusals in `sdk_errors.py`; what an image counts there is in `vision.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

WireFormat = Literal["openai", "azure", "anthropic", "extractive", "scripted"]
"""What is spoken."""
EMBEDDED: frozenset[WireFormat] = frozenset({"extractive", "scripted"})
"""Of models that are inside this package, and ask no server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider, and how it is reached."""

    provider: str
    """The part of a model's name before the first slash."""
    title: str
    """For people."""
    wire: WireFormat = "openai"
    base_url: str = ""
    """The address used when none is given; empty where there can't be one."""
    url_variables: tuple[str, ...] = ()
    """Environment variables that hold another address; the first that is set counts."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that hold the key; the first that is set counts."""
    needs_key: bool = True
    """Whether a key must be there before anything is asked. Never demanded for an address on this machine."""
    local: bool = False
    """The server is one's own: what it writes costs nothing."""
    start: str = ""
    """The command that starts it, for people."""
    temperature: float | None = None
    """What is sent where none is set. One's own server takes 0.7 or 0.8 for any text, at which a small model's code is
    wrong far more often."""
    slots: int | None = None
    """How many requests one's own server is sent at once where it doesn't say; what waits there may time out."""
    cap_field: Literal["max_completion_tokens", "max_tokens"] = "max_tokens"
    """What the request's output cap is called there."""
    prices: str | None = None
    """The provider's name in the price list; `litellm` there reads it off `maker/model`."""
    key_header: str | None = None
    """A header that carries the key, where it isn't the usual `Authorization`."""
    header_variables: Mapping[str, str] = field(default_factory=dict)
    """Further headers, and the environment variables they are read from, if set."""
    public_variables: tuple[str, ...] = ()
    """Those of them that hold no secret, so that redaction leaves what they say."""
    takes_schema: bool = False
    """Whether it can be given the form of a reply; a model that refuses that is asked without."""
    example: str = ""
    """A model's name, whole, as an example."""

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The environment variables that hold keys, or headers as secret as keys."""
        return (*self.key_variables, *(set(self.header_variables.values()) - set(self.public_variables)))


_FOR_CODE = 0.2

_PRESETS = (
    Preset(
        provider="openai",
        takes_schema=True,
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        url_variables=("OPENAI_BASE_URL",),
        key_variables=("OPENAI_API_KEY",),
        cap_field="max_completion_tokens",
        prices="openai",
        example="openai/gpt-5.4-mini",
    ),
    Preset(
        provider="anthropic",
        takes_schema=True,
        title="Anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        url_variables=("ANTHROPIC_BASE_URL",),
        key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        prices="anthropic",
        example="anthropic/claude-sonnet-5",
    ),
    Preset(
        provider="llamacpp",
        takes_schema=True,
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        url_variables=("LLAMACPP_BASE_URL",),
        key_variables=("LLAMACPP_API_KEY", "LLAMA_API_KEY"),
        needs_key=False,
        local=True,
        start="llama-server -m MODEL.gguf --port 8080",
        temperature=_FOR_CODE,
        slots=4,
        example="llamacpp/local",
    ),
    Preset(
        provider="vllm",
        takes_schema=True,
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        url_variables=("VLLM_BASE_URL",),
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        local=True,
        start="vllm serve MODEL",
        example="vllm/Qwen/Qwen3-8B",
    ),
    Preset(
        provider="ollama",
        takes_schema=True,
        title="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        url_variables=("OLLAMA_BASE_URL", "OLLAMA_HOST"),
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
        local=True,
        start="ollama serve",
        temperature=_FOR_CODE,
        slots=4,
        example="ollama/qwen3:8b",
    ),
    Preset(
        provider="lmstudio",
        takes_schema=True,
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        url_variables=("LMSTUDIO_BASE_URL",),
        key_variables=("LMSTUDIO_API_KEY",),
        needs_key=False,
        local=True,
        start="lms server start",
        temperature=_FOR_CODE,
        slots=4,
        example="lmstudio/qwen3-8b",
    ),
    Preset(
        provider="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        url_variables=("OPENROUTER_BASE_URL",),
        key_variables=("OPENROUTER_API_KEY",),
        prices="openrouter",
        example="openrouter/anthropic/claude-sonnet-4.5",
    ),
    Preset(
        provider="vercel",
        title="Vercel AI Gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        url_variables=("VERCEL_BASE_URL",),
        key_variables=("AI_GATEWAY_API_KEY",),
        prices="litellm",
        example="vercel/openai/gpt-5.4-mini",
    ),
    Preset(
        provider="gemini",
        takes_schema=True,
        title="Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        url_variables=("GEMINI_BASE_URL",),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        prices="google",
        example="gemini/gemini-2.5-flash",
    ),
    Preset(
        provider="azure_openai",
        takes_schema=True,
        title="Azure OpenAI",
        wire="azure",
        url_variables=("AZURE_OPENAI_ENDPOINT",),
        key_variables=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        cap_field="max_completion_tokens",
        prices="azure",
        example="azure_openai/NAME-OF-YOUR-DEPLOYMENT",
    ),
    Preset(
        provider="portkey",
        title="Portkey",
        base_url="https://api.portkey.ai/v1",
        url_variables=("PORTKEY_BASE_URL",),
        key_variables=("PORTKEY_API_KEY",),
        prices="litellm",
        key_header="x-portkey-api-key",
        header_variables={
            "x-portkey-provider": "PORTKEY_PROVIDER",
            "x-portkey-virtual-key": "PORTKEY_VIRTUAL_KEY",
            "x-portkey-config": "PORTKEY_CONFIG",
        },
        public_variables=("PORTKEY_PROVIDER",),
        example="portkey/@my-provider/gpt-5.4-mini",
    ),
    Preset(
        provider="litellm",
        title="a LiteLLM proxy",
        base_url="http://127.0.0.1:4000/v1",
        url_variables=("LITELLM_BASE_URL",),
        key_variables=("LITELLM_API_KEY",),
        needs_key=False,
        prices="litellm",
        example="litellm/openai/gpt-5.4-mini",
    ),
    Preset(
        provider="extractive",
        title="the embedded picker of passages (no language model, no network)",
        wire="extractive",
        needs_key=False,
        local=True,
        example="extractive/bm25",
    ),
    Preset(
        provider="scripted",
        title="replies read from a JSON file",
        wire="scripted",
        needs_key=False,
        local=True,
        example="scripted/replies.json",
    ),
)

PROVIDERS: Mapping[str, Preset] = MappingProxyType({preset.provider: preset for preset in _PRESETS})
"""Every provider there is, by name."""
