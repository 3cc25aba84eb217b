"""Files that a run has made: what opens as its name says, and what does not."""

from __future__ import annotations

import io
import zipfile

import docx
import nbformat
import pandas as pd
import pptx
import pypdf
import pytest
from matplotlib.figure import Figure

from rlm_jupyter.run.files.openable import why_not


def drawn(kind: str) -> bytes:
    buffer = io.BytesIO()
    Figure().savefig(buffer, format=kind)
    return buffer.getvalue()


def saved(document: object) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]
    return buffer.getvalue()


def written() -> dict[str, bytes]:
    book, archive, pdf = io.BytesIO(), io.BytesIO(), pypdf.PdfWriter()
    pd.DataFrame({"a": [1]}).to_excel(book)
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("a.txt", "a")
    pdf.add_blank_page(72, 72)
    page = io.BytesIO()
    pdf.write(page)
    return {
        "a.xlsx": book.getvalue(),
        "a.docx": saved(docx.Document()),
        "a.pptx": saved(pptx.Presentation()),
        "a.zip": archive.getvalue(),
        "A.PNG": drawn("png"),
        "a.jpg": drawn("jpg"),
        "a.csv": "name,ort\nÄ,Ö\n".encode("utf-8-sig"),
        "a.tsv": b"a\tb\n",
        "a.json": b'{"a": [1.5, null]}',
        "a.jsonl": b'{"a": 1}\n\n{"a": 2}\n',
        "a.pdf": page.getvalue(),
        "a.ipynb": nbformat.writes(nbformat.v4.new_notebook()).encode(),
    }


WRITTEN = written()


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_whole_opens_and_what_is_cut_or_another_kind_does_not(name: str) -> None:
    data = WRITTEN[name]
    assert why_not(name, data) == ""
    cut = data[: len(data) // 2]
    if not name.endswith(("csv", "tsv", "jsonl")):  # half of these is a whole one
        assert why_not(name, cut).startswith("does not open: ")
    for wrong in (b"\x00\xff\xfe nothing of the kind", b" \n \n"):
        said = why_not(name, wrong)
        assert said.startswith("does not open: ")
        assert "\n" not in said


def test_any_other_name_says_nothing_of_its_content() -> None:
    assert why_not("a", b"\x00") == why_not("a.bin", b"\x00") == why_not("a.txt", b"\xff") == ""


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_no_json(constant: str) -> None:
    assert why_not("a.json", f"[{constant}]".encode()) == f"does not open: {constant} is no JSON"
