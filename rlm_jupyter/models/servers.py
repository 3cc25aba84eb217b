"""`Server`: what a server says of itself: which models it has, how much they read, how many requests it serves at once.

https://github.com/ggml-org/llama.cpp/tree/master/tools/server, https://github.com/ollama/ollama/blob/main/docs/api.md,
https://lmstudio.ai/docs/developer/rest/endpoints, https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from rlm_jupyter.models.endpoint import Endpoint
from rlm_jupyter.models.http import FetchError, fetch
from rlm_jupyter.models.usage import tokens

LOOK_SECONDS = 5.0
"""For one of its pages; then a server is taken for busy."""
LOAD_SECONDS = 1800.0
"""In which a server has read a model's weights."""
_OLLAMA_WINDOW = 4096
"""Where an older Ollama does not say it; it cuts off silently what is more."""
_NAME_CHARS = 200
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that a server has."""

    name: str
    """As the server calls it."""
    window: int | None = None
    """In tokens, as it is served; `None`: not told."""
    embeds: bool = False
    """It makes embeddings and writes nothing."""
    sees: bool | None = None
    """It reads images; `None`: not told."""
    aliases: tuple[str, ...] = ()
    is_loaded: bool = True
    """Ready to answer; else the first request waits until its weights are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server has said."""

    models: tuple[Served, ...] = ()
    slots: int | None = None
    """How many requests it serves at once; `None`: not told."""

    def find(self, name: str) -> Served | None:
        """Return the model of that name, or alias."""
        # Ollama's models have a tag, and `latest` may be left out
        names = {name, f"{name}:latest"}
        return next((model for model in self.models if names & {model.name, *model.aliases}), None)


def look(endpoint: Endpoint, *, seconds: float = LOOK_SECONDS, whole: bool = True) -> Server:
    """Ask a server what it serves.

    Parameters
    ----------
    endpoint
        With its model named, as much as can be told of that one is asked for as well.
    seconds
        In which each page has to be there.
    whole
        Ask for windows and slots too, where that takes more than one request.

    Raises
    ------
    FetchError
        It is not there (no status), loads its model (503), wants a key (401), or has no such page (404).
    """
    provider = endpoint.preset.provider
    asked = _Asked(endpoint, seconds)
    if provider == "ollama":
        return _ollama(asked, whole)
    if provider == "lmstudio":
        try:
            return _lmstudio(asked)
        except FetchError as error:
            if error.status is None:
                raise
            # an older one, which has chat completions alone
    server = Server(models=tuple(map(_listed, _entries(asked.get(_listing(endpoint)), "data", "id"))))
    return _with_slots(asked, server) if provider == "llamacpp" and whole else server


def load(endpoint: Endpoint, *, seconds: float = LOAD_SECONDS) -> None:
    """Let one's own server read the weights of a model, so that it can say how much that one reads.

    Raises
    ------
    FetchError
        It can't.
    """
    asked = _Asked(endpoint, seconds)
    if endpoint.preset.provider == "ollama":
        asked.post(f"{_root(endpoint)}/api/generate", {"model": endpoint.model})
    else:
        hello = [{"role": "user", "content": "Hi"}]
        said = {"model": endpoint.model, "messages": hello, "max_tokens": 1}
        asked.post(f"{endpoint.url}/chat/completions", said)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A server that is asked."""

    endpoint: Endpoint
    seconds: float

    def get(self, url: str) -> dict[str, Any]:
        return fetch(url, seconds=self.seconds, headers=self._headers())

    def post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        return fetch(url, seconds=self.seconds, headers=self._headers(), body=body)

    def _headers(self) -> dict[str, str]:
        at = self.endpoint
        headers = dict(at.headers)
        if at.preset.wire == "anthropic":
            headers["anthropic-version"] = _ANTHROPIC_VERSION
            if at.key and at.key_variable != "ANTHROPIC_AUTH_TOKEN":
                return {**headers, "x-api-key": at.key}
        if at.key and not at.preset.key_header:
            headers["authorization"] = f"Bearer {at.key}"
        return headers


def _listing(endpoint: Endpoint) -> str:
    return f"{endpoint.url}/v1/models?limit=1000" if endpoint.preset.wire == "anthropic" else f"{endpoint.url}/models"


def _root(endpoint: Endpoint) -> str:
    """Return the address without the part that speaks as OpenAI does."""
    return endpoint.url.removesuffix("/v1")


def _listed(entry: dict[str, Any]) -> Served:
    """Return a model as `/v1/models` has it: of llama.cpp, vLLM, OpenRouter, Vercel and others."""
    meta = _part(entry, "meta")
    sizes = (meta.get("n_ctx"), *(entry.get(name) for name in ("max_model_len", "context_length", "context_window")))
    architecture = _part(entry, "architecture")
    modalities = architecture.get("output_modalities")
    status, aliases = _part(entry, "status").get("value"), entry.get("aliases")
    return Served(
        name=_text(entry, "id").removeprefix("models/"),  # as Gemini begins them
        window=next(filter(None, map(_size, sizes)), None),
        embeds=_text(entry, "type").startswith("embedding") or modalities in (["embeddings"], ["embedding"]),
        sees=_lists(architecture.get("input_modalities"), "image"),
        aliases=tuple(alias for alias in aliases if isinstance(alias, str)) if isinstance(aliases, list) else (),
        is_loaded=status is None or status == "loaded",
    )


def _with_slots(asked: _Asked, server: Server) -> Server:
    """Return what llama.cpp has on a page of its own. Its window is that of one slot already."""
    try:
        props = asked.get(f"{_root(asked.endpoint)}/props?model={quote(asked.endpoint.model, safe='')}&autoload=false")
    except FetchError as error:
        if error.status == 503:
            raise
        return server
    told = _part(props, "modalities").get("vision")
    if isinstance(told, bool):  # of the one model that it has loaded
        server = replace(server, models=tuple(replace(model, sees=told) for model in server.models))
    return replace(server, slots=_size(props.get("total_slots")))


def _lmstudio(asked: _Asked) -> Server:
    models = []
    for entry in _entries(asked.get(f"{_root(asked.endpoint)}/api/v0/models"), "data", "id"):
        is_loaded = entry.get("state") != "not-loaded"
        window = _size(entry.get("loaded_context_length"))
        if window is None and is_loaded:
            window = _size(entry.get("max_context_length"))
        kind = _text(entry, "type")
        embeds, sees = kind.startswith("embedding"), kind == "vlm" if kind else None
        models.append(Served(name=_text(entry, "id"), window=window, embeds=embeds, sees=sees, is_loaded=is_loaded))
    return Server(models=tuple(models))


def _ollama(asked: _Asked, whole: bool) -> Server:
    root, wanted = _root(asked.endpoint), asked.endpoint.model
    names = [_text(entry, "name") for entry in _entries(asked.get(f"{root}/api/tags"), "models", "name")]
    slots = os.environ.get("OLLAMA_NUM_PARALLEL", "")
    server = Server(
        models=tuple(Served(name=name, is_loaded=False) for name in names),
        slots=int(slots) if slots.isdecimal() and int(slots) else None,
    )
    if not whole:
        return server
    running = {_text(entry, "name"): entry for entry in _entries(asked.get(f"{root}/api/ps"), "models", "name")}
    chosen = server.find(wanted)
    described = [chosen] if chosen is not None else server.models if not wanted else []
    shown = {model.name: _ollama_model(asked, model.name, running.get(model.name)) for model in described}
    return replace(server, models=tuple(shown.get(model.name, model) for model in server.models))


def _ollama_model(asked: _Asked, name: str, running: dict[str, Any] | None) -> Served:
    shown = asked.post(f"{_root(asked.endpoint)}/api/show", {"model": name})
    capabilities = shown.get("capabilities")
    embeds = isinstance(capabilities, list) and "embedding" in capabilities and "completion" not in capabilities
    told = _part(shown, "model_info")
    most = next((_size(size) for key, size in told.items() if key.endswith(".context_length")), None)
    parameters = shown.get("parameters")
    number = re.search(r"^num_ctx\s+([0-9]{1,9})\b", parameters if isinstance(parameters, str) else "", re.MULTILINE)
    window = _size((running or {}).get("context_length")) or (int(number[1]) if number else None)
    if window is None and running is not None:
        window = _OLLAMA_WINDOW
    return Served(
        name=name,
        window=min(window, most) if window and most else window,
        embeds=embeds,
        sees=_lists(capabilities, "vision"),
        is_loaded=running is not None or embeds,
    )


def _entries(page: dict[str, Any], name: str, named_by: str) -> list[dict[str, Any]]:
    """Return a page's list of things that have a name."""
    found = page.get(name)
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [entry for entry in entries if _text(entry, named_by)]


def _part(entry: dict[str, Any], name: str) -> dict[str, Any]:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _text(entry: dict[str, Any], name: str) -> str:
    """Return a line of bounded length that may be shown; empty where there is none."""
    found = entry.get(name)
    return "".join(c for c in found[:_NAME_CHARS] if c.isprintable()) if isinstance(found, str) else ""


def _lists(value: object, name: str) -> bool | None:
    """Return whether a list has an item of that name; `None`: it is no list."""
    return name in value if isinstance(value, list) else None


def _size(value: object) -> int | None:
    return tokens(value) or None
