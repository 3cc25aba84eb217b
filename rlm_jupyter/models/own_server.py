"""`OwnServer`: what a server of one's own says of the model that it serves, before it is asked and while it is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rlm_jupyter.models import sdk_errors
from rlm_jupyter.models.discovery import listed
from rlm_jupyter.models.http import THREAD, FetchError
from rlm_jupyter.models.servers import LOOK_SECONDS, Served, Server, load, look
from rlm_jupyter.models.suggested import model_meant
from rlm_jupyter.types.detached import detached
from rlm_jupyter.types.errors import ModelError
from rlm_jupyter.types.suggestion import did_you_mean
from rlm_jupyter.types.values import Reply

if TYPE_CHECKING:
    from rlm_jupyter.models.endpoint import Endpoint

_LOOK_AGAIN_SECONDS = 0.5
_LOADING = 503
_ANY_NAME = "local"
"""Stands for whatever llama.cpp serves: it answers to every name."""


class OwnServer:
    """Asks llama.cpp, Ollama, LM Studio, vLLM what they serve; providers on the network are not asked.

    Parameters
    ----------
    endpoint
        Where the model is asked.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.remark = ""
        """What people should know of who answers: another model than the one that was named. Empty: nothing."""
        self.slots: int | None = None
        """How many requests it takes at once; `None`: it has not said."""
        self.window: int | None = None
        """Tokens, input and output; `None`: it has not said."""
        self.sees: bool | None = None
        """Whether the model reads images; `None`: it has not said."""
        self._is_known = False

    async def prepare(self, tell: Callable[[str], None], stop: asyncio.Event, seconds: float | None = None) -> None:
        """See to it that it is there and ready: `HostedModel.prepare` says more."""
        if not self.endpoint.preset.local:
            return
        began = time.monotonic()
        server = await self._ready(tell, stop, None if seconds is None else began + seconds)
        if server is not None and not stop.is_set():
            self._take(server, check=True)

    async def look(self) -> None:
        """Ask it once, where that was not done; what is wrong the request itself will say."""
        if self.endpoint.preset.local and not self._is_known:
            await detached(self.look_now, THREAD)

    def look_now(self, seconds: float = LOOK_SECONDS) -> None:
        """Do as `look`, for who waits outside of an event loop; each page has to be there in so many seconds."""
        if self.endpoint.preset.local and not self._is_known:
            with contextlib.suppress(FetchError):
                self._take(look(self.endpoint, seconds=seconds), check=False)

    async def meant(self) -> str | None:
        """Return the name of the model that was probably meant, of those that the server lists."""
        at = self.endpoint
        if at.preset.wire == "azure":
            return None  # it lists what could be deployed, and not what is
        with contextlib.suppress(FetchError):
            server = await detached(lambda: look(at, whole=False), THREAD)
            return model_meant(at.name, [model.name for model in server.models])
        return None

    async def _ready(self, tell: Callable[[str], None], stop: asyncio.Event, until: float | None) -> Server | None:
        """Return what the server says once it has loaded the model."""
        at, told = self.endpoint, False
        loading: asyncio.Task[None] | None = None
        try:
            while True:
                try:
                    server = await detached(lambda: look(at), THREAD)
                except FetchError as error:
                    if error.status is None and "timed out" not in error.said:
                        raise sdk_errors.not_there(at, error.said) from None
                    if error.status != _LOADING:
                        return None  # it has no such page, or is busy: the request will say what is wrong
                else:
                    model = server.find(at.model)
                    if model is None or model.is_loaded or model.embeds or (loading is not None and loading.done()):
                        return server
                    # what it loads by itself with the first request it loads now: only then it knows the window
                    loading = loading or asyncio.create_task(self._load())
                if not told:
                    told = True
                    tell(f"{at.preset.title} at {at.shown_url} loads {at.model}: waiting for it.")
                if await _stopped(stop, loading) or (until is not None and time.monotonic() > until):
                    break
        finally:
            if loading is not None:
                loading.cancel()
        if stop.is_set():
            return None
        raise sdk_errors.still_loading(at)

    async def _load(self) -> None:
        try:
            await detached(lambda: load(self.endpoint), THREAD)
        except FetchError:
            return  # the request itself will say why

    def _take(self, server: Server, *, check: bool) -> None:
        """Take over what the server says of the model."""
        at, self._is_known = self.endpoint, True
        model = server.find(at.model)
        if model is None:
            self._miss(server.models, check=check)
        if model is not None and model.embeds and check:
            raise ModelError(f"{at.name} makes embeddings only, it can't write: name another model.")
        if model is None and len(server.models) == 1:
            model = server.models[0]
        self.slots = server.slots
        if model is not None and model.window is not None:
            self.window = model.window
        self.sees = None if model is None else model.sees

    def _miss(self, models: Sequence[Served], *, check: bool) -> None:
        """Raise where the server has no model of that name; llama.cpp answers to every name."""
        at = self.endpoint
        if not models:
            return
        if at.preset.provider == "llamacpp":
            if len(models) == 1 and at.model != _ANY_NAME:
                self.remark = (
                    f"{at.preset.title} at {at.shown_url} serves {models[0].name}, which answers for {at.model!r}."
                )
            return
        if not check:
            return
        pull = f" Get it: ollama pull {at.model}." if at.preset.provider == "ollama" else ""
        meant = did_you_mean(model_meant(at.name, [model.name for model in models]))
        raise ModelError(
            f"{at.name}: {at.preset.title} at {at.shown_url} serves {listed(models)}, not that model.{meant}{pull}"
        )

    def compare(self, reply: Reply) -> None:
        """Check whether the model that was named has answered."""
        at = self.endpoint
        if not at.preset.local or self.remark or self._is_known or at.model == _ANY_NAME or not reply.model:
            return  # what the server has listed was compared already
        if reply.model.removesuffix(":latest") != at.model.removesuffix(":latest"):
            self.remark = f"{at.preset.title} at {at.shown_url} answers for {at.model!r} with {reply.model}."


async def _stopped(stop: asyncio.Event, loading: asyncio.Task[None] | None) -> bool:
    """Wait a moment, or until the model is loaded; whether the waiting is to end."""
    stopping = asyncio.create_task(stop.wait())
    waited = [stopping, *([] if loading is None else [loading])]
    await asyncio.wait(waited, timeout=_LOOK_AGAIN_SECONDS, return_when="FIRST_COMPLETED")
    stopping.cancel()
    return stop.is_set()
