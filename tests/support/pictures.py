"""Images for tests: made of nothing, each of another colour, and read back from what a server was sent."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image

from tests.support.loopback import Request

RED, GREEN, BLUE = (200, 20, 20), (20, 180, 40), (30, 40, 220)
Colour = tuple[int, int, int]


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG, with its checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 8, height: int = 6, colour: Colour = RED) -> bytes:
    """A PNG of one colour, made without a library."""
    rows = (b"\0" + bytes(colour) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def claimed(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it has so many pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


def jpeg(width: int = 8, height: int = 6, colour: Colour = GREEN) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(stream, "JPEG")
    return stream.getvalue()


def sent(request: Request) -> list[list[str | tuple[str, bytes]]]:
    """What each message of a request is made of, whichever wire it came over: texts, and images with their type."""
    found = []
    for message in request.body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.append([_part(part) for part in parts])
    return found


def images(request: Request) -> list[tuple[str, bytes]]:
    """All images of a request."""
    return [part for message in sent(request) for part in message if isinstance(part, tuple)]


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def is_about(picture: Image.Image, colour: Colour) -> bool:
    """Whether the middle of a picture has about this colour."""
    pixel: Any = picture.convert("RGB").getpixel((picture.width // 2, picture.height // 2))
    return all(abs(a - b) < 12 for a, b in zip(pixel, colour, strict=True))


def _part(part: dict[str, Any]) -> str | tuple[str, bytes]:
    if part["type"] == "text":
        assert part["text"].strip(), "no provider takes an empty text"
        return str(part["text"])
    if part["type"] == "image":
        source = part["source"]
        assert source["type"] == "base64"
        return source["media_type"], base64.b64decode(source["data"], validate=True)
    assert part["type"] == "image_url", part
    head, _, data = part["image_url"]["url"].partition(",")
    assert head.startswith("data:")
    assert head.endswith(";base64")
    return head[len("data:") : -len(";base64")], base64.b64decode(data, validate=True)
