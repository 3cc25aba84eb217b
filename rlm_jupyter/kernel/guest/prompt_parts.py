"""`prompt_of`: a prompt that cells write as a list of texts and images, with the images made ready to be sent.

What is too large is scaled down here, in the kernel: the host takes no more than `types.images` allows, and decodes
nothing of it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

from rlm_jupyter.types.images import MOST_IMAGES, MOST_PROMPT_BYTES, Image
from rlm_jupyter.types.prompt import Part, Prompt
from rlm_jupyter.types.scaling import encoded, fitted

_BYTES = (bytes, bytearray, memoryview)
_PICTURE = ("PIL", "Image")
_FIGURE = ("matplotlib", "Figure")
_DISPLAYED = ("IPython", "Image")
_TAKEN = "a PIL image, the bytes of a PNG or JPEG, a Path, a matplotlib figure, an IPython.display.Image"
_MOST_FILE_BYTES = 100_000_000


def is_image(value: object) -> bool:
    """Return whether a value stands for an image; a text never does."""
    return isinstance(value, (*_BYTES, PurePath)) or bool(_names(value) & {_PICTURE, _FIGURE, _DISPLAYED})


def prompt_of(parts: Iterable[object], where: str) -> str:
    """Return a list of texts and images as one prompt.

    Parameters
    ----------
    where
        What is named in an error: the function, and the place of the prompt in its list.

    Raises
    ------
    TypeError
        A part is neither, or there is no text.
    ValueError
        An image is none, or there is too much of them.
    """
    taken: list[Part] = []
    for index, part in enumerate(parts):
        if isinstance(part, str):
            taken.append(str(part))
        elif is_image(part):
            try:
                taken.append(image_of(part))
            except ValueError as error:
                raise ValueError(f"{where}: part {index} is no image that can be sent: {error}.") from None
        else:
            raise TypeError(f"{where}: part {index} is {type(part).__name__}, neither a str nor an image ({_TAKEN}).")
    prompt = Prompt.of(taken)
    if not prompt.text.strip():
        raise TypeError(f'{where}: say what is asked about the image: ["QUESTION", image].')
    images = prompt.images
    if len(images) > MOST_IMAGES:
        raise ValueError(
            f"{where}: {len(images):,} images are too many, {MOST_IMAGES} fit a prompt: send more prompts."
        )
    if (size := sum(len(image.data) for image in images)) > MOST_PROMPT_BYTES:
        raise ValueError(
            f"{where}: the images have {size:,} bytes, and {MOST_PROMPT_BYTES:,} fit a prompt: send fewer."
        )
    return prompt


def image_of(value: Any) -> Image:
    """Return the image that a value stands for.

    Raises
    ------
    ValueError
        It is none, or none that can be sent; says why, as a phrase.
    """
    if isinstance(value, _BYTES):
        return fitted(bytes(value))
    if isinstance(value, PurePath):
        return fitted(_read(Path(value)))
    names = _names(value)
    if _PICTURE in names:
        try:
            return encoded(value)
        except OSError as error:  # it is read from its file only now
            raise ValueError(str(error)) from None
    if _FIGURE in names:
        stream = io.BytesIO()
        value.savefig(stream, format="png")
        return fitted(stream.getvalue())
    if isinstance(value.data, _BYTES):
        return fitted(bytes(value.data))
    raise ValueError("it only has an address, which nobody fetches for a model" if value.url else "it has no data")


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise ValueError(f"{path} has more than {_MOST_FILE_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} can't be read ({error.strerror})") from None


def _names(value: object) -> set[tuple[str, str]]:
    """Return library and name of the classes that a value is of; what is not imported is not what it is of."""
    return {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__}
