"""Which model was probably meant by a name that nobody has."""

from __future__ import annotations

from collections.abc import Iterable

from rlm_jupyter.models import pricing
from rlm_jupyter.models.providers import PROVIDERS
from rlm_jupyter.types.suggestion import closest

_MAKERS = ("openai", "anthropic", "gemini")
"""Providers whose models are known by their names alone."""
_CLOSE = 0.75
"""How alike two names of models are, 0 to 1, where one stands for the other."""


def provider_meant(name: str) -> str | None:
    """Return `provider/model` for a name whose provider is unknown, or that names none."""
    provider, slash, model = name.partition("/")
    if name.endswith(".json"):
        return f"scripted/{name}"
    if slash:
        close = closest(provider.lower(), PROVIDERS)
        return f"{close}/{model}" if close else None
    if close := closest(name, [name for name, preset in PROVIDERS.items() if not preset.needs_key]):
        return close
    listed = [f"{maker}/{name}" for maker in _MAKERS]
    return next(filter(pricing.window, listed), None) or next(filter(None, map(priced_model_meant, listed)), None)


def priced_model_meant(name: str) -> str | None:
    """Return the `provider/model` of the price list that comes nearest to `name`."""
    provider, _, model = name.partition("/")
    return model_meant(name, pricing.models(provider)) if model else None


def model_meant(name: str, models: Iterable[str]) -> str | None:
    """Return the `provider/model` that comes nearest to `name`, of models of the same provider."""
    provider, _, model = name.partition("/")
    close = closest(model, models, _CLOSE)
    return f"{provider}/{close}" if close and close != model else None
