"""`HostedModel`: what every model behind an address has in common, whichever SDK speaks to it.

Long for its docstrings: what a request may be told is described here.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from rlm_jupyter.models import pricing, sdk_errors, vision
from rlm_jupyter.models.abilities import Abilities
from rlm_jupyter.models.allowance import Allowance, allow
from rlm_jupyter.models.client_pool import Clients
from rlm_jupyter.models.listener import Listener
from rlm_jupyter.models.own_server import OwnServer
from rlm_jupyter.models.sampling import placed
from rlm_jupyter.models.sendable import sendable
from rlm_jupyter.models.structured import Structured
from rlm_jupyter.types.errors import ConfigurationError, ContextWindowError, ModelError, ModelUnavailableError
from rlm_jupyter.types.suggestion import did_you_mean
from rlm_jupyter.types.tokens import DEFAULT_WINDOW
from rlm_jupyter.types.values import Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from rlm_jupyter.models.endpoint import Endpoint

_IDLE_SECONDS = 600.0
"""How long a request may be silent where nobody says it (`Limits.request_idle_seconds`)."""
_LOCAL_FACTOR = 3
"""So many times longer until the reply of a server of one's own begins: without a graphics card it reads a long prompt
for many minutes."""


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
        Seconds of silence after which a request is given up, whatever `complete` is told.
    options
        Sampling options, which its SDK is given with every request (`sampling.checked`).
    sees
        Whether it reads images; by default what its server says, or its name tells.
    """

    gives_logprobs: ClassVar[bool] = False
    sdk: ClassVar[str]
    """The module that speaks to the server; imported with the first lease, away from the event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        window: int | None = None,
        temperature: float | None = None,
        patience: float | None = None,
        options: Mapping[str, Any] | None = None,
        sees: bool | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._named: dict[str, Any] = {"window": window, "temperature": temperature, "options": options, "sees": sees}
        self._sees = sees
        self.options = dict(options or {})
        self._placed: dict[str, Any] = {}
        """The options as the SDK takes them; known once it is loaded."""
        self.temperature: float | None = self.options.get("temperature", temperature)
        self.patience = patience
        self._own = OwnServer(endpoint)
        self._window = window
        """As it was given, or as a refusal said."""
        self._listed_window: int | None = None
        self._refuses_schema = False
        self._clients: Clients[Any] = Clients(self._open)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint.shown_url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by name: whoever unpickles it takes the key from an environment of their own.

        Raises
        ------
        TypeError
            Its key was handed over, and stands in no environment.
        """
        if self.endpoint.key and self.endpoint.key_variable is None:
            raise TypeError(f"{self.name} holds a key that was handed over (api_key), so it can't be pickled")
        return _loaded, (type(self), self.name, self.endpoint.url, self._named)

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
        return self._known_window or DEFAULT_WINDOW

    @property
    def _known_window(self) -> int:
        """As it was given, or somebody says; 0: nobody does."""
        if known := self._window or self._own.window:
            return known
        if self._listed_window is None:
            self._listed_window = pricing.window(self.name) or 0
        return self._listed_window

    def find_window(self, seconds: float) -> bool:
        """Ask a server of one's own for its window, if need be; return whether it is known."""
        if not self._window:
            self._own.look_now(seconds)
        return bool(self._known_window)

    @property
    def slots(self) -> int | None:
        """How many requests its server takes at once; `None`: as many as are sent."""
        return self._own.slots or self.endpoint.preset.slots

    @property
    def sees(self) -> bool | None:
        """Whether it reads images: as was said, as its server says, or as its name tells; `None`: nobody knows."""
        if self._sees is not None:
            return self._sees
        return vision.sees(self.name) if self._own.sees is None else self._own.sees

    @property
    def remark(self) -> str:
        """What people should know of who answers: another model than the one that was named. Empty: nothing."""
        return self._own.remark

    def cost(self, usage: Usage) -> float | None:
        """Return what `usage` costs at list price, in US dollars; `None` when unknown."""
        return pricing.cost(self.name, usage)

    async def prepare(self, tell: Callable[[str], None], stop: asyncio.Event, seconds: float | None = None) -> None:
        """See to it that a server of one's own is there and ready; others are not asked.

        It says how much it reads, and how many requests it takes at once. One that loads its model is waited for.

        Parameters
        ----------
        tell
            Given a line when there is something to wait for.
        stop
            Ends the waiting.
        seconds
            To wait at most.

        Raises
        ------
        ModelUnavailableError
            Nobody answers there, or it was not ready in time.
        ModelError
            It has no such model, or one that only makes embeddings.
        """
        await self._own.prepare(tell, stop, seconds)

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
        idle_seconds: float | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Ask for a reply to `messages`, of at most `max_output_tokens`; once, the SDK's own retries are off.

        Whoever asks for a whole tree (`request.complete`) knows better when it is time to ask again.
        `logprobs` asks for `token_confidence` too, where the provider tells it.
        `until` gets the same pieces as `on_text`; when it says `True`, the request is closed, which frees the server at
        once, and the reply is what has come, its usage estimated.
        `idle_seconds` of silence end the request (default: 600); three times as many until the reply of a server of
        one's own begins.
        `schema` is the form of a reply that is JSON; a server that refuses to be told is asked without, now and later.
        `on_text` gets the visible text piece by piece. An empty reply comes back as it is, with its `finish`.

        Raises
        ------
        ContextWindowError
            The messages do not fit the window.
        ModelUnavailableError
            No answer: refused, overloaded, silent for too long, or broken off. It says whether, and
            when, asking again may help.
        ModelError
            Anything else that asking again would not mend, such as a wrong key.
        """
        wire = list(map(sendable, messages))
        how = {"logprobs": logprobs, "temperature": self.temperature if temperature is None else temperature}
        structured = None if schema is None or self._refuses_schema else Structured.of(schema)
        async with self._clients.lease() as client:

            async def attempt(form: Structured | None) -> Reply:
                hear = self._listener(_IDLE_SECONDS if idle_seconds is None else idle_seconds, on_text, until)
                return await self._attempt(client, wire, max_output_tokens, hear, how | {"form": form})

            try:
                reply = await attempt(structured)
            except sdk_errors.NotServedError as error:
                raise ModelError(f"{error}{did_you_mean(await self._own.meant())}") from None
            except ModelError as error:
                if structured is None or type(error) is not ModelError:
                    raise
                reply = await attempt(None)  # raises the same where the form was not the reason
                self._refuses_schema, structured = True, None
        self._own.compare(reply)
        return reply if structured is None else replace(reply, text=structured.unwrapped(reply.text))

    def _listener(
        self, idle_seconds: float, on_text: Callable[[str], None] | None, until: Callable[[str], bool] | None
    ) -> Listener:
        if self.patience is not None:
            return Listener(self.patience, self.patience, on_text, until)
        first = idle_seconds * _LOCAL_FACTOR if self.endpoint.preset.local else idle_seconds
        return Listener(first, idle_seconds, on_text, until)

    async def _attempt(
        self,
        client: Any,
        messages: Sequence[Message],
        cap: int,
        hear: Listener,
        how: dict[str, Any],
    ) -> Reply:
        allowance = allow(cap)
        try:
            async with hear.deadline:
                reply = await self._stream(client, messages, cap, hear, **how)
        except Exception as error:
            if error is hear.failure:  # of whoever listens
                raise
            if isinstance(error, TimeoutError) and hear.deadline.expired():
                raise sdk_errors.silent(self.endpoint, hear.patience) from None
            raised = self._fault(error, hear, allowance, any(message.parts for message in messages))
            # A server may echo the key: then the cause must not be shown either.
            raise raised from None if self._shows_key(error) else error
        if reply is None:
            if allowance.problem:
                raise sdk_errors.too_large(self.endpoint, allowance.problem)
            told = None if hear.heard else sdk_errors.told_whole(allowance.head)
            if told is not None:
                raised = self._refusal(told, any(message.parts for message in messages))
                # nothing says that it is for good: a server that is busy may answer so
                raise ModelUnavailableError(str(raised), retries=1) if type(raised) is ModelError else raised
            raise sdk_errors.broken_off(self.endpoint, after_text=hear.heard)
        return reply

    def _fault(self, error: Exception, hear: Listener, allowance: Allowance, has_images: bool) -> ModelError:
        """Make what a server has sent, and the SDK or we could not take, an error of ours."""
        at, sdk = self.endpoint, import_module(self.sdk)
        if not isinstance(error, sdk.APIStatusError) and allowance.problem:
            return sdk_errors.too_large(at, allowance.problem)
        if not isinstance(error, (sdk.APIError, *sdk_errors.transport_errors())):
            return sdk_errors.malformed(error, at) if allowance.responded else sdk_errors.not_sent(error, at)
        if hear.started and not getattr(error, "body", None):
            return sdk_errors.broken_off(at, after_text=hear.heard)
        return self._refusal(error, has_images)

    def _refusal(self, error: Exception, has_images: bool) -> ModelError:
        """Make what a server says of a failure an error of ours."""
        try:
            raised = sdk_errors.model_error(error, self.endpoint, has_images=has_images)
        except Exception as unreadable:  # noqa: BLE001  what the server says of its failure is of any shape
            return sdk_errors.malformed(unreadable, self.endpoint)
        if isinstance(raised, ContextWindowError) and raised.window:
            self._window = raised.window  # it knows better than any list
        return raised

    def _shows_key(self, error: Exception) -> bool:
        try:
            return bool(self.endpoint.key) and str(self.endpoint.key) in str(error)
        except Exception:  # noqa: BLE001  an error that can't be shown can't be a cause
            return True

    @property
    def abilities(self) -> Abilities:
        """What it can do beyond `Model`; how many requests its server takes is known once a lease has begun."""
        return Abilities(
            provider=self.provider,
            slots=self.slots,
            gives_logprobs=self.gives_logprobs,
            closes_early=True,
            takes_idle_seconds=True,
            takes_temperature=self.takes_temperature,
            sees=self.sees,
            image_tokens=partial(vision.image_tokens, self.name),
            takes_schema=self.endpoint.preset.takes_schema and not self._refuses_schema,
            is_deterministic=self.temperature == 0,
            options=self.options,
            remark=self.remark,
            prepare=self.prepare,
            find_window=self.find_window,
        )

    @property
    def takes_temperature(self) -> bool:
        """Whether `complete` takes a temperature; what a provider's own models may refuse, is not sent unasked."""
        return False

    async def _open(self) -> Any:
        # Cold imports take seconds: a kernel that starts in the same loop must not wait for them.
        await asyncio.to_thread(import_module, self.sdk)
        await self._own.look()
        client = self._client()
        try:
            self._placed = placed(self.name, self.sdk, self._send(client), self.options)
        except ConfigurationError:
            await client.close()
            raise
        return client

    @abstractmethod
    def _client(self) -> Any:
        """Make the SDK's asynchronous client, with its retries off."""

    @abstractmethod
    def _send(self, client: Any) -> Any:
        """Return the SDK's method that sends a request."""

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
        form: Structured | None,
    ) -> Reply | None:
        """Send one request and gather its reply; `None` when the stream ended without saying why."""


def _loaded(kind: type[HostedModel], name: str, url: str, options: Mapping[str, Any]) -> HostedModel:
    """Make a model that was pickled by its name, with the key of this process's environment."""
    from rlm_jupyter.models.endpoint import find_endpoint, find_preset

    preset, model = find_preset(name)
    return kind(find_endpoint(preset, model, base_url=url, api_key=None), **options)
