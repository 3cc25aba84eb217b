"""Zip archives: what is in them, and those that were made to do harm."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pandas as pd
import pptx
import pytest

from rlm_jupyter import load
from rlm_jupyter.run.files import archive as archives
from rlm_jupyter.types.errors import ConfigurationError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def zipped(members: Mapping[Any, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def put(data: bytes, path: str = "a.zip") -> str:
    Path(path).write_bytes(data)
    return path


def refused(data: bytes, path: str = "a.zip") -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(put(data, path), note=pytest.fail)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def encrypted(data: bytes) -> bytes:
    """The same archive, whose members say that they are encrypted."""
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        parts = data.split(signature)
        data = signature.join([parts[0], *(part[: place - 4] + b"\1\0" + part[place - 2 :] for part in parts[1:])])
    return data


def lying(data: bytes, real: bytes, declared: int) -> bytes:
    """The same archive, whose one member declares to be its own beginning, sum and all."""
    said = struct.pack("<L", zlib.crc32(real[:declared])), struct.pack("<L", declared)
    return data.replace(struct.pack("<L", zlib.crc32(real)), said[0]).replace(struct.pack("<L", len(real)), said[1])


def test_an_archive_is_a_dict_of_what_its_files_hold() -> None:
    letter = io.BytesIO()
    document = docx.Document()
    document.add_paragraph("Dear all")
    document.save(letter)
    members: dict[Any, Any] = {
        "b/notes.txt": b"a\xffb " + "Grüße ".encode() * 9,
        "a.csv": "id\n1\n",
        "b/letter.docx": letter.getvalue(),
        "b/empty/": "",
        ".hidden": "never",
        "b/.git/config": "never",
        "__MACOSX/b/._notes.txt": "never",
    }
    notes: list[str] = []
    found: Any = load(put(zipped(members)), note=notes.append)
    assert list(found) == ["b/notes.txt", "a.csv", "b/letter.docx"]
    assert isinstance(found["a.csv"], pd.DataFrame)
    assert found["b/letter.docx"] == "Dear all"
    assert notes == [
        "a.zip: b/notes.txt: UTF-8 but for 1 stray byte, read as U+FFFD.",
        "a.zip: left out .hidden, b/.git/config, __MACOSX/b/._notes.txt: hidden.",
    ]
    Path("c.txt").write_text("c")
    assert set(load(["c.txt", "a.zip"], note=notes.append)) == {"c.txt", "a.zip"}  # type: ignore[call-overload]


def test_what_can_t_be_read_is_left_out_and_told_of() -> None:
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    members: dict[Any, Any] = {
        "a.txt": "text",
        "in.zip": zipped({"x.txt": "deep"}),
        "b.csv.gz": gzip.compress(b"a\n1\n"),
        "c.tbz.bz2": bz2.compress(b"x"),
        "d.gz": gzip.compress(b"x"),
        link: "/etc/passwd",
        "e.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    }
    notes: list[str] = []
    assert load(put(zipped(members)), note=notes.append) == {"a.txt": "text"}
    assert notes == [
        "a.zip: left out in.zip, b.csv.gz, c.tbz.bz2 and 1 more: an archive in an archive.",
        "a.zip: left out link.txt: a link.",
        "a.zip: left out e.png: a PNG image that breaks off, or is damaged.",
    ]


def test_a_damaged_member_does_not_spoil_the_others() -> None:
    data = zipped({"a.txt": "first text", "b.txt": "other text"}, zipfile.ZIP_STORED)
    notes: list[str] = []
    assert load(put(data.replace(b"first", b"worst", 1)), note=notes.append) == {"b.txt": "other text"}
    assert notes == ["a.zip: left out a.txt: no file in a zip archive that can be read: Bad CRC-32 for file 'a.txt'."]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_several_files_of_one_name_a_line_tells() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in (("a.txt", "first"), ("b.txt", "other"), ("a.txt", "second"), (".c", ""), (".c", "")):
            archive.writestr(name, text)
    notes: list[str] = []
    assert load(put(file.getvalue()), note=notes.append) == {"a.txt": "second", "b.txt": "other"}
    assert notes == [
        "a.zip: left out a.txt: of several files of this name, all but the last.",
        "a.zip: left out .c: hidden.",
    ]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"no such thing", "no zip archive that can be read: File is not a zip file."),
        (zipped({"a.txt": "text"})[:-10], "no zip archive that can be read: File is not a zip file."),
        (zipped({}), "no file in this zip archive can be read."),
        (zipped({"a/": "", "b.txt": " "}), "no file in this zip archive can be read."),
        (
            encrypted(zipped({"a.txt": "text", "b.txt": "text"})),
            "no file in this zip archive can be read: left out a.txt, b.txt: encrypted.",
        ),
        (
            zipped({"a.txt": "text"}, zipfile.ZIP_BZIP2),
            "no file in this zip archive can be read: left out a.txt: compressed by another method than deflate.",
        ),
        (
            zipped({"a.zip": zipped({"x.txt": "deep"})}),
            "no file in this zip archive can be read: left out a.zip: an archive in an archive.",
        ),
    ],
)
def test_an_archive_that_gives_nothing_is_one_line(data: bytes, says: str) -> None:
    assert refused(data) == f"a.zip: {says}"


@pytest.mark.parametrize(
    "name", ["../a.txt", "b/../../a.txt", "/etc/a.txt", "..\\a.txt", "C:/a.txt", "C:a.txt", "\\a.txt"]
)
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    says = refused(zipped({"fine.txt": "text", name: "text"}))
    assert says == f"a.zip: a name in it leads out of it ({name!r}): such an archive is not read."
    assert not list(Path("..").glob("a.txt"))


def test_two_dots_within_a_name_lead_nowhere() -> None:
    assert load(put(zipped({"a..b/v1..2.txt": "text"}))) == {"a..b/v1..2.txt": "text"}


@pytest.fixture(scope="module")
def bomb() -> bytes:
    zeros = bytes(64 * 1024**2)
    return zipped({f"{number}.xml": zeros for number in range(9)})


@pytest.mark.parametrize("suffix", [".zip", ".docx", ".xlsx", ".pptx"])
def test_sizes_are_added_up_before_anything_is_inflated(suffix: str, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        says = refused(bomb, f"a{suffix}")
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024**2
    finally:
        tracemalloc.stop()
    assert says == f"a{suffix}: it would unpack to 576 MB, more than 500 MB; if you trust it, unpack it yourself."


def test_an_archive_in_a_folder_is_told_of_when_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_UNPACKED", 1024**2)
    Path("d").mkdir()
    Path("d/a.txt").write_text("text")
    put(zipped({"x.txt": bytes(2 * 1024**2)}), "d/b.zip")
    notes: list[str] = []
    assert load("d", note=notes.append) == {"d/a.txt": "text"}
    assert notes == [
        "d: left out d/b.zip: it would unpack to 2 MB, more than 1 MB; if you trust it, unpack it yourself."
    ]


@pytest.mark.parametrize("suffix", [".zip", ".docx", ".xlsx", ".pptx"])
def test_no_more_is_inflated_than_was_declared(suffix: str) -> None:
    real = b"text" * 16 * 1024**2
    data = lying(zipped({"a.txt": real}), real, 40)
    del real
    tracemalloc.start()
    try:
        if suffix == ".zip":
            assert load(put(data)) == {"a.txt": "text" * 10}
        else:
            assert "that can be read" in refused(data, f"a{suffix}")
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024**2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("suffix", "make"), [(".docx", docx.Document), (".xlsx", openpyxl.Workbook), (".pptx", pptx.Presentation)]
)
def test_entities_in_office_files_do_not_grow(suffix: str, make: Callable[[], Any]) -> None:
    file = io.BytesIO()
    made = make()
    made.save(file)
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "lol">{laughs}]><a>&l9;</a>'
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in ("word/document.xml", "xl/workbook.xml", "ppt/presentation.xml"):
        if name in members:
            members[name] = bomb.encode()
    says = refused(zipped(members), f"a{suffix}")
    assert " that can be read: " in says
