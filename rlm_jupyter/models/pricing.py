"""What a request costs and how much a model reads, by the price list that `genai-prices` brings along.

Nothing is fetched: the list is as old as the installed package. Importing it takes most of a second, so it
is loaded with the first question. A price of one's own (`Price`) goes before the list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rlm_jupyter.models.providers import PROVIDERS
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

    from rlm_jupyter.types.values import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs: US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input that the provider has in its cache; `None`: the same."""

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs, in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        at_cached = self.input if self.cached is None else self.cached
        read = (usage.input_tokens - cached) * self.input + cached * at_cached
        return (read + usage.output_tokens * self.output) / _MILLION


def own_prices(given: object) -> dict[str, Price]:
    """Return prices of one's own, by the model's name.

    Parameters
    ----------
    given
        `{"provider/model": (input, output)}` or `(input, output, cached)`: US dollars for a million tokens. `None`:
        none.

    Raises
    ------
    ConfigurationError
        It is something else, or a price is no number of at least zero.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            "prices is a dict such as {'openai/my-model': (0.25, 2.0)}: US dollars for a million tokens, input and "
            f"output, and a third for cached input; not {type(given).__name__}."
        )
    return {str(name): _price(str(name), numbers) for name, numbers in given.items()}


def parsed_prices(words: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Read `MODEL=INPUT,OUTPUT[,CACHED]`, as an option has it, into what `own_prices` takes.

    Raises
    ------
    ConfigurationError
        It is written otherwise.
    """
    found: dict[str, tuple[float, ...]] = {}
    for word in words:
        name, _, numbers = word.partition("=")
        try:
            found[name.strip()] = tuple(float(number) for number in numbers.split(","))
        except ValueError:
            raise ConfigurationError(
                f"A price is written MODEL=INPUT,OUTPUT (US dollars for a million tokens), not {quoted(word)}."
            ) from None
        _price(name, found[name.strip()])
    return found


def _price(name: str, numbers: object) -> Price:
    if isinstance(numbers, Sequence) and not isinstance(numbers, str) and len(numbers) in {2, 3}:
        known = [number for number in numbers if number is not None]  # a record has `None` for a third
        fine = [n for n in known if isinstance(n, int | float) and not isinstance(n, bool)]
        if len(fine) == len(known) >= 2 and all(math.isfinite(n) and n >= 0 for n in fine):
            return Price(*map(float, fine))
    raise ConfigurationError(
        f"The price of {quoted(name)} is (input, output) or (input, output, cached), in US dollars for a million "
        f"tokens, not {quoted(numbers)}."
    )


def cost(name: str, usage: Usage) -> float | None:
    """Return what `usage` of the model `provider/model` costs at list price, in US dollars.

    Returns
    -------
    float or None
        `0.0` for a server of one's own; `None` when the price is not known.
    """
    provider, _, model = name.partition("/")
    preset = PROVIDERS.get(provider)
    if preset is None:
        return None
    if preset.local:
        return 0.0
    if preset.prices is None:
        return None
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
    )
    try:
        return float(genai_prices.calc_price(tokens, model, provider_id=preset.prices).total_price)
    except LookupError:
        return None


def window(name: str) -> int | None:
    """Return how many tokens the model `provider/model` holds, input and output; `None` when that is not known."""
    provider, _, model = name.partition("/")
    preset = PROVIDERS.get(provider)
    if preset is None or preset.local or preset.prices is None:
        return None
    found = _model(model, preset.prices)
    return found.context_window if found is not None else None


def models(provider: str) -> list[str]:
    """Return the names of a provider's models that the price list has; none where that is not known."""
    from genai_prices import data_snapshot

    preset = PROVIDERS.get(provider)
    if preset is None or preset.prices is None:
        return []
    listed = data_snapshot.get_snapshot().providers
    return [model.id for priced in listed if priced.id == preset.prices for model in priced.models]


@lru_cache(maxsize=256)
def _model(model: str, provider: str) -> ModelInfo | None:
    from genai_prices import data_snapshot

    try:
        return data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None
