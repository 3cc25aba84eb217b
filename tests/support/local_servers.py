"""The loopback server in the parts of llama.cpp, vLLM, Ollama and LM Studio: what they say of themselves, and refuse."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from tests.support.loopback import Fault, Loopback, Request, Said, Scripted


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which nobody listens; its port is held, so that no other program gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


class LocalServer(Loopback):
    """A server of one's own.

    Parameters
    ----------
    kind
        `llamacpp`, `vllm`, `ollama` or `lmstudio`.
    models
        What it lists, and the window of each.
    embeds
        Those of them that make embeddings only.
    slots
        What llama.cpp serves at once.
    loading
        Seconds in which llama.cpp answers 503, from the first request on; Ollama and LM Studio load for so long when
        asked to.
    thinks
        Seconds before the first word of a reply.
    sees
        Whether its models read images; `None`: it does not say.
    """

    def __init__(
        self,
        replies: Iterable[Scripted] = ("ok",),
        *,
        kind: str = "llamacpp",
        models: dict[str, int] | None = None,
        embeds: Iterable[str] = (),
        slots: int = 1,
        loading: float = 0.0,
        thinks: float = 0.0,
        sees: bool | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(replies, port=port)
        self.kind = kind
        self.models = {"coder": 16_384} if models is None else models
        self.embeds = set(embeds)
        self.slots = slots
        self.loading = loading
        self.thinks = thinks
        self.sees = sees
        self.asked: list[str] = []
        """Pages that were asked for, in order."""
        self.loaded: set[str] = set() if loading else set(self.models)
        self._ready_at: float | None = None

    def routes(self, app: web.Application) -> None:
        pages = {
            "llamacpp": {"/v1/models": self._openai, "/props": self._props},
            "vllm": {"/v1/models": self._openai},
            "ollama": {"/api/tags": self._tags, "/api/ps": self._ps},
            "lmstudio": {"/api/v0/models": self._lmstudio, "/v1/models": self._openai},
        }
        for path, page in pages[self.kind].items():
            app.router.add_get(path, page)
        if self.kind == "ollama":
            app.router.add_post("/api/show", self._show)
            app.router.add_post("/api/generate", self._load)

    def _still_loads(self) -> bool:
        now = self._loop.time()
        if self._ready_at is None:
            self._ready_at = now + self.loading
        return now < self._ready_at

    async def reply_to(self, request: Request) -> Said | Fault:
        await asyncio.sleep(self.thinks)
        name = str(request.body["model"])
        if self.kind == "llamacpp" and self._still_loads():
            return _LOADING
        if self.kind == "lmstudio" and name not in self.loaded:
            await asyncio.sleep(self.loading)
            self.loaded.add(name)
        if name in self.embeds:
            return Fault(501, {"error": {"code": 501, "message": "This server does not support completions."}})
        return await super().reply_to(request)

    async def _openai(self, http: web.Request) -> web.Response:
        self.asked.append(http.path)
        if self.kind == "llamacpp" and self._still_loads():
            assert _LOADING.body is not None
            return web.json_response(_LOADING.body, status=503)
        told = "max_model_len" if self.kind == "vllm" else "n_ctx"
        sizes = [(name, {told: window}) for name, window in self.models.items()]
        entries = [
            {"id": name, "object": "model", **(size if told != "n_ctx" else {"meta": size})} for name, size in sizes
        ]
        return web.json_response({"object": "list", "data": entries})

    async def _props(self, http: web.Request) -> web.Response:
        told = {} if self.sees is None else {"modalities": {"vision": self.sees, "audio": False}}
        return web.json_response({"total_slots": self.slots, "model_path": "/m.gguf"} | told)

    async def _tags(self, http: web.Request) -> web.Response:
        self.asked.append(http.path)
        return web.json_response({"models": [{"name": name, "model": name} for name in self.models]})

    async def _ps(self, http: web.Request) -> web.Response:
        running = [{"name": name, "context_length": self.models[name]} for name in self.models if name in self.loaded]
        return web.json_response({"models": running})

    async def _show(self, http: web.Request) -> web.Response:
        name = (await http.json())["model"]
        capabilities = (
            ["embedding"] if name in self.embeds else ["completion", "tools", *(["vision"] if self.sees else [])]
        )
        page: dict[str, Any] = {"capabilities": capabilities, "model_info": {"qwen2.context_length": 131_072}}
        return web.json_response(page)

    async def _load(self, http: web.Request) -> web.Response:
        name = (await http.json())["model"]
        await asyncio.sleep(self.loading)
        self.loaded |= {known for known in self.models if known in {name, f"{name}:latest"}}
        return web.json_response({"done": True})

    async def _lmstudio(self, http: web.Request) -> web.Response:
        entries = []
        for name, window in self.models.items():
            is_loaded = name in self.loaded
            kind = "embeddings" if name in self.embeds else "vlm" if self.sees else "llm"
            entry = {"id": name, "type": kind, "max_context_length": 131_072}
            entry |= {"state": "loaded", "loaded_context_length": window} if is_loaded else {"state": "not-loaded"}
            entries.append(entry)
        return web.json_response({"object": "list", "data": entries})


_LOADING = Fault(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
