"""`HostedModel`: what every model behind an address has in common, whichever SDK speaks to it."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from rlm_jupyter.errors import ContextWindowError
from rlm_jupyter.models import faults, prices
from rlm_jupyter.models.client import Clients
from rlm_jupyter.tokens import DEFAULT_WINDOW
from rlm_jupyter.types import Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rlm_jupyter.models.endpoint import Endpoint

REQUEST_SECONDS = 600.0
"""How long a request may be silent. It starts anew with everything that arrives, so a long reply that keeps
coming is never cut."""


class Listener:
    """Hears a reply arrive: hands its text on, and puts the deadline off."""

    def __init__(
        self,
        deadline: asyncio.Timeout,
        patience: float,
        on_text: Callable[[str], None] | None,
        until: Callable[[str], bool] | None = None,
    ) -> None:
        self.started = False
        """The server has begun to stream."""
        self.heard = False
        """Visible text has arrived."""
        self.over = False
        """Nobody wants to hear the rest."""
        self._deadline, self._patience, self._on_text, self._until = deadline, patience, on_text, until

    def __call__(self, text: str = "") -> bool:
        """Something arrived; `text` is what is visible of it. `True`: the rest need not come."""
        self.started = True
        self._deadline.reschedule(asyncio.get_running_loop().time() + self._patience)
        if text:
            self.heard = True
            if self._on_text is not None:
                self._on_text(text)
            self.over = self.over or (self._until is not None and self._until(text))
        return self.over


class HostedModel(ABC):
    """A model that is asked over HTTP.

    Parameters
    ----------
    endpoint
        Where it is asked.
    window
        Its window in tokens; by default what the server or the price list says.
    temperature
        Sent with every request that names no other; by default none is, and the server has its own.
    patience
        Seconds of silence after which a request is given up.
    """

    closes_early: ClassVar[bool] = True
    """It takes `until`."""
    sdk: ClassVar[str]
    """The module that speaks to the server; imported with the first lease, away from the event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        window: int | None = None,
        temperature: float | None = None,
        patience: float = REQUEST_SECONDS,
    ) -> None:
        self.endpoint = endpoint
        self.temperature = temperature
        self.patience = patience
        self._window = window
        self._clients: Clients[Any] = Clients(self._open)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint.url}>"

    @property
    def name(self) -> str:
        """`provider/model`."""
        return self.endpoint.name

    @property
    def provider(self) -> str:
        """Who refuses everybody when it refuses one request: the address."""
        return self.endpoint.url

    @property
    def window(self) -> int:
        """Tokens, input and output. One's own server is asked when the first lease begins."""
        if self._window is None:
            self._window = prices.window(self.name)
        return self._window or DEFAULT_WINDOW

    def cost(self, usage: Usage) -> float | None:
        """What `usage` costs at list price, in US dollars; `None` when unknown."""
        return prices.cost(self.name, usage)

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Keep the connections open between requests."""
        async with self._clients.lease():
            yield

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
        logprobs: bool = False,
        until: Callable[[str], bool] | None = None,
        temperature: float | None = None,
    ) -> Reply:
        """Ask for a reply to `messages`, of at most `max_output_tokens`; once, the SDK's own retries are off.

        Whoever asks for a whole tree (`calls.ask`) knows better when it is time to ask again.
        `logprobs` asks for `token_confidence` too, where the provider tells it.
        `until` gets the same pieces as `on_text`; when it says `True`, the request is closed, which frees the server at
        once, and the reply is what has come, its usage estimated.
        `on_text` gets the visible text piece by piece. An empty reply comes back as it is, with its `finish`.

        Raises
        ------
        ContextWindowError
            The messages do not fit the window.
        ModelUnavailableError
            No answer: refused, overloaded, silent for `patience` seconds, or broken off. It says whether, and
            when, asking again may help.
        ModelError
            Anything else that asking again would not mend, such as a wrong key.
        """
        wire = [Message(message.role, _sendable(message.content)) for message in messages]
        options = {"logprobs": logprobs, "temperature": self.temperature if temperature is None else temperature}
        async with self._clients.lease() as client:
            return await self._attempt(client, wire, max_output_tokens, on_text, until, options)

    async def _attempt(
        self,
        client: Any,
        messages: Sequence[Message],
        cap: int,
        on_text: Callable[[str], None] | None,
        until: Callable[[str], bool] | None,
        options: dict[str, Any],
    ) -> Reply:
        sdk = import_module(self.sdk)
        deadline = asyncio.timeout(self.patience)
        hear = Listener(deadline, self.patience, on_text, until)
        try:
            async with deadline:
                reply = await self._stream(client, messages, cap, hear, **options)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise faults.silent(self.endpoint, self.patience) from None
        except (sdk.APIError, json.JSONDecodeError, *faults.transport_errors()) as error:
            # A server may echo the key: then the cause must not be shown either.
            cause = None if self.endpoint.key and self.endpoint.key in str(error) else error
            if hear.started and not getattr(error, "body", None):
                raise faults.broken_off(self.endpoint, after_text=hear.heard) from cause
            raised = faults.model_error(error, self.endpoint)
            if isinstance(raised, ContextWindowError) and raised.window:
                self._window = raised.window  # it knows better than any list
            raise raised from cause
        if reply is None:
            raise faults.broken_off(self.endpoint, after_text=hear.heard)
        return reply

    @property
    def takes_temperature(self) -> bool:
        """Whether `complete` takes a temperature; what a provider's own models may refuse, is not sent unasked."""
        return False

    async def _open(self) -> Any:
        # Cold imports take seconds: a kernel that starts in the same loop must not wait for them.
        await asyncio.to_thread(import_module, self.sdk)
        client = self._client()
        if self._window is None and self.endpoint.preset.local:
            self._window = await self._served_window(client)
        return client

    @abstractmethod
    def _client(self) -> Any:
        """Make the SDK's asynchronous client, with its retries off."""

    @abstractmethod
    async def _stream(
        self,
        client: Any,
        messages: Sequence[Message],
        cap: int,
        hear: Listener,
        *,
        logprobs: bool,
        temperature: float | None,
    ) -> Reply | None:
        """Send one request and gather its reply; `None` when the stream ended without saying why."""

    async def _served_window(self, client: Any) -> int | None:
        """The window that one's own server tells of, if it does."""
        return None


def _sendable(text: str) -> str:
    """The same text, with lone surrogates escaped: they have no UTF-8, and the SDKs fail on them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
