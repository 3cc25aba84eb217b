"""`thumbnail`: an image of a sub-call as a page shows it: small, and as an address that holds it."""

from __future__ import annotations

import base64
from collections import OrderedDict

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.images import LONGEST_SIDE, Image
from rlm_jupyter.types.scaling import fitted

MOST = 30
"""Images that one list of sub-calls shows: it is sent anew whenever it changes."""
_SIDE = 240
_SMALL_BYTES = 6_000
"""An image of no more is its own thumbnail."""
_MOST_DECODED = LONGEST_SIDE**2
"""Pixels of a PNG, which is decoded whole: on the loop that the run is on. A JPEG is decoded scaled down."""
_KINDS = ("PNG", "JPEG")
"""That were looked at: nothing else is decoded here."""
_KEPT = 512
_known: OrderedDict[str, str] = OrderedDict()
"""By the image's digest: its bytes are let go of once they are on the disk."""


def thumbnail(image: Image, objects: Objects | None = None) -> str:
    """Return a `data:` address; empty where the image is not there, can't be decoded, or has too many pixels for it.

    Parameters
    ----------
    objects
        Where its bytes are, if it has none.
    """
    if (known := _known.get(image.sha256)) is not None:
        _known.move_to_end(image.sha256)
        return known
    data = image.data
    if not data and objects is not None:
        try:
            data = objects.get(image.sha256)
        except RecordError:
            return ""
    if not data:
        return ""
    is_decoded = image.mime == "image/jpeg" or image.width * image.height <= _MOST_DECODED
    shown = _known[image.sha256] = _address(data) if is_decoded else ""
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return shown


def address(image: Image) -> str:
    """Return an image whole, as a `data:` address; empty where it is not there."""
    return f"data:{image.mime};base64,{base64.b64encode(image.data).decode()}" if image.data else ""


def _address(data: bytes) -> str:
    try:
        return address(fitted(data, _SIDE, _SMALL_BYTES * 10, _KINDS) if len(data) > _SMALL_BYTES else fitted(data))
    except Exception:  # noqa: BLE001  Pillow's readers raise anything at a damaged file; it only draws a picture
        return ""
