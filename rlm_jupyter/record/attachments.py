"""Images and files in a record: described, their bytes beside it; and read back, whoever has written the record."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

from rlm_jupyter.record.blobs import Objects, digest, is_digest
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.quoted import quoted

_IMAGE_FIELDS = {"mime": str, "width": int, "height": int, "sha256": str}
_FILE_FIELDS = {"name": str, "sha256": str, "nbytes": int, "path": str}


def described(image: Image, objects: Objects | None) -> dict[str, Any]:
    """Return an image for a record; its bytes are put with the objects, or in place where there are none."""
    found = {"mime": image.mime, "width": image.width, "height": image.height, "sha256": image.sha256}
    if image.data and objects is not None:
        objects.put(image.data, image.sha256)
    elif image.data:
        found["base64"] = base64.b64encode(image.data).decode()
    return found


def images(told: object, objects: Objects | None) -> list[Image]:
    """Return the images of a record; without their bytes where they are not there.

    Raises
    ------
    RecordError
        One is not described as `described` does, or its bytes are others.
    """
    return [_image(one, objects) for one in _descriptions(told, "images")]


def files(told: object) -> list[dict[str, Any]]:
    """Return the files of a record (`OutputFile`).

    Raises
    ------
    RecordError
        One is described otherwise.
    """
    found = _descriptions(told, "files")
    for file in found:
        _check(file, _FILE_FIELDS, "a file")
    return found


def _image(told: Mapping[str, Any], objects: Objects | None) -> Image:
    _check(told, _IMAGE_FIELDS, "an image")
    try:
        data = base64.b64decode(told.get("base64", ""), validate=True)
    except (TypeError, ValueError):
        raise RecordError("an image of this record is damaged: its bytes can't be read") from None
    if data and digest([data]) != told["sha256"]:
        raise RecordError("an image of this record is damaged: its bytes are not those that its SHA-256 names")
    if not data and objects is not None:
        with contextlib.suppress(RecordError):
            data = objects.get(told["sha256"])
    return Image(told["mime"], told["width"], told["height"], told["sha256"], data)


def _descriptions(told: object, field: str) -> list[dict[str, Any]]:
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise RecordError(f"the {field} of this record are no list of descriptions")
    return told


def _check(told: Mapping[str, Any], kinds: Mapping[str, type], what: str) -> None:
    for name, kind in kinds.items():
        value = told.get(name)
        if type(value) is not kind or (name == "sha256" and not is_digest(value)):
            raise RecordError(f"{what} of this record is damaged: its {name} is {quoted(value)}")
