"""`why_not`: whether a file that a run has made opens as what its name says. Its bytes are not trusted."""

from __future__ import annotations

import csv
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import PurePath

from rlm_jupyter.run.files.archive import repacked
from rlm_jupyter.run.files.unreadable import Unreadable, first_line, reading
from rlm_jupyter.types.pdf_pages import import_pypdf

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_MOST_ROWS = 1_000
"""Of a table of text that are looked at."""


def why_not(name: str, data: bytes) -> str:
    """Return why a file does not open, as the end of a sentence that begins with its name; empty where it does.

    A library that is not installed is not missed: then the file's frame alone is looked at.

    Parameters
    ----------
    name
        By its ending it is known what the file must be.
    data
        All its bytes.
    """
    kind, opens = _OPENERS.get(PurePath(name).suffix.lower(), ("file", None))
    if opens is None:
        return ""
    try:
        with reading(kind), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opens(data)
    except Unreadable as error:
        return f"does not open: {str(error).rstrip('.')}"
    return ""


def _workbook(data: bytes) -> None:
    plain = repacked(data, "Excel workbook")
    try:
        import openpyxl
    except ImportError:
        return
    book = openpyxl.load_workbook(plain, read_only=True)
    try:
        if not book.sheetnames:
            raise Unreadable("it has no sheet.")
    finally:
        book.close()


def _office(data: bytes) -> None:
    with zipfile.ZipFile(repacked(data, "document")) as archive:
        if "[Content_Types].xml" not in archive.namelist():
            raise Unreadable("it is a zip archive, and no document.")


def _zip(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if not archive.namelist():
            raise Unreadable("there is nothing in it.")


def _png(data: bytes) -> None:
    width, height = struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" else (0, 0)
    if not (data.startswith(_PNG) and width and height):
        raise Unreadable("it does not begin as a PNG picture does.")
    if b"IEND" not in data[-16:]:
        raise Unreadable("it is cut off.")


def _jpeg(data: bytes) -> None:
    if not data.startswith(_JPEG):
        raise Unreadable("it does not begin as a JPEG picture does.")
    if b"\xff\xd9" not in data[-64:]:
        raise Unreadable("it is cut off.")


def _table(data: bytes) -> None:
    rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    found = [row for _, row in zip(range(_MOST_ROWS), rows, strict=False) if any(cell.strip() for cell in row)]
    if not found:
        raise Unreadable("there is no row in it.")


def _json(data: bytes) -> None:
    json.loads(data, parse_constant=_refuse)


def _json_lines(data: bytes) -> None:
    lines = [line for line in data.splitlines() if line.strip()]
    if not lines:
        raise Unreadable("there is no line in it.")
    for line in lines:
        _json(line)


def _refuse(constant: str) -> None:
    raise Unreadable(f"{constant} is no JSON.")


def _pdf(data: bytes) -> None:
    if not data.startswith(b"%PDF-"):
        raise Unreadable("it does not begin as a PDF does.")
    try:
        pypdf = import_pypdf()
    except ImportError:
        return
    if not len(pypdf.PdfReader(io.BytesIO(data)).pages):
        raise Unreadable("it has no page.")


def _notebook(data: bytes) -> None:
    import nbformat

    try:
        nbformat.validate(nbformat.reads(data.decode(), as_version=4))  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  of a malformed one, whatever there is
        raise Unreadable(f"{first_line(error)}.") from None


_Opens = Callable[[bytes], None]
_OPENERS: dict[str, tuple[str, _Opens]] = {
    ".xlsx": ("Excel workbook", _workbook),
    ".xlsm": ("Excel workbook", _workbook),
    ".docx": ("Word document", _office),
    ".pptx": ("PowerPoint presentation", _office),
    ".zip": ("zip archive", _zip),
    ".png": ("PNG picture", _png),
    ".jpg": ("JPEG picture", _jpeg),
    ".jpeg": ("JPEG picture", _jpeg),
    ".csv": ("table", _table),
    ".tsv": ("table", _table),
    ".json": ("JSON", _json),
    ".jsonl": ("JSON", _json_lines),
    ".pdf": ("PDF", _pdf),
    ".ipynb": ("notebook", _notebook),
}
"""By suffix: what it is called, and what raises where it does not open."""
