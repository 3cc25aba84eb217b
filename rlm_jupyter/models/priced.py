"""`PricedModel`: a model at a price of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.abilities import Abilities, abilities_of

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
    def abilities(self) -> Abilities:
        """Those of the model."""
        return abilities_of(self.model)

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
