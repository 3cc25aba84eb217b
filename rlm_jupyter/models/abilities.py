"""`Abilities`: what a model can do beyond `Model`, declared: whoever asks one needs to know, and most have none."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.vision import most_image_tokens

if TYPE_CHECKING:
    import asyncio

Prepare = Callable[[Callable[[str], None], "asyncio.Event", "float | None"], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model says of itself in its attribute `abilities`; a model without it has none of them."""

    provider: str = ""
    """Who refuses everybody when it refuses one request. Empty: the model alone."""
    slots: int | None = None
    """How many requests its server takes at once. `None`: as many as are sent."""
    gives_logprobs: bool = False
    """`complete` takes `logprobs=True`, and then fills the reply's `token_confidence`."""
    closes_early: bool = False
    """`complete` takes `until`, which is given each piece of the reply and says when the rest is not needed. The
    pieces, put together, are the reply's text: its first cell may be executed before the rest has come."""
    takes_idle_seconds: bool = False
    """`complete` takes `idle_seconds`, the silence after which the request is given up."""
    takes_temperature: bool = False
    """`complete` takes `temperature`."""
    sees: bool | None = False
    """It reads images, which stand in a message's `parts`. `None`: nobody knows, and it is sent those of sub-calls."""
    image_tokens: Callable[[int, int], int] = most_image_tokens
    """How many tokens an image of this width and height takes at most."""
    takes_schema: bool = False
    """`complete` takes `schema`, a JSON schema that its reply keeps where the provider can see to it."""
    is_deterministic: bool = False
    """It gives the same reply to the same prompt: a sub-call is sent once in a run."""
    answers_in_text: bool = False
    """Its answers are texts, whatever is asked for."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its sampling options, for the record."""
    remark: str = ""
    """What people should know of who answers: another model than the one that was named."""
    prepare: Prepare | None = None
    """Sees to it that its server is there and ready, before a run."""
    find_window: Callable[[float], bool] | None = None
    """Asks a server of one's own for its window, where nobody has yet, and waits so many seconds for a page. Returns
    whether `window` is known now; it raises nothing. `None`: it always is."""


def abilities_of(model: object) -> Abilities:
    """Return what a model declares, else that it can do nothing more than `Model` says."""
    declared = getattr(model, "abilities", None)
    return declared if isinstance(declared, Abilities) else Abilities()


def fixed(model: object) -> str:
    """Say why a model gives the same reply to the same prompt each time; empty where it may give another."""
    abilities = abilities_of(model)
    if abilities.options.get("temperature") == 0:
        return "its temperature is 0"
    name = getattr(model, "name", "the model")
    return f"{name} always gives the same reply to the same prompt" if abilities.is_deterministic else ""
