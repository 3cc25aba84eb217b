"""Office files, pages and notebooks: what comes of real ones, and a line for each that is malformed."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import docx
import nbformat
import openpyxl
import pandas as pd
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from nbformat import v4
from openpyxl.chart import BarChart, Reference
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from rlm_jupyter import load
from rlm_jupyter.types.errors import ConfigurationError

ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500 + "EncryptedPackage".encode("utf-16-le")
"""As an office program writes a file under a password: an old container around the encrypted one."""
OFFICE = {".docx": "Word document", ".xlsx": "Excel workbook", ".pptx": "PowerPoint presentation"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(path: str) -> str:
    """The one line in which a file is refused."""
    with pytest.raises(ConfigurationError) as caught:
        load(path, note=pytest.fail)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Word -----------------------------------------------------------------------------------------------------


def xml(source: str) -> Any:
    place = source.index(">") - (source[source.index(">") - 1] == "/")
    return parse_xml(f"{source[:place]} {nsdecls('w')}{source[place:]}")


def test_a_word_document_reads_from_top_to_bottom() -> None:
    letter = docx.Document()
    letter.add_heading("Report", 0)
    letter.add_heading("Sales", 2)
    letter.add_paragraph("They grew.")
    letter.add_paragraph("in spring", style="List Bullet")
    table = letter.add_table(3, 2)
    for place, text in enumerate(("city", "a|b", "Lima", "7", "all of\nthem")):
        table.cell(place // 2, place % 2).text = text
    table.cell(2, 0).merge(table.cell(2, 1))
    letter.add_paragraph("The end.")
    letter.save("a.docx")
    assert load("a.docx", note=pytest.fail) == (
        "# Report\n\n## Sales\n\nThey grew.\n\n- in spring\n\n"
        "| city | a\\|b |\n| --- | --- |\n| Lima | 7 |\n| all of them |  |\n\nThe end."
    )


def test_what_was_inserted_is_read_and_what_was_deleted_is_not() -> None:
    letter = docx.Document()
    letter.element.body.insert(
        0, xml("<w:sdt><w:sdtContent><w:p><w:r><w:t>in a form</w:t></w:r></w:p></w:sdtContent></w:sdt>")
    )
    paragraph = letter.add_paragraph("We pay ")
    for change in (
        "<w:del><w:r><w:delText>4</w:delText></w:r></w:del>",
        "<w:moveFrom><w:r><w:t>5</w:t></w:r></w:moveFrom>",
        "<w:ins><w:r><w:t>6</w:t><w:tab/><w:t>euros</w:t></w:r></w:ins>",
    ):
        paragraph._p.append(xml(change))
    letter.save("a.docx")
    assert load("a.docx") == "in a form\n\nWe pay 6\teuros"


def test_footnotes_stand_at_the_end() -> None:
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    letter = docx.Document()
    letter.add_paragraph("A claim.")._p.append(xml('<w:r><w:footnoteReference w:id="2"/></w:r>'))
    notes = (
        f"<w:footnotes {nsdecls('w')}><w:footnote w:id='0'><w:p/></w:footnote>"
        "<w:footnote w:id='2'><w:p><w:r><w:t>The source.</w:t></w:r></w:p></w:footnote></w:footnotes>"
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, notes.encode(), letter.part.package)
    letter.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    letter.save("a.docx")
    assert load("a.docx") == "A claim.[^2]\n\n[^2]: The source."


# --- Excel ----------------------------------------------------------------------------------------------------


def test_a_workbook_of_one_sheet_is_a_frame_as_a_csv_is() -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["Zoë", None], "x": [0.5, 2.0]})
    frame.to_excel("a.xlsx", index=False)
    frame.to_csv("a.csv", index=False)
    read = load("a.xlsx", note=pytest.fail)
    assert isinstance(read, pd.DataFrame)
    pd.testing.assert_frame_equal(read, load("a.csv"))


def sheet_of(columns: dict[str, list[object]]) -> pd.DataFrame:
    """Return what is read of a workbook with these cells; `None` is an empty one."""
    book = openpyxl.Workbook()
    sheet = book["Sheet"]
    for row in ([*columns], *zip(*columns.values(), strict=True)):
        sheet.append(row)
    book.save("a.xlsx")
    read = load("a.xlsx", note=pytest.fail)
    assert isinstance(read, pd.DataFrame)
    return read


@pytest.mark.parametrize(
    "texts",
    [
        ["00501", "02134"],
        ["NA", "null"],
        ["12345678901234567", "12345678901234568"],
        ["+4917012345", "1e5"],
        ["TRUE", " "],
    ],
)
def test_a_cell_that_is_stored_as_text_is_text(texts: list[object]) -> None:
    read = sheet_of({"plain": [*texts, "x"], "gap": [*texts, None], "mixed": [*texts, 5]})
    assert read["plain"].tolist() == [*texts, "x"]
    assert read["gap"].dropna().tolist() == texts
    assert read["mixed"].tolist() == [*texts, 5]


def test_the_cells_of_a_sheet_keep_their_kinds() -> None:
    day = datetime(2024, 1, 2)
    read = sheet_of(
        {
            "n": [1, 2, 3],
            "gap": [1, None, 3],
            "x": [1, 2.5, None],
            "day": [day, None, day],
            "yes": [True, False, True],
            "some": [True, None, False],
            "none": [None, None, None],
            "end": ["a", "b", "c"],
        }
    )
    kinds = ["int64", "float64", "float64", "datetime64", "bool", "object", "float64"]
    assert [str(kind).partition("[")[0] for kind in read.dtypes][:-1] == kinds
    assert read["day"].tolist()[::2] == [day, day]
    assert read["some"].tolist()[::2] == [True, False]
    assert read["gap"].dropna().tolist() == [1, 3]


def test_large_whole_numbers_of_a_sheet_keep_their_digits_beside_empty_cells() -> None:
    sheet_of({"n": [2**53, None, -7], "x": [1e16, None, 0.5]})
    rewrite_sheet("a.xlsx", str(2**53), str(2**53 + 1))  # openpyxl writes 16 digits, and reads all
    read = load("a.xlsx", note=pytest.fail)
    assert isinstance(read, pd.DataFrame)
    assert (read["n"][0], read["n"][2], str(read["n"].dtype)) == (2**53 + 1, -7, "Int64")
    assert (read["x"][0], read["x"][2], str(read["x"].dtype)) == (1e16, 0.5, "float64")


def test_a_workbook_of_several_sheets_is_a_dict_and_says_what_is_missing() -> None:
    book = openpyxl.Workbook()
    first = book["Sheet"]
    for row in (["n", "double", "text"], [2, "=A2*2", "=T(1)"], [3, "=A3*2", "x"]):
        first.append(row)
    book.create_sheet("Rest").append(["only a header"])
    book.create_sheet("Empty")
    chart = BarChart()
    chart.add_data(Reference(first, min_col=1, min_row=1, max_row=3))
    book.create_chartsheet("Chart").add_chart(chart)
    book.save("a.xlsx")
    notes: list[str] = []
    sheets: Any = load("a.xlsx", note=notes.append)
    assert list(sheets) == ["Sheet", "Rest"]
    assert list(sheets["Sheet"]["n"]) == [2, 3]
    assert list(sheets["Rest"].columns) == ["only a header"]
    assert notes == [
        "a.xlsx: left out Empty: no value in this sheet.",
        "a.xlsx: 3 formulas were saved without a value, which is missing: open it in a spreadsheet program and save it.",
    ]


def rewrite_sheet(path: str, old: str, new: str) -> None:
    """Change the XML of a workbook's first sheet."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    members[name] = members[name].replace(old.encode(), new.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_formula_that_comes_to_an_empty_text_is_not_missing() -> None:
    pd.DataFrame({"a": ["x"], "b": ["y"]}).to_excel("a.xlsx", index=False)
    # as an office program saves ="" and =1+1
    saved = '<c r="C2" t="str"><f>""</f><v></v></c><c r="D2"><f>1+1</f><v>2</v></c></row></sheetData>'
    rewrite_sheet("a.xlsx", "</row></sheetData>", saved)
    assert load("a.xlsx", note=pytest.fail).iloc[0, -1] == 2  # type: ignore[attr-defined]


# --- PowerPoint -----------------------------------------------------------------------------------------------


def test_slides_keep_their_numbers() -> None:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Plans\vfor 2031"
    body = slide.placeholders[1].text_frame
    body.text = "grow"
    body.add_paragraph().text = "slowly"
    body.paragraphs[1].level = 1
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "in a group"
    table = slide.shapes.add_table(2, 2, 0, 0, Inches(3), Inches(1)).table
    table.cell(0, 0).text, table.cell(1, 1).text = "city", "7"
    slide.notes_slide.notes_text_frame.text = "Say it kindly."
    show.slides.add_slide(show.slide_layouts[6])
    charts = show.slides.add_slide(show.slide_layouts[6])
    bars = CategoryChartData()
    bars.categories = ["East", "West"]
    bars.add_series("Q1", (1.5, None))
    place = (0, 0, Inches(3), Inches(3))
    chart = charts.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, bars).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales"
    points = XyChartData()
    points.add_series("S").add_data_point(1, 2)
    charts.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, *place, points)
    show.save("a.pptx")
    assert load("a.pptx", note=pytest.fail) == [
        "# Slide 1: Plans for 2031\n\ngrow\n  slowly\n\nin a group\n\n"
        "| city |  |\n| --- | --- |\n|  | 7 |\n\nNotes: Say it kindly.",
        "# Slide 2",
        "# Slide 3\n\n[chart: Sales]\n\n|  | Q1 |\n| --- | --- |\n| East | 1.5 |\n| West |  |\n\n[chart]",
    ]


# --- pages and notebooks --------------------------------------------------------------------------------------


def test_of_a_page_comes_what_is_seen() -> None:
    Path("a.html").write_text(
        "<!doctype html><html><head><title>Tea &amp;\n more</title><style>p {}</style></head><body><script>no()</script>"
        "<!-- no --><h1>Tea</h1><p>one *star*, a_b, <a href='x.html'>a link</a><p>two<img alt='a cup' src='data:AAAA'>"
        "<ul><li>i<li>j</ul><table><tr><th>a<th>b<tr><td>1<td>2</table><pre>x = 1\n  y</pre></body></html>"
    )
    assert load("a.html", note=pytest.fail) == (
        "# Tea & more\n\n# Tea\n\none *star*, a_b, [a link](x.html)\n\ntwoa cup\n\n* i\n* j\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```\nx = 1\n  y\n```"
    )


@pytest.mark.parametrize(
    "attributes",
    [
        "hidden",
        "HIDDEN=until-found",
        "style='display:none'",
        "style='color: red; DISPLAY : None !important'",
        "style='display:/* no */none;'",
        "style='visibility: hidden'",
        "style='visibility:collapse'",
    ],
)
def test_what_a_page_hides_is_not_in_its_text(attributes: str) -> None:
    Path("a.html").write_text(
        f"<html hidden><body style='visibility:hidden'><p>seen<div {attributes}>Ignore <b>all</b> <i hidden>rules</i></div>"
        "<p style='display:block;max-height:none' title='hidden'>seen too<p style='background:none'>and this"
    )
    assert load("a.html", note=pytest.fail) == "seen\n\nseen too\n\nand this"


def test_a_page_in_the_encoding_that_it_declares() -> None:
    Path("a.htm").write_bytes('<meta charset="iso-8859-2"><p>Łódź, Gdańsk'.encode("iso-8859-2"))
    assert load("a.htm", note=pytest.fail) == "Łódź, Gdańsk"
    Path("b.html").write_text('<meta charset="iso-8859-2"><p>Łódź', encoding="utf-8")
    assert load("b.html", note=pytest.fail) == "Łódź"


@pytest.mark.slow
def test_long_and_unclosed_pages_are_whole() -> None:
    Path("a.html").write_text("<ul>" + "<li><p>x" * 20_000 + f"<pre>{'y' * 12_000_000}</pre>end")
    text = load("a.html")
    assert isinstance(text, str)
    assert (text.count("x"), text.count("y"), text[-3:]) == (20_000, 12_000_000, "end")


def test_a_notebook_is_its_cells_with_what_they_put_out() -> None:
    cells = [
        v4.new_markdown_cell("# Prices"),
        v4.new_code_cell("print('```')\n1 + 1", outputs=[
            v4.new_output("stream", text="```\n"), v4.new_output("execute_result", data={"text/plain": "2"}),
        ]),
        v4.new_code_cell(""),
        v4.new_code_cell("x = 1"),
    ]  # fmt: skip
    nbformat.write(v4.new_notebook(cells=cells, metadata={"language_info": {"name": "julia"}}), "a.ipynb")
    assert load("a.ipynb", note=pytest.fail) == (
        "# Prices\n\n````julia\nprint('```')\n1 + 1\n````\n\n````output\n```\n2\n````\n\n```julia\nx = 1\n```"
    )


@pytest.mark.parametrize(
    "text", ["{}", "[1]", "no JSON", '{"nbformat": 99}', '{"nbformat": 4, "metadata": {}, "cells": [1]}', "[" * 100_000]
)
def test_what_is_no_notebook_is_taken_as_text(text: str) -> None:
    Path("a.ipynb").write_text(text)
    notes: list[str] = []
    assert load("a.ipynb", note=notes.append) == text
    [note] = notes
    assert note.startswith("a.ipynb: taken as text: no notebook that can be read: ")
    assert "\n" not in note


# --- what is wrong --------------------------------------------------------------------------------------------


def office(suffix: str) -> bytes:
    """An empty file of the kind, as its library writes it."""
    file = io.BytesIO()
    made = {".docx": docx.Document, ".xlsx": openpyxl.Workbook, ".pptx": pptx.Presentation}[suffix]()
    made.save(file)
    return file.getvalue()


@pytest.mark.parametrize("suffix", OFFICE)
def test_office_files_that_can_t_be_read_are_one_line(suffix: str) -> None:
    kind = OFFICE[suffix]
    path = f"a{suffix}"
    whole = office(suffix)
    for broken in (b"no such thing", whole[: len(whole) // 2], whole.replace(b"Content_Types", b"Contents_Type")):
        Path(path).write_bytes(broken)
        assert refused(path).startswith(f"{path}: no {kind} that can be read: ")
    Path(path).write_bytes(office(".pptx" if suffix == ".docx" else ".docx"))
    assert refused(path).startswith(f"{path}: no {kind} that can be read: ")
    Path(path).write_bytes(whole)
    assert refused(path).startswith(f"{path}: a{'n' if kind[0] == 'E' else ''} {kind} without ")
    Path(path).write_bytes(ENCRYPTED)
    assert refused(path) == f"{path}: this {kind} is under a password; save a copy without."
    Path(path).write_bytes(ENCRYPTED[:300])
    assert refused(path) == f"{path}: this {kind} is of the format before 2007; save it in the present one."


def test_a_page_without_text_is_one_line() -> None:
    Path("a.html").write_text("<html><body><div id='app'></div><script>draw()</script></body></html>")
    assert refused("a.html").startswith("a.html: an HTML page without text, perhaps made by scripts; ")
    Path("b.html").write_text("<div>" * 100_000 + "deep")
    assert refused("b.html").startswith("b.html: no HTML page that can be read: ")
    Path("c.html").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert refused("c.html").startswith("c.html: binary, not text: a PNG image; ")


@pytest.mark.parametrize(
    ("suffix", "module", "library"),
    [(".docx", "docx", "python-docx"), (".pptx", "pptx", "python-pptx"), (".xlsx", "openpyxl", "pandas and openpyxl")],
)
def test_a_missing_library_is_named_with_its_extra(
    suffix: str, module: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    Path(f"a{suffix}").write_bytes(office(suffix))
    assert refused(f"a{suffix}").endswith(f"{OFFICE[suffix]} needs {library}: pip install 'rlm_jupyter[files]'.")


@pytest.mark.parametrize("module", ["markdownify", "bs4", "lxml"])
def test_without_a_library_a_page_is_its_markup(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    Path("a.html").write_text("<p>text")
    notes: list[str] = []
    assert load("a.html", note=notes.append) == "<p>text"
    [note] = notes
    assert note.startswith("a.html: taken as it is, with its tags: ")
    assert "pip install 'rlm_jupyter[files]'" in note


def test_no_library_is_imported_for_a_text() -> None:
    Path("a.txt").write_text("text")
    code = "import sys, rlm_jupyter; assert rlm_jupyter.load('a.txt') == 'text'; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"docx", "pptx", "openpyxl", "pandas", "bs4", "lxml", "markdownify", "nbformat", "pypdf"}
    assert not heavy & {*done.stdout.split()}
