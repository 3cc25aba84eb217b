"""`Prompt`: the prompt of a sub-call that has images in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rlm_jupyter.types.images import Image

Part = str | Image
_DIGITS = 32
"""Of an image's SHA-256, in a prompt's text."""


class Prompt(str):
    """A prompt with images, as the text that stands for it wherever prompts are compared, recorded and shown.

    In that text each image stands by its kind, its size and its digest: whoever looks a prompt up by its own digest
    finds no other one. A prompt without images is a plain `str`.

    Attributes
    ----------
    parts
        What is sent, in order.
    problem
        Why it can't be; empty for most.
    """

    parts: tuple[Part, ...]
    problem: str

    @classmethod
    def of(cls, parts: Sequence[Part], problem: str = "") -> Self:
        """Make a prompt of its parts."""
        prompt = cls("\n\n".join(part if isinstance(part, str) else _named(part) for part in parts))
        prompt.parts, prompt.problem = tuple(parts), problem
        return prompt

    @property
    def images(self) -> tuple[Image, ...]:
        """Its images, in order."""
        return tuple(part for part in self.parts if isinstance(part, Image))

    @property
    def blind(self) -> str:
        """The text for a model that sees no images: what kind they are, and how large."""
        return "\n\n".join(
            part if isinstance(part, str) else f"[an image that you can't see: {part.said}]" for part in self.parts
        )

    @property
    def text(self) -> str:
        """Its texts alone."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))


def images_of(prompt: str) -> tuple[Image, ...]:
    """Return the images of a prompt of any kind."""
    return prompt.images if isinstance(prompt, Prompt) else ()


def framed(before: str, prompt: str, after: str) -> str:
    """Return a prompt of the same kind, with a text before and behind it."""
    if not isinstance(prompt, Prompt):
        return f"{before}{prompt}{after}"
    texts = before.strip(), after.strip()
    return Prompt.of([part for part in (texts[0], *prompt.parts, texts[1]) if part != ""])


def _named(image: Image) -> str:
    return f"[{image.said}, sha256 {image.sha256[:_DIGITS]}]"
