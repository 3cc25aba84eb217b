"""`fitted`: an image of any kind and size as one that a model can be sent; Pillow is imported where one has to change.

Both sides of a kernel's wire use it. What it decodes is of the few kinds that are named, and not of more pixels than
`MOST_DECODED`.
"""

from __future__ import annotations

import io
import re
from typing import Any

from rlm_jupyter.types.images import LONGEST_SIDE, MOST_BYTES, Image, look, measure, pixels

MOST_DECODED = 80_000_000
"""Pixels of an image that is decoded: 240 MB in memory. From 90 million on, Pillow warns of a bomb."""
_KINDS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_JPEG_FROM = 1_000_000
"""Bytes of a PNG above which a picture without transparency is sent as JPEG."""
_JPEG_QUALITY = 90
_ORIENTATION = 0x0112
"""Of the tags of EXIF: how a camera was held."""


def fitted(
    data: bytes, longest: int = LONGEST_SIDE, most_bytes: int = MOST_BYTES, kinds: tuple[str, ...] = _KINDS
) -> Image:
    """Return an image as it is, or scaled down, or as PNG or JPEG where it is of another kind.

    Parameters
    ----------
    longest
        Side, in pixels.
    most_bytes
        Of the result.
    kinds
        That may be decoded, as Pillow calls them.

    Raises
    ------
    ValueError
        It is no image, or too large a one to be decoded; says why, as a phrase. Also where it has to change, and
        Pillow is not installed.
    """
    found = measure(data)
    if found is not None and found[0] != "image/gif" and max(found[1:]) <= longest and len(data) <= most_bytes:
        return look(data)
    try:
        import PIL.Image
    except ImportError:
        if found is not None and found[0] != "image/gif":
            return look(data)  # it may fit as it is
        raise ValueError("it is no PNG or JPEG image, and Pillow, which reads others, is not installed") from None
    if found is not None and found[1] * found[2] > MOST_DECODED:
        raise ValueError(f"it has {pixels(*found[1:])}, and {MOST_DECODED:,} in all are the most")
    try:
        with PIL.Image.open(io.BytesIO(data), formats=kinds) as opened:
            if opened.width * opened.height > MOST_DECODED:
                raise ValueError(f"it has {pixels(*opened.size)}, and {MOST_DECODED:,} in all are the most")
            opened.draft("RGB", (longest, longest))
            return encoded(opened, longest, most_bytes)
    except (OSError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise ValueError("it is empty" if not data else f"it can't be read as an image ({_first(error)})") from None


def encoded(picture: Any, longest: int = LONGEST_SIDE, most_bytes: int = MOST_BYTES) -> Image:
    """Return a `PIL.Image.Image` as PNG, or as JPEG where that is much smaller and loses no transparency.

    Parameters
    ----------
    longest, most_bytes
        As for `fitted`.

    Raises
    ------
    ValueError
        It has no pixels, or too many bytes however it is written.
    """
    if not all(picture.size):
        raise ValueError("it has no pixels")
    if picture.width * picture.height > MOST_DECODED:
        raise ValueError(f"it has {pixels(*picture.size)}, and {MOST_DECODED:,} in all are the most")
    if picture.getexif().get(_ORIENTATION, 1) != 1:
        import PIL.ImageOps

        picture = PIL.ImageOps.exif_transpose(picture)
    if picture.mode == "F" or picture.mode.startswith("I"):
        picture = _of_numbers(picture)
    is_clear = picture.mode in {"LA", "PA", "RGBA"} or "transparency" in picture.info
    shown = picture.convert("RGBA" if is_clear else "L" if picture.mode in {"1", "L"} else "RGB")
    if max(shown.size) > longest:
        shown.thumbnail((longest, longest))
    data = _saved(shown, "PNG", optimize=False)
    if len(data) > min(most_bytes, _JPEG_FROM) and not is_clear:
        data = min(data, _saved(shown, "JPEG", quality=_JPEG_QUALITY), key=len)
    if len(data) > most_bytes:
        raise ValueError(f"it takes {len(data):,} bytes, and {most_bytes:,} are the most")
    return look(data)


def _of_numbers(picture: Any) -> Any:
    """Return a picture of numbers without bounds in the shades from their least to their largest."""
    numbers = picture.convert("F")
    least, largest = numbers.getextrema()
    scale = 255 / ((largest - least) or 1)
    return numbers.point(lambda number: number * scale - least * scale).convert("L")


def _saved(picture: Any, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


_MEMORY = re.compile(r"image file <_io\.BytesIO object at 0x[0-9a-f]+>")


def _first(error: BaseException) -> str:
    lines = _MEMORY.sub("it", str(error)).splitlines()
    return lines[0][:200] if lines else type(error).__name__
