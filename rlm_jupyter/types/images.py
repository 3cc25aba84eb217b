"""`Image`: a picture, told by its bytes alone: its kind and its size. Nothing decodes it for that.

Both sides of a kernel's wire read it, one of which is not trusted: what is none, breaks off or is too large is refused.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from dataclasses import dataclass, field

LONGEST_SIDE = 1_568
"""Pixels. What is larger is scaled down before it is sent: no provider reads more of it at its usual price.

https://docs.claude.com/en/docs/build-with-claude/vision, https://platform.openai.com/docs/guides/images-vision
"""
MOST_SIDE = 8_000
"""Pixels: providers refuse a longer one."""
MOST_PIXELS = 2**24
"""Where it can't be scaled down. A few kilobytes can stand for a billion, which whoever reads it has to hold."""
MOST_BYTES = 3_750_000
"""Of an image: 5 MB in base64, where providers draw the line."""
MOST_IMAGES = 20
"""In a prompt: of more, providers take smaller ones only."""
MOST_PROMPT_BYTES = 20_000_000
"""Of all images of a prompt: with base64 and text it fits the 32 MB of a request."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIF = (b"GIF87a", b"GIF89a")
_END = b"\xff\xd9"
_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""Markers between those that begin a frame of a JPEG, and that begin none."""
_NO_FILL = re.compile(rb"[^\xff]")
_MOST_PARTS = 10_000
_PART_BYTES = 1_024
"""An image of more chunks or segments than `_MOST_PARTS`, each smaller than this in the mean, was made to be slow."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that a model can be sent."""

    mime: str
    """`image/png` or `image/jpeg`."""
    width: int
    height: int
    sha256: str
    data: bytes = field(default=b"", repr=False)
    """Empty where it is kept elsewhere, under its `sha256`."""

    @property
    def said(self) -> str:
        """What it is, in words: `image/png, 640 x 480 pixels`."""
        return f"{self.mime}, {pixels(self.width, self.height)}"


def look(data: bytes) -> Image:
    """Return the image that these bytes are.

    Raises
    ------
    ValueError
        They are no PNG or JPEG that is whole, or too large a one; says why, as a phrase.
    """
    found = measure(data)
    if found is None or found[0] not in {"image/png", "image/jpeg"}:
        raise ValueError("it is no PNG or JPEG image" if data else "it is empty")
    mime, width, height = found
    if not width or not height:
        raise ValueError("it has no pixels")
    if max(width, height) > MOST_SIDE or width * height > MOST_PIXELS:
        raise ValueError(
            f"it has {pixels(width, height)}, and {MOST_SIDE:,} a side, {MOST_PIXELS:,} in all are the most"
        )
    data = data[: _png_end(data) if mime == "image/png" else data.rindex(_END) + len(_END)]
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data):,} bytes, and {MOST_BYTES:,} are the most")
    return Image(mime, width, height, hashlib.sha256(data).hexdigest(), data)


def measure(data: bytes | bytearray | memoryview) -> tuple[str, int, int] | None:
    """Return the kind, width and height of an image of any size, by its first bytes; `None`: it is none that is known.

    PNG, JPEG and GIF; a PNG or JPEG that breaks off is none.
    """
    head = bytes(data[:32])
    if head.startswith(_PNG):
        if head[8:16] != b"\0\0\0\rIHDR" or zlib.crc32(data[12:29]) != int.from_bytes(data[29:33]):
            return None
        width, height = struct.unpack(">II", head[16:24])
        return ("image/png", width, height) if _png_end(data) else None
    if head.startswith(_JPEG):
        return _jpeg(bytes(data))
    if head.startswith(_GIF) and len(head) > 10:
        return "image/gif", *struct.unpack("<HH", head[6:10])
    return None


def pixels(width: int, height: int) -> str:
    """Return a size in words."""
    return f"{width:,} x {height:,} pixels"


def _png_end(data: bytes | bytearray | memoryview) -> int:
    """Return where a PNG ends; 0 where it breaks off, or holds no picture."""
    at, has_data = len(_PNG), False
    for _ in range(_most_parts(data)):
        if at + 12 > len(data):
            return 0
        kind = bytes(data[at + 4 : at + 8])
        at += int.from_bytes(data[at : at + 4]) + 12
        has_data = has_data or kind == b"IDAT"
        if kind == b"IEND":
            return at if has_data and at <= len(data) else 0
    return 0


def _jpeg(data: bytes) -> tuple[str, int, int] | None:
    """Measure a JPEG by its frame, which stands before the first scan."""
    at, frame = 2, None
    for _ in range(_most_parts(data)):
        if data[at : at + 1] != b"\xff" or (begins := _NO_FILL.search(data, at)) is None:
            return None
        at = begins.start() - 1  # any number of FF may stand before a marker
        if at + 4 > len(data):
            return None
        marker = data[at + 1]
        if marker == 0xDA:
            is_whole = frame is not None and data.find(_END, at) >= 0
            return ("image/jpeg", frame[1], frame[0]) if is_whole and frame is not None else None
        length = int.from_bytes(data[at + 2 : at + 4])
        if length < 2:
            return None
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            if frame is not None or length < 8 or at + 9 > len(data):
                return None
            frame = struct.unpack(">HH", data[at + 5 : at + 9])
        at += length + 2
    return None


def _most_parts(data: bytes | bytearray | memoryview) -> int:
    """Return how many chunks or segments are looked at: each is a turn of a loop here."""
    return max(_MOST_PARTS, len(data) // _PART_BYTES)
