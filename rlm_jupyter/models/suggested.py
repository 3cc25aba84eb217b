"""Which model was probably meant by a name that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rlm_jupyter.models import pricing
from rlm_jupyter.models.providers import PROVIDERS

_MAKERS = ("openai", "anthropic", "gemini")
"""Providers whose models are known by their names alone."""
_CLOSE = 0.75
"""How alike two names of models are, 0 to 1, where one stands for the other."""


def did_you_mean(name: str | None) -> str:
    """Return `Did you mean openai/gpt-5?` with a space before it; nothing where no name comes near."""
    return f" Did you mean {name}?" if name else ""


def provider_meant(name: str) -> str | None:
    """Return `provider/model` for a name whose provider is unknown, or that names none."""
    provider, slash, model = name.partition("/")
    if name.endswith(".json"):
        return f"scripted/{name}"
    if slash:
        close = difflib.get_close_matches(provider.lower(), PROVIDERS, n=1)
        return f"{close[0]}/{model}" if close else None
    if close := difflib.get_close_matches(name, [name for name, preset in PROVIDERS.items() if not preset.needs_key]):
        return close[0]
    listed = [f"{maker}/{name}" for maker in _MAKERS]
    return next(filter(pricing.window, listed), None) or next(filter(None, map(priced_model_meant, listed)), None)


def priced_model_meant(name: str) -> str | None:
    """Return the `provider/model` of the price list that comes nearest to `name`."""
    provider, _, model = name.partition("/")
    return model_meant(name, pricing.models(provider)) if model else None


def model_meant(name: str, models: Iterable[str]) -> str | None:
    """Return the `provider/model` that comes nearest to `name`, of models of the same provider."""
    provider, _, model = name.partition("/")
    close = difflib.get_close_matches(model, list(models), n=1, cutoff=_CLOSE)
    return f"{provider}/{close[0]}" if close and close[0] != model else None
