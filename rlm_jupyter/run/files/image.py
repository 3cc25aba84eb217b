"""`image`: the bytes of an image that is one."""

from __future__ import annotations

from rlm_jupyter.parsing.file_signatures import identify
from rlm_jupyter.run.files.unreadable import Note, Unreadable
from rlm_jupyter.types.images import measure

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
_MEASURED = ("a PNG image", "a JPEG image", "a GIF image")
_BITMAP = b"BM"


def image(data: bytes, _: Note) -> bytes:
    """Return the bytes as they are: whoever looks at the image opens it, and a model is sent them.

    Raises
    ------
    Unreadable
        They are no image, or one that breaks off.
    """
    if not data:
        raise Unreadable("the file is empty.")
    binary = identify(data)
    if binary is None and data.startswith(_BITMAP):
        return data
    if binary is None or not binary.title.endswith(" image"):
        raise Unreadable("no image, whatever its name says.")
    if binary.title in _MEASURED and measure(data) is None:
        raise Unreadable(f"{binary.title} that breaks off, or is damaged.")
    return data
