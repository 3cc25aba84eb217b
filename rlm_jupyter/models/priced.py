"""`PricedModel`: a model at a price of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm_jupyter.models import Model
    from rlm_jupyter.models.pricing import Price
    from rlm_jupyter.types.values import Message, Reply, Usage


class PricedModel:
    """Another model in everything but what it costs.

    Parameters
    ----------
    model
        Answers.
    price
        What that costs.
    """

    def __init__(self, model: Model, price: Price) -> None:
        self.model = model
        self.price = price

    def __repr__(self) -> str:
        return f"<{self.model!r} at {self.price}>"

    @property
    def name(self) -> str:
        """`provider/model`."""
        return self.model.name

    @property
    def window(self) -> int:
        """Tokens, input and output."""
        return self.model.window

    @property
    def provider(self) -> str:
        """Who refuses everybody when it refuses one request."""
        return str(getattr(self.model, "provider", self.model.name))

    @property
    def tells_logprobs(self) -> bool:
        """Whether it tells how probable its tokens were."""
        return bool(getattr(self.model, "tells_logprobs", False))

    @property
    def closes_early(self) -> bool:
        """Whether it takes `until`."""
        return bool(getattr(self.model, "closes_early", False))

    @property
    def takes_idle_seconds(self) -> bool:
        """Whether it takes `idle_seconds`."""
        return bool(getattr(self.model, "takes_idle_seconds", False))

    @property
    def takes_temperature(self) -> bool:
        """Whether it takes `temperature`."""
        return bool(getattr(self.model, "takes_temperature", False))

    @property
    def temperature(self) -> float | None:
        """What it is set to, where it is."""
        value: float | None = getattr(self.model, "temperature", None)
        return value

    @property
    def options(self) -> dict[str, Any]:
        """Its sampling options."""
        value: dict[str, Any] = getattr(self.model, "options", {})
        return value

    @property
    def slots(self) -> int | None:
        """How many requests its server takes at once; `None`: as many as are sent."""
        return getattr(self.model, "slots", None)

    @property
    def remark(self) -> str:
        """What people should know of who answers."""
        return str(getattr(self.model, "remark", ""))

    async def prepare(self, tell: Callable[[str], None], stop: asyncio.Event, seconds: float | None = None) -> None:
        """See to it that its server is there (`HostedModel.prepare`)."""
        prepare = getattr(self.model, "prepare", None)
        if prepare is not None:
            await prepare(tell, stop, seconds)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
        **options: Any,
    ) -> Reply:
        """Ask for a reply (`Model.complete`)."""
        return await self.model.complete(messages, max_output_tokens=max_output_tokens, on_text=on_text, **options)

    def lease(self) -> AbstractAsyncContextManager[None]:
        """Hold connections open between requests."""
        return self.model.lease()

    def cost(self, usage: Usage) -> float | None:
        """Return what `usage` costs, in US dollars."""
        return self.price.cost(usage)
