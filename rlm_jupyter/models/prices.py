"""What a request costs and how much a model reads, by the price list that `genai-prices` brings along.

Nothing is fetched: the list is as old as the installed package. Importing it takes most of a second, so it
is loaded with the first question.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rlm_jupyter.models.presets import PROVIDERS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

    from rlm_jupyter.types import Usage


def cost(name: str, usage: Usage) -> float | None:
    """What `usage` of the model `provider/model` costs at list price, in US dollars.

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
    """How many tokens the model `provider/model` holds, input and output; `None` when that is not known."""
    provider, _, model = name.partition("/")
    preset = PROVIDERS.get(provider)
    if preset is None or preset.local or preset.prices is None:
        return None
    found = _model(model, preset.prices)
    return found.context_window if found is not None else None


@lru_cache(maxsize=256)
def _model(model: str, provider: str) -> ModelInfo | None:
    from genai_prices import data_snapshot

    try:
        return data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None
