"""`image_in`: which images a context holds, and how large they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rlm_jupyter.types.images import measure, pixels
from rlm_jupyter.types.pdf_pages import PdfPages

_MOST_IMAGES = 1_000
"""That are looked at."""


def image_in(value: object) -> tuple[str, int, int] | None:
    """Return the kind, width and height of an image, whether it is bytes or opened; `None`: it is none."""
    if isinstance(value, bytes | bytearray | memoryview):
        return measure(value)
    if ("PIL", "Image") not in {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__}:
        return None
    width, height = value.size  # type: ignore[attr-defined]
    return "PIL", width, height


def are_images(value: object) -> bool:
    """Return whether a context is an image, the pages of a PDF, or a collection of nothing but images."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        return bool(value) and all(image_in(item) is not None for item in value)
    return isinstance(value, PdfPages) or image_in(value) is not None


def images_among(values: Sequence[Any]) -> str:
    """Say how many of the values are images, of which kinds, and how large they are; empty where none is."""
    found = [image for value in islice(values, _MOST_IMAGES) if (image := image_in(value)) is not None]
    if not found:
        return ""
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in Counter(kind for kind, _, _ in found).most_common())
    least, largest = (f(found, key=lambda image: image[1] * image[2]) for f in (min, max))
    sizes = pixels(*least[1:])
    if least[1:] != largest[1:]:
        sizes = f"from {sizes} to {pixels(*largest[1:])}"
    looked = f", of the first {_MOST_IMAGES:,} items" if len(values) > _MOST_IMAGES else ""
    return f"images: {kinds}{looked}; {sizes}"


def measured(image: tuple[str, int, int]) -> str:
    """Return the kind and size of an image, as text."""
    return f"{image[0]}, {pixels(*image[1:])}"
