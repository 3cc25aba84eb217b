"""A record that somebody else has written names no file of ours, and what it says wrongly is one line."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import decode, encode
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import RunEnded, SubcallSettled
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import Usage

DATA = b"what is shown"
SHA256 = hashlib.sha256(DATA).hexdigest()
NAMES = ["/etc/passwd", "../victim", "..", "", "a" * 63, "A" * 64, SHA256 + "\n", f"{SHA256}/..", 5, None, [], {}]
Change = Callable[[dict[str, Any]], object]


def settled() -> SubcallSettled:
    image = Image("image/png", 9, 9, SHA256, DATA)
    return SubcallSettled(
        1, 0, "llm", 0, SHA256, 4, "what", None, "m", "red", False, Usage(), 0.0, 0.1, images=(image,)
    )


def told(change: Change) -> dict[str, Any]:
    """The record of a sub-call with an image, as JSON brings it, changed."""
    data: dict[str, Any] = json.loads(json.dumps(encode(settled())))
    change(data)
    return data


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_an_object_is_named_by_a_digest_and_nothing_else(name: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    objects = Objects(tmp_path / "run.rlm" / "objects")
    for use in (objects.get, objects.path):
        with pytest.raises(RecordError):
            use(name)
    if name:  # else it is named by its own digest
        with pytest.raises(RecordError):
            objects.put(b"evil", name)
    assert victim.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]


def test_a_pipe_in_the_place_of_an_object_is_not_waited_for(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    os.mkfifo(tmp_path / SHA256)
    with pytest.raises(RecordError, match="plain file"):
        objects.get(SHA256)


def test_a_whole_record_is_read() -> None:
    assert decode(told(lambda data: None)) == settled()


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.update(sha256="/tmp/x"),
        lambda image: image.update(sha256="0" * 64),
        lambda image: image.update(sha256=[]),
        lambda image: image.update(width="9"),
        lambda image: image.update(height=None),
        lambda image: image.update(mime=5),
        lambda image: image.pop("mime"),
        lambda image: image.update(base64="!"),
        lambda image: image.update(base64=5),
        lambda image: image.update(base64=base64.b64encode(b"other bytes").decode()),
    ],
)
def test_an_image_that_is_described_wrongly_is_a_damaged_record(change: Change) -> None:
    with pytest.raises(RecordError) as raised:
        decode(told(lambda data: change(data["images"][0])))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("images", [5, "image", {}, [5], [[]], None], ids=repr)
def test_images_that_are_no_list_of_them_are_a_damaged_record(images: object) -> None:
    with pytest.raises(RecordError):
        decode(told(lambda data: data.update(images=images)))


@pytest.mark.parametrize(
    "files",
    [
        5,
        ["a"],
        [{}],
        [{"name": "a", "sha256": SHA256, "nbytes": "9", "path": ""}],
        [{"name": "a", "sha256": "../a", "nbytes": 9, "path": ""}],
        [{"name": [], "sha256": SHA256, "nbytes": 9, "path": ""}],
    ],
    ids=repr,
)
def test_files_that_are_described_wrongly_are_a_damaged_record(files: object) -> None:
    ended = encode(RunEnded("answered", "a", None, False, 1, 0.1, Usage(), 0.0))
    with pytest.raises(RecordError):
        decode(json.loads(json.dumps(ended)) | {"files": files})
