"""`Routing`: which model answers at which depth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.priced import PricedModel
from rlm_jupyter.models.pricing import Price
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import Usage

_LISTED: Mapping[str, Price] = {}


@dataclass(frozen=True, slots=True)
class Routing:
    """The models of a run.

    Parameters
    ----------
    root
        Drives the run; depth 0.
    sub
        Answers from depth 1 on: one model for every depth, or one for each depth, the last serving all that
        are deeper. By default the root.
    others
        More models that a sub-call may ask for by name. Code in the kernel is not trusted: it can't name a
        model that nobody allowed.
    prices
        By the model's name, where they are not those of the list.

    Raises
    ------
    ConfigurationError
        A name is wrong or a key is missing, as `load_model` says; or `sub` is an empty sequence.
    """

    root: Model
    sub: tuple[Model, ...]
    others: tuple[Model, ...] = ()

    def __init__(
        self,
        root: str | Model,
        sub: str | Model | Sequence[str | Model] | None = None,
        others: Sequence[str | Model] = (),
        prices: Mapping[str, Price] = _LISTED,
    ) -> None:
        priced: dict[int, Model] = {}

        def load(named: str | Model) -> Model:
            model = load_model(named)
            price = prices.get(model.name)
            return model if price is None else priced.setdefault(id(model), PricedModel(model, price))

        first = load(root)
        if sub is None:
            subs: Sequence[str | Model] = (first,)
        else:
            subs = sub if isinstance(sub, Sequence) and not isinstance(sub, str) else (sub,)
        if not subs:
            raise ConfigurationError("The sub-models are an empty sequence: name one, or leave them out.")
        object.__setattr__(self, "root", first)
        object.__setattr__(self, "sub", (first,) if sub is None else tuple(load(model) for model in subs))
        object.__setattr__(self, "others", tuple(load(model) for model in others))

    @property
    def models(self) -> tuple[Model, ...]:
        """Each model once, the root first."""
        return tuple({id(model): model for model in (self.root, *self.sub, *self.others)}.values())

    @property
    def unpriced(self) -> str:
        """The first model whose price is not known; empty: all are."""
        return next((model.name for model in self.models if model.cost(Usage(1, 1)) is None), "")

    def model_for(self, depth: int, name: str | None = None) -> Model:
        """Return the model that answers at `depth`, or the one called `name`, if that is allowed.

        Raises
        ------
        ModelError
            No model of that name belongs to the run; the text lists those that do.
        """
        if name is not None:
            for model in self.models:
                if model.name == name:
                    return model
            names = ", ".join(dict.fromkeys(model.name for model in self.models))
            raise ModelError(f"The model {quoted(name)} is not part of this run; there are: {names}.")
        return self.root if depth <= 0 else self.sub[min(depth, len(self.sub)) - 1]

    async def prepare(self, tell: Callable[[str], None], stop: asyncio.Event, seconds: float | None = None) -> None:
        """See to it that the servers of one's own are there and ready (`HostedModel.prepare`), all together."""
        ready = [prepare for model in self.models if (prepare := abilities_of(model).prepare) is not None]
        async with asyncio.TaskGroup() as tasks:
            for prepare in ready:
                tasks.create_task(prepare(tell, stop, seconds))

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Hold a lease on every model."""
        async with AsyncExitStack() as stack:
            for model in self.models:
                await stack.enter_async_context(model.lease())
            yield
