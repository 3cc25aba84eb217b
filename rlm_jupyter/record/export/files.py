"""The files that a run has made, as its exports carry them."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from rlm_jupyter.record.blobs import Objects, digest
from rlm_jupyter.record.export.markup import PICTURES
from rlm_jupyter.record.file_list import listed, size
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.values import OutputFile

MOST_BYTES = 10_000_000
"""Of a file that an export carries."""
_MOST_IN_ALL = 30_000_000
_ANY = "application/octet-stream"
"""What a file is called that no browser is to show as a page."""
Contents = Mapping[str, bytes]
"""Files by their SHA-256."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file on a page."""

    name: str
    size: str
    sha256: str
    picture: str = ""
    """As an address that holds it, where it is one."""
    link: str = ""
    """As an address that holds it; empty: the page does not carry it."""


def gathered(ended: RunEnded | None, objects: Objects) -> dict[str, bytes]:
    """Return the files that a run keeps, as many as an export carries."""
    contents: dict[str, bytes] = {}
    for file in () if ended is None else ended.files:
        if file["nbytes"] > MOST_BYTES or sum(map(len, contents.values())) + file["nbytes"] > _MOST_IN_ALL:
            continue
        with contextlib.suppress(RecordError):  # it was saved without
            contents[file["sha256"]] = objects.get(file["sha256"])
    return contents


def redacted(ended: RunEnded, contents: Contents, redactor: Redactor) -> tuple[RunEnded, dict[str, bytes]]:
    """Return the end of a run and its files without secrets; one that can't be looked through is left out."""
    files, kept = list[OutputFile](), dict[str, bytes]()
    for file in ended.files:
        content = contents.get(file["sha256"])
        clean = None if content is None else _clean(content, redactor)
        if clean is not None:
            file = {**file, "sha256": digest([clean]), "nbytes": len(clean)}
            kept[file["sha256"]] = clean
        files.append(file)
    return replace(ended, files=tuple(files)), kept


def _clean(content: bytes, redactor: Redactor) -> bytes | None:
    if _picture(content):
        return redactor.blob(content)
    try:
        return redactor.text(content.decode()).encode()
    except UnicodeDecodeError:
        return None  # compressed, as a workbook is


def left_out(ended: RunEnded | None, contents: Contents) -> list[str]:
    """Return the names of the files that an export does not carry."""
    return [] if ended is None else [file["name"] for file in ended.files if file["sha256"] not in contents]


def shown(ended: RunEnded | None, contents: Contents) -> list[ShownFile]:
    """Return the files of a run for a page that needs no other file."""
    return [] if ended is None else [_shown(file, contents.get(file["sha256"])) for file in ended.files]


def _shown(file: OutputFile, content: bytes | None) -> ShownFile:
    about = ShownFile(file["name"], size(file["nbytes"]), file["sha256"])
    if content is None:
        return about
    encoded = base64.b64encode(content).decode()
    picture = _picture(content)
    return replace(
        about,
        picture=f"data:{picture};base64,{encoded}" if picture else "",
        link=f"data:{_ANY};base64,{encoded}",
    )


def attached(cell: dict[str, Any], ended: RunEnded | None, contents: Contents) -> None:
    """Attach the files to the cell of a notebook that has the answer; pictures are shown there."""
    attachments, lines = {}, []
    for file in () if ended is None else ended.files:
        content = contents.get(file["sha256"])
        if content is None:
            continue
        picture = _picture(content)
        attachments[file["name"]] = {picture or _ANY: base64.b64encode(content).decode()}
        address = f"attachment:{quote(file['name'])}"
        lines.append(f"\n\n{'!' * bool(picture)}[{_in_brackets(listed(file))}]({address})")
    if attachments:
        cell["attachments"] = attachments
        source = cell["source"]
        cell["source"] = [*source, *lines] if isinstance(source, list) else source + "".join(lines)


def _picture(content: bytes) -> str:
    found = next((mime for mime, magic in PICTURES.items() if content.startswith(magic)), "")
    # sound and film begin with RIFF, too
    return "" if found == "image/webp" and content[8:12] != b"WEBP" else found


def _in_brackets(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
