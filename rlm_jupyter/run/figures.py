"""`Figures`: what an iteration's cells have drawn, made ready for a root model that sees."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.scaling import fitted
from rlm_jupyter.types.values import Output

SeeFigures = Literal["auto", "always", "never"]
"""Whether the root model is shown what cells draw; `auto`: where it is known to see."""
ImageTokens = Callable[[int, int], int]
"""How many tokens an image of this width and height takes at most."""

MOST = 4
"""Of an iteration; the last ones."""
_SHARE = 8
"""All of them take at most so large a part of the model's window."""
_MOST_CHARS = 20_000_000
_DRAWN = ("image/png", "image/jpeg")
_KINDS = ("PNG", "JPEG")
"""That are decoded here where they are too large. What a kernel sends is not trusted: no others."""


def image_counter(model: Model, see_figures: SeeFigures) -> ImageTokens | None:
    """Return how the model counts images; `None`: it is shown none."""
    abilities = abilities_of(model)
    is_shown = see_figures == "always" or (see_figures == "auto" and abilities.sees is True)
    return abilities.image_tokens if is_shown else None


class Figures:
    """The figures among the outputs of an iteration, each once, scaled down where they are large.

    Parameters
    ----------
    outputs
        Of all its cells, in order.
    image_tokens
        How the model counts them; `None`: it is shown none.
    window
        Of the model, in tokens.
    """

    def __init__(self, outputs: Iterable[Output], image_tokens: ImageTokens | None, window: int) -> None:
        self._images: dict[str, Image] = {}
        if image_tokens is None:
            return
        drawn = dict.fromkeys(text for output in outputs if (text := _drawn(output)))
        room = window // _SHARE
        for text in reversed(drawn):
            image = _image(text)
            if image is not None and (tokens := image_tokens(image.width, image.height)) <= room:
                self._images[text] = image
                room -= tokens
            if len(self._images) == MOST:
                break
        self._images = dict(reversed(self._images.items()))

    @property
    def images(self) -> tuple[Image, ...]:
        """In the order in which they were drawn."""
        return tuple(self._images.values())

    def number(self, text: str) -> int:
        """Return the number of the figure whose base64 this is, from 1; 0: it is not shown."""
        return next((n for n, known in enumerate(self._images, 1) if known == text), 0)


def labelled(images: Sequence[Image], text: str) -> tuple[str | Image, ...]:
    """Return figures, each under its number, and the text that speaks of them behind."""
    figures = [part for number, image in enumerate(images, 1) for part in (f"Figure {number}:", image)]
    return (*figures, text)


def _drawn(output: Output) -> str:
    data = output.get("data") or {}
    text = next((data[mime] for mime in _DRAWN if isinstance(data.get(mime), str)), "")
    return text if len(text) <= _MOST_CHARS else ""


def _image(text: str) -> Image | None:
    try:
        return fitted(base64.b64decode(text), kinds=_KINDS)
    except (ValueError, binascii.Error):
        return None
