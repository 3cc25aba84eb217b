"""`files.load`: every kind of file, folders, patterns, encodings, and one clear line for what can't be read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tarfile
import warnings
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from rlm_jupyter.run.files import load as files
from rlm_jupyter.run.files.load import load
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.pdf_pages import PdfPages
from tests.support.examples import some
from tests.support.pictures import jpeg, png

PROSE = {
    "cp1252": "Die Größe des Gefäßes übertrifft alle Erwartungen: „Können Sie für Übermüdete Stühle räumen?“ ",
    "latin-1": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ça va coûter très cher. ",
    "iso8859-15": "Alla människor är födda fria och lika i värde och rättigheter, från början. Åtta öar. ",
    "cp1250": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Każdy człowiek. ",
    "cp1254": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler "
    "ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler. ",
    "cp1251": "Съешь же ещё этих мягких французских булок, да выпей чаю, пока они тёплые и свежие. ",
    "shift_jis": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "gb18030": "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？",
    "euc_kr": "나랏말싸미 중국과 달라 한자와는 서로 통하지 아니하므로 백성이 이르고자 하는 바가 있어도.",
}


FEW_ACCENTS = (
    "Nous avons reçu votre réclamation du 3 mars ; l’élève n’était pas là.",
    "Größe: 5 m, Preis: 3 €\n" * 20,
    "été\n" * 3,
    "¿Dónde está la niña? Mañana volverá.",
    "Grüße, ça va",
    "São Paulo não está à venda: 5 °C, 3½ m²",
)
"""Too few for statistics."""


class Notes(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(path: str, content: str | bytes = "text") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pdf(*pages: str) -> bytes:
    """A real PDF of one line a page, written by hand: pypdf writes no text."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
        font = b"<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources%s>>" % (len(objects), font)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (b" ".join(kids), len(kids))
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return out + head + table + tail


# --- text -----------------------------------------------------------------------------------------------------


@settings(max_examples=some(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=300).filter(
        str.strip
    ),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_unicode_text_comes_back_character_by_character(text: str, encoding: str) -> None:
    assert load(put("a.txt", text.encode(encoding)), note=pytest.fail) == text


@settings(max_examples=some(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(min_codepoint=9, max_codepoint=126, exclude_categories=["Cc"]), min_size=1).filter(str.strip),
    st.sampled_from(["utf-16-le", "utf-16-be"]),
)
def test_utf16_without_a_mark_is_seen(text: str, encoding: str) -> None:
    assert load(put("a.txt", text.encode(encoding))) == text


@pytest.mark.parametrize("text", FEW_ACCENTS)
def test_a_few_accents_are_read_in_the_most_common_encoding(text: str, notes: Notes) -> None:
    Path("a.txt").write_bytes(text.encode("cp1252"))
    assert load("a.txt", note=notes) == text
    assert "CP1252, which is a guess" in str(notes)


@pytest.mark.parametrize("encoding", PROSE)
def test_older_encodings_are_told_apart(encoding: str, notes: Notes) -> None:
    # rare lines in plain ASCII, where a look here and there would see nothing
    text = ("0123456789\n" * 2_000 + PROSE[encoding] + "\n") * 8
    assert load(put("a.txt", text.encode(encoding)), note=notes) == text
    assert [note[: note.index("as ")] for note in notes] == ["a.txt: not UTF-8: read "]


def test_a_log_with_a_torn_line_stays_utf8(notes: Notes) -> None:
    data = ("Grüße, 日本語\n" * 100).encode() + b"torn \xff\xfe here\n" + "äöü\n".encode()
    text = load(put("app.log", data), note=notes)
    assert isinstance(text, str)
    assert text.startswith("Grüße, 日本語\n")
    assert text.endswith("torn \ufffd\ufffd here\näöü\n")
    assert notes == ["app.log: UTF-8 but for 2 stray bytes, read as U+FFFD."]


def test_line_ends_stay_as_they_are() -> None:
    assert load(put("a.txt", "a\r\nb\rc\n")) == "a\r\nb\rc\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["empty.txt"], "empty.txt is empty"),
        (["blank.txt"], "blank.txt is empty"),
        (["empty.csv"], "empty.csv is empty"),
        (["null.json"], "null.json is empty"),
        (["none.json"], "none.json is empty"),
        (["empty.txt", "blank.txt"], "empty.txt, blank.txt are empty"),
        (["folder"], "folder: all files are empty"),
    ],
)
def test_files_that_hold_nothing_are_refused(given: list[str], says: str) -> None:
    for name, text in [("blank.txt", " \n\n"), ("null.json", "null"), ("none.json", "{}"), ("folder/a.txt", "")]:
        put(name, text)
    put("empty.txt", ""), put("empty.csv", "id,name\n")
    with pytest.raises(ConfigurationError) as caught:
        load(given)
    assert str(caught.value) == f"{says}: there is nothing to answer from."


def test_an_empty_file_among_others_is_told_of_where_it_was_named(notes: Notes) -> None:
    put("folder/a.txt", "text"), put("folder/b.txt", ""), put("empty.txt", "")
    assert load(["folder", "empty.txt"], note=notes) == {"folder/a.txt": "text", "folder/b.txt": "", "empty.txt": ""}
    assert notes == ["empty.txt is empty."]
    assert load(put("a.json", '[""]')) == [""]


def test_without_charset_normalizer_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    put("a.txt", PROSE["cp1252"].encode("cp1252"))
    with pytest.raises(ConfigurationError, match=r"^a\.txt: not UTF-8.*pip install 'rlm_jupyter\[files\]'"):
        load("a.txt")
    assert load(put("b.txt", "Größe")) == "Größe"


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_are_what_is_inside(suffix: str, compress: Any) -> None:
    assert load(put(f"a.txt.{suffix}", compress("Größe".encode()))) == "Größe"
    frame = load(put(f"t.csv.{suffix}", compress(b"a,b\n1,2\n")))
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"a": [1], "b": [2]}
    put(f"bad.txt.{suffix}", compress(b"x" * 1000)[:-12])
    with pytest.raises(ConfigurationError, match=rf"^bad\.txt\.{suffix}: damaged"):
        load(f"bad.txt.{suffix}")


# --- tables and data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,name\n1,Zoë\n2,Bo\n"),
        ("a.csv", "\ufeffid;name\r\n1;Zoë\r\n2;Bo\r\n"),
        ("a.CSV", "id|name\n1|Zoë\n2|Bo\n"),
        ("a.csv", "id;name\r1;Zoë\r2;Bo\r"),
        ("a.tsv", "id\tname\n1\tZoë\n2\tBo\n"),
        ("a.json", '[{"id": 1, "name": "Zoë"}, {"id": 2, "name": "Bo"}]'),
        ("a.jsonl", '{"id": 1, "name": "Zoë"}\n\n{"id": 2, "name": "Bo"}\n'),
    ],
)
def test_tables(name: str, content: str, notes: Notes) -> None:
    frame = load(put(name, content), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": [1, 2], "name": ["Zoë", "Bo"]}
    assert notes == []


@pytest.mark.parametrize("above", ["Orders of May\n", "\nOrders\n\nall of them\n"])
def test_a_title_above_a_table_is_no_header(above: str, notes: Notes) -> None:
    frame = load(put("a.csv", f"{above}id;name\n1;Zoë\n2;Bo\n"), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": [1, 2], "name": ["Zoë", "Bo"]}
    [note] = notes
    assert note.startswith("a.csv: left out above the table's header: Orders")


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nid;name\n1;Zoë\n2;Bo\n",
        '\ufeff"sep=|"\r\nid|name\r\n1|Zoë\r\n2|Bo\r\n',
        "sep=\t\nid\tname\n1\tZoë\n2\tBo\n",
        "SEP=;\nOrders, all of them\nid;name\n1;Zoë\n2;Bo\n",
        "sep=^\nid^name\n1^Zoë\n2^Bo\n",
    ],
)
def test_a_separator_that_excel_is_told_is_taken_from_there(text: str, notes: Notes) -> None:
    frame = load(put("a.csv", text), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": [1, 2], "name": ["Zoë", "Bo"]}
    [note] = notes
    assert note.lower().startswith(
        ("a.csv: left out above the table's header: sep=", "a.csv: left out above the table's header: \"sep=")
    )


@pytest.mark.parametrize(
    "text",
    [
        "comment\nI like it, number 0\nI like it, number 1\nI like it, number 2\n",
        "price\n1,50\n2,30\n",
        "name\nHolm,Hugo\nRoth,Rita\n",
        "address\n1 Main St, Paris, France\n2 High St, London, England\n",
    ],
)
def test_a_comma_in_each_row_of_one_column_makes_no_table_of_two(text: str, notes: Notes) -> None:
    assert load(put("a.csv", text), note=notes) == text
    why = "no regular table (the rows have more fields than the header, which has one)"
    assert notes == [f"a.csv: taken as text: {why}."]


def test_commas_in_quotes_are_no_separators(notes: Notes) -> None:
    frame = load(put("a.csv", 'comment\n"I like it, 0"\n"I like it, 1"\n'), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"comment": ["I like it, 0", "I like it, 1"]}
    assert notes == []


@pytest.mark.parametrize(
    "table",
    ["id,name\n1,Zoë\n2,Bo\n", "id, name\n1, Zoë\n,Bo\n", "a,b,c\nx,y,z\n", "\nname,city\nZoë,Oslo\n", "a\tb\nx\ty\n"],
)
def test_a_title_above_a_table_of_commas_is_no_header(table: str, notes: Notes) -> None:
    frame = load(put("a.csv", f"Orders of May\n{table}"), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape[1] > 1
    assert notes == ["a.csv: left out above the table's header: Orders of May."]


@pytest.mark.parametrize("text", ["id\n1\n2\n", "name\nAbel, Ada\nHolm, Hugo\nRoth\n"])
def test_a_column_alone_has_no_title(text: str, notes: Notes) -> None:
    load(put("a.csv", text), note=notes)
    assert not [note for note in notes if "left out" in note]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_leading_zeros_are_kept(separator: str) -> None:
    text = 'zip,n,"id",at,share\n00501,1,"07",09:30,0.5\n,02,"8",10:15,0\n10115,3,"9",07:00,1\n'
    notes = Notes()
    frame = load(put("a.csv", text.replace(",", separator)), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.zip.tolist()[::2] == ["00501", "10115"]
    assert pd.isna(frame.zip[1])
    assert (frame.n.tolist(), frame.id.tolist(), frame.share.tolist()) == (
        ["1", "02", "3"],
        ["07", "8", "9"],
        [0.5, 0, 1],
    )
    assert notes == ["a.csv: taken as text for its leading zeros: zip, n, id."]
    frame = load(put("a.csv", "d,n\n2032-01-02,0\n,-1\n"), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.n.tolist() == [0, -1]
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id,x\n00017,1\n99999999999999999999,2\n", ["00017", "99999999999999999999"]),
        ("id,x\n017 ,1\n12,2\n", ["017 ", "12"]),
        ("id,x\n 017,1\n12,2\n", [" 017", "12"]),
        ("x,id\n1,+017\n2,12\n", ["+017", "12"]),
    ],
)
def test_leading_zeros_are_kept_beside_blanks_signs_and_numbers_too_large(
    text: str, ids: list[str], notes: Notes
) -> None:
    frame = load(put("a.csv", text), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": ids, "x": [1, 2]}
    assert notes == ["a.csv: taken as text for its leading zeros: id."]


@pytest.mark.parametrize(
    "text",
    [
        "id,text\n1,hello there,\n2,second one,\n",
        "id,text\n1,hello there,\n2,second one\n",
        "id;text\n1;hello there;;\n2;second one;;\n",
        "id\ttext\n1\thello there\t\n2\tsecond one\t\n",
    ],
)
def test_separators_at_the_end_of_lines_move_no_column(text: str, notes: Notes) -> None:
    frame = load(put("a.csv" if "\t" not in text else "a.tsv", text), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": [1, 2], "text": ["hello there", "second one"]}
    assert list(frame.index) == [0, 1]
    assert notes == []


def test_leading_zeros_are_kept_where_separators_end_the_lines(notes: Notes) -> None:
    with warnings.catch_warnings(action="error"):
        frame = load(put("a.csv", "zip,n\n00501,0,,\n10115,1,,\n"), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"zip": ["00501", "10115"], "n": [0, 1]}


def test_rows_that_have_names_keep_them_and_a_line_says_so(notes: Notes) -> None:
    frame = load(put("a.csv", '"id","zip"\n"x",1,0501\n"x",2,10115\n'), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"id": [1, 2], "zip": ["0501", "10115"]}
    assert list(frame.index) == ["x", "x"]
    assert notes[0] == (
        "a.csv: its rows have more fields than its header: the first of them are taken for the rows' names (the index)."
    )


@pytest.mark.parametrize("text", ["id,text\n1,a,\n2,b,more\n", "id,text\n1,a,more\n2,b\n"])
def test_where_only_some_rows_are_longer_the_table_is_taken_as_text(text: str, notes: Notes) -> None:
    assert load(put("a.csv", text), note=notes) == text
    assert notes == ["a.csv: taken as text: no regular table (some rows have more fields than the header)."]


def test_large_whole_numbers_keep_their_digits_beside_gaps(notes: Notes) -> None:
    text = "order,who,small,share,huge\n9007199254740993,ann,1,9007199254740993.5,18446744073709551615\n,bob,,,\n-7,cy,3,1,5\n"
    frame = load(put("a.csv", text), note=notes)
    assert isinstance(frame, pd.DataFrame)
    assert (frame.order[0], frame.order[2], str(frame.order.dtype)) == (2**53 + 1, -7, "Int64")
    assert frame.order.isna().tolist() == [False, True, False]
    assert (str(frame.small.dtype), str(frame.share.dtype)) == ("float64", "float64")
    assert [str(frame.huge[row]) for row in (0, 2)] == [str(2**64 - 1), "5"]
    assert notes == []


def test_large_whole_numbers_of_parquet_keep_their_digits_beside_gaps() -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(
        {
            "a.b": pa.array([2**53 + 1, None]),
            "u": pa.array([2**63 + 1, None], pa.uint64()),
            "small": pa.array([1, None]),
            "f": pa.array([2.0**60, None]),
        }
    )
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    frame = load(put("a.parquet", buffer.getvalue()))
    assert isinstance(frame, pd.DataFrame)
    assert (frame["a.b"][0], frame.u[0]) == (2**53 + 1, 2**63 + 1)
    assert frame.isna().sum().tolist() == [1, 1, 1, 1]
    assert list(map(str, frame.dtypes)) == ["Int64", "UInt64", "float64", "float64"]
    buffer = io.BytesIO()
    pd.DataFrame({0: [2.0**60, None], 1: pd.array([2**53 + 1, None], "Int64")}).to_parquet(buffer)
    frame = load(put("a.parquet", buffer.getvalue()))
    assert isinstance(frame, pd.DataFrame)
    assert list(map(str, frame.dtypes)) == ["float64", "Int64"]
    assert (frame.iloc[0, 0], frame.iloc[0, 1]) == (2.0**60, 2**53 + 1)


def test_a_csv_in_an_older_encoding() -> None:
    text = "wort;zahl\n" + "".join(f"{word};1\n" for word in PROSE["cp1252"].split() * 20)
    frame = load(put("a.csv", text.encode("cp1252")), note=Notes())
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["wort"])[:4] == ["Die", "Größe", "des", "Gefäßes"]


def test_parquet() -> None:
    buffer = io.BytesIO()
    pd.DataFrame({"a": [1, 2]}).to_parquet(buffer)
    frame = load(put("a.parquet", buffer.getvalue()))
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["a"]) == [1, 2]
    with pytest.raises(ConfigurationError, match=r"^b\.parquet: no parquet file that can be read"):
        load(put("b.parquet", b"nothing of the kind"))


def test_rows_with_gaps_keep_their_whole_numbers() -> None:
    big = 2**53 + 1
    frame = load(put("a.json", json.dumps([{"id": big, "x": None}, {"id": None, "x": 1}])))
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["id"]) == [big, None]


@pytest.mark.parametrize(
    "data", [{"a": {"b": [1]}}, [1, 2], [[]], [{}], "text", [None], [{"a": 1}, {"b": 2}], [{"a": [1]}, {"a": [2]}]]
)
def test_json_that_is_no_table_is_plain_data(data: object) -> None:
    assert load(put("a.json", json.dumps(data))) == data


def test_json_lines_may_hold_other_line_separators() -> None:
    put("a.jsonl", '["a\u2028b"]\n[2]\n')
    assert load("a.jsonl") == [["a\u2028b"], [2]]


def test_what_is_no_table_is_taken_as_text_with_a_note(notes: Notes) -> None:
    ragged = "a,b\n1,2\n1,2,3,4\n"
    assert load(put("a.csv", ragged), note=notes) == ragged
    assert load(put("a.jsonl", '{"a": 1}\n{oops\n'), note=notes) == '{"a": 1}\n{oops\n'
    assert load(put("a.json", "[" * 100_000), note=notes) == "[" * 100_000
    assert [note.partition(" (")[0] for note in notes] == [
        "a.csv: taken as text: no regular table",
        "a.jsonl: taken as text: no JSON",
        "a.json: taken as text: no JSON",
    ]
    assert "line 2" in notes[1]


def test_without_pandas(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert load(put("a.csv", "a,b\n1,2\n"), note=notes) == "a,b\n1,2\n"
    assert notes == ["a.csv: taken as text: a table needs pandas (pip install 'rlm_jupyter[files]')."]
    assert load(put("a.json", '[{"a": 1}]')) == [{"a": 1}]
    with pytest.raises(ConfigurationError, match=r"^a\.parquet: .*pip install 'rlm_jupyter\[files\]'"):
        load(put("a.parquet", b"PAR1"))


@pytest.mark.parametrize(
    "given", [5, None, ["a", 5], 3.5, {"a": "a.csv"}, io.StringIO("a.csv\n"), "a\0b", "first line\nsecond line" * 200]
)
def test_what_is_no_path_is_refused_in_a_line(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^load takes a path, or a list of paths, not ") as refused:
        load(given)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_a_folder_that_may_be_read_and_is_not_there_is_said_to_be_missing() -> None:
    put("a.csv", "a,b\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"may be read \(.*nope, which is not there\)\.$"):
        load("a.csv", within="nope")


def test_pdf_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.pdf", pdf("The first page.", "The second."))
    assert load("a.pdf") == ["The first page.", "The second."]
    blank = put("blank.pdf", pdf(""))
    with monkeypatch.context() as without:
        without.setattr("rlm_jupyter.run.files.pdf.find_spec", lambda _: None)
        with pytest.raises(ConfigurationError, match=r"^blank\.pdf: a PDF without text"):
            load(blank)
    with pytest.raises(ConfigurationError, match=r"^broken\.pdf: no PDF that can be read"):
        load(put("broken.pdf", b"%PDF-1.4 and nothing"))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ConfigurationError, match=r"^a\.pdf: a PDF needs pypdf: pip install 'rlm_jupyter\[files\]'"):
        load("a.pdf")


def test_a_pdf_under_a_password_is_refused_in_one_line() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("hush", algorithm="RC4-128")
    with Path("a.pdf").open("wb") as file:
        writer.write(file)
    with pytest.raises(ConfigurationError, match=r"^a\.pdf: a PDF under a password; save a copy without\.$"):
        load("a.pdf")


# --- which files ----------------------------------------------------------------------------------------------


def test_several_files_are_a_dict_in_their_order() -> None:
    put("b.txt", "B")
    put("sub/a.txt", "A")
    assert load(["b.txt", "./sub/a.txt", "sub/../b.txt"]) == {"b.txt": "B", "sub/a.txt": "A"}
    assert list(load(["sub/a.txt", "b.txt"])) == ["sub/a.txt", "b.txt"]  # type: ignore[call-overload]
    assert load([Path("b.txt")]) == "B"


def test_a_folder_without_what_nobody_means(notes: Notes) -> None:
    for path in ("d/b.txt", "d/a.md", "d/sub/c.txt"):
        put(path, path)
    for path in ("d/.env", "d/.git/config", "d/node_modules/x.js", "d/rlm_runs/r.ipynb", "d/run.rlm/journal.jsonl"):
        put(path, "never")
    for number in range(5):
        put(f"d/{number}.png", b"\x89PNG\0\0")
    os.mkfifo("d/pipe")
    put("d/large.txt", b"x" * (files.MOST_BYTES + 1))
    assert load("d", note=notes) == {"d/a.md": "d/a.md", "d/b.txt": "d/b.txt", "d/sub/c.txt": "d/sub/c.txt"}
    assert notes == [
        "d: passed over 2 hidden, 3 of tools and earlier runs (files and folders; name them to read them).",
        "d: left out d/large.txt: larger than 20 MB (name it to read it).",
        "d: left out d/0.png, d/1.png, d/2.png and 2 more: images beside other files (name them, or a pattern, to read "
        "them).",
    ]
    assert load("d/large.txt") == "x" * (files.MOST_BYTES + 1)


def test_a_folder_with_one_file_is_still_a_dict() -> None:
    put("d/a.txt", "A")
    assert load("d") == {"d/a.txt": "A"}
    assert load("d/*.txt") == {"d/a.txt": "A"}
    assert load(["d/a.txt", "d"]) == {"d/a.txt": "A"}


def test_what_git_ignores_is_left_out(here: Path, monkeypatch: pytest.MonkeyPatch, notes: Notes) -> None:
    Path(".git").mkdir()
    put(".gitignore", "*.log\n/build/\n")
    put("src/.gitignore", "!keep.log\ngenerated\n")
    for path in ("a.txt", "a.log", "build/x.txt", "src/build/y.txt", "src/b.log", "src/keep.log", "src/generated/z"):
        put(path, "text")
    assert list(load(".", note=notes)) == ["a.txt", "src/keep.log", "src/build/y.txt"]  # type: ignore[call-overload]
    assert notes == [
        ".: passed over 3 hidden, 4 ignored by git (files and folders; name them to read them).",
    ]
    # the rules above a folder hold inside of it too
    assert list(load("src", note=notes)) == ["src/keep.log", "src/build/y.txt"]  # type: ignore[call-overload]
    assert notes.pop() == "src: passed over 2 ignored by git, 1 hidden (files and folders; name them to read them)."
    # but not in one that is named though they are about it
    assert load("build", note=pytest.fail) == {"build/x.txt": "text"}
    assert load(["a.log"], note=pytest.fail) == "text"
    notes.clear()
    monkeypatch.setitem(sys.modules, "pathspec", None)
    assert "a.log" in load(".", note=notes)  # type: ignore[operator]
    assert notes[:1] == [f"{here / '.gitignore'} is not honoured without pathspec: pip install 'rlm_jupyter[files]'."]


def test_patterns_reach_any_depth_and_come_sorted() -> None:
    for path in ("b.md", "x/y/a.md", "x/c.txt", ".hidden/d.md"):
        put(path, path)
    assert list(load("**/*.md")) == ["b.md", "x/y/a.md"]  # type: ignore[call-overload]
    assert load(put("odd[1].md", "odd")) == "odd"


def test_paths_outside_are_called_as_given(tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    put(str(other / "a.txt"), "A")
    assert load([str(other), put("b.txt", "B")]) == {f"{other}/a.txt": "A", "b.txt": "B"}


def test_a_link_that_goes_round_ends() -> None:
    put("d/a.txt", "A")
    Path("d/self").symlink_to("../d")
    Path("d/again.txt").symlink_to("a.txt")
    assert load("d") == {"d/a.txt": "A"}


@pytest.mark.parametrize("data", ["Größe".encode(), "Größe".encode("utf-16")])
def test_standard_input(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert load("-") == "Größe"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert load([put("a.txt", "A"), "-"]) == {"a.txt": "A", "-": "Größe"}


def test_a_pipe_is_read_like_a_file() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"through a pipe")
    os.close(writing)
    try:
        assert load(f"/dev/fd/{reading}") == "through a pipe"
    finally:
        os.close(reading)


@pytest.mark.parametrize("path", ["/dev/zero", "link.txt"])
def test_a_device_is_refused_before_it_is_read(path: str) -> None:
    Path("link.txt").symlink_to("/dev/zero")
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from rlm_jupyter import load
load({path!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    *_, last = done.stderr.splitlines()
    assert last.endswith(f"{path}: a device, not a file: name a file, or - for standard input.")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("gone.txt", "gone.txt: there is no such file."),
        ("*.gone", "No file matches '*.gone'."),
        ("empty", "empty: no file in this folder can be read."),
        ("blobs", "blobs: no file in this folder can be read. Left out blobs/b.bin: binary, not text."),
        (
            "a.png",
            "a.png: a PNG image that breaks off, or is damaged.",
        ),
        ("a.bin", "a.bin: binary, not text, and of no format that is known here; convert it to text."),
    ],
)
def test_what_can_t_be_read_is_one_line_that_names_it(path: str, line: str) -> None:
    Path("empty").mkdir()
    put("blobs/b.bin", bytes(range(256)) * 64)
    put("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    put("a.bin", bytes(range(256)) * 64)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert str(caught.value) == line
    for nothing in ([], "", ["a.png", ""]):
        with pytest.raises(ConfigurationError, match="No file is named"):
            load(nothing)


def zipped(**names: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in names.items():
            archive.writestr(name.replace("__", "/"), content)
    return written.getvalue()


def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (a)")
        return connection.serialize()


def tarred() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "what", "advice"),
    [
        ("archive", zipped(a="text"), "a zip archive", "suffix .zip"),
        ("letter", zipped(word__document="x"), "a Word document", "suffix .docx"),
        ("book", zipped(xl__workbook="x"), "an Excel workbook", "suffix .xlsx"),
        ("slides", zipped(ppt__slides="x"), "a PowerPoint presentation", "suffix .pptx"),
        ("cut", zipped(a="text")[:30], "a zip archive", "suffix .zip"),
        ("a.db", database(), "a SQLite database", "pandas.read_sql"),
        ("a.tar", tarred(), "a tar archive", "tar -xf"),
        ("a.tar.gz", gzip.compress(tarred()), "a tar archive", "tar -xf"),
        ("a", gzip.compress(b"text" * 99), "compressed by gzip", "suffix .gz"),
        ("a", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "a JPEG image", "PIL.Image.open"),
        ("photo", b"RIFF\x10\0\0\0WEBPVP8 \xff", "a WebP image", "PIL.Image.open"),
        ("a.mp3", b"ID3\x04\0\0\0\xff", "an MP3 recording", "transcription"),
        ("scan", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF", "suffix .pdf"),
        ("data", b"PAR1\x15\0\x15\xff", "a Parquet file", "suffix .parquet"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # an archive holds the time, and differs in each worker
)
def test_a_binary_file_is_named_with_what_to_do(name: str, data: bytes, what: str, advice: str, notes: Notes) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name}: binary, not text: {what}; [^\n]*{advice}[^\n]*\.$"):
        load(put(name, data))
    put("d/a.txt", "text")
    put(f"d/{name}", data)
    assert load("d", note=notes.append) == {"d/a.txt": "text"}
    assert notes == [f"d: left out d/{name}: binary, not text: {what}."]


def test_a_text_may_begin_as_a_binary_format_does() -> None:
    for text in ("BZh is no compression here", "ID3 tags, \u00e9t\u00e9", "MZ", "PAR1", "%PDF- is how they begin"):
        assert load(put("a.txt", text)) == text
    old = "MZ: " + PROSE["cp1252"] * 20
    assert load(put("b.txt", old.encode("cp1252"))) == old


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that even root can't read is Linux's")
def test_a_file_that_refuses_to_be_read_is_named() -> None:
    Path("a.txt").symlink_to("/proc/self/mem")
    with pytest.raises(ConfigurationError, match=r"^a\.txt: Input/output error\.$"):
        load("a.txt")


def test_notes_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    load(put("a.json", "{oops"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("a.json: taken as text: no JSON (")
    assert captured.err.count("\n") == 1


def test_an_image_is_its_bytes(notes: Notes) -> None:
    for name, data in (("d/a.png", png()), ("d/b.JPG", jpeg()), ("d/c.gif", b"GIF89a\x05\0\x04\0\xff\0\0;")):
        put(name, data)
    assert load("d/a.png") == png()
    assert load("d", note=notes) == {"d/a.png": png(), "d/b.JPG": jpeg(), "d/c.gif": b"GIF89a\x05\0\x04\0\xff\0\0;"}
    assert not notes
    put("d/d.txt", "text")
    assert load("d", note=notes) == {"d/d.txt": "text"}
    assert notes == [
        "d: left out d/a.png, d/b.JPG, d/c.gif: images beside other files (name them, or a pattern, to read them)."
    ]
    assert load("d/*.png") == {"d/a.png": png()}
    put("empty.png", "")
    with pytest.raises(ConfigurationError, match=r"^empty\.png: the file is empty\.$"):
        load("empty.png")
    put("none.png", "a text")
    with pytest.raises(ConfigurationError, match=r"^none\.png: no image, whatever its name says\.$"):
        load("none.png")


def scanned(pages: int = 2) -> bytes:
    stream = io.BytesIO()
    first, *more = (PIL.Image.new("RGB", (600, 800), (0, 0, 40 * n)) for n in range(pages))
    first.save(stream, "PDF", save_all=True, append_images=more)
    return stream.getvalue()


def test_the_pages_of_a_scanned_pdf_are_images(notes: Notes) -> None:
    pages = load(put("scan.pdf", scanned(3)), note=notes)
    assert isinstance(pages, PdfPages)
    assert notes == ["scan.pdf: a PDF without text, perhaps scanned: its pages are images, for a model that sees."]
    again = pickle.loads(pickle.dumps(pages))
    assert (len(again), again.size, again[2].size) == (3, (1_176, 1_568), (1_176, 1_568))
    assert again[2].getpixel((9, 9))[2] > again[1].getpixel((9, 9))[2] > again[0].getpixel((9, 9))[2]
    assert len(again[1:]) == 2
    with pytest.raises(IndexError, match=r"There is no page \[3\]: this PDF has 3 pages, they are \[0\] to \[2\]\."):
        again[3]
    with pytest.raises(IndexError, match=r"There is no page \[-2\]: this PDF has 1 page, the only one is \[0\]\."):
        PdfPages(scanned(1))[-2]
    assert len(list(pages)) == 3


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", scanned()[:400], b"text"])
def test_what_is_no_pdf_has_no_pages(data: bytes) -> None:
    for source, name in ((data, "PdfPages"), (put("broken.pdf", data), "broken.pdf")):
        with pytest.raises(ConfigurationError, match=rf"^{name}: (no PDF that can be read|a PDF that has no pages)"):
            PdfPages(source)


def test_what_pages_can_not_be_had_of_is_said_in_a_line_that_names_it() -> None:
    locked = PdfWriter()
    locked.add_blank_page(100, 100)
    locked.encrypt("secret")
    locked.write("locked.pdf")
    Path("folder").mkdir()
    for source, said in (
        ("nope.pdf", "nope.pdf: there is no such file."),
        (Path("folder"), "folder can't be read: Is a directory."),
        ("a\0b", "can't be read: "),
        ("locked.pdf", "locked.pdf: a PDF under a password; save a copy without."),
        (5, "PdfPages takes the path of a PDF, or its bytes, not 5."),
    ):
        with pytest.raises(ConfigurationError) as caught:
            PdfPages(source)  # type: ignore[arg-type]
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_of_a_broken_pdf_nothing_is_printed_beside_that_line() -> None:
    put("broken.pdf", png())
    source = """if True:
        from rlm_jupyter import PdfPages, load
        for read in (PdfPages, load):
            try:
                read("broken.pdf")
            except ValueError as error:
                print(error)
    """
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["broken.pdf"] * 2


ONLY_IMAGES = """
import importlib.metadata, re, sys, tomllib
from pathlib import Path
extras = tomllib.loads(Path(sys.argv[1], "pyproject.toml").read_text())["project"]["optional-dependencies"]
def named(extra):
    return {re.match(r"[\\w.-]+", one)[0].lower() for one in extras[extra]}
absent = (named("files") | named("mcp")) - named("images")
for module, brought in importlib.metadata.packages_distributions().items():
    if {one.lower() for one in brought} & absent:
        sys.modules[module] = None
assert "pypdfium2" in named("images") and "pathspec" in absent and sys.modules["docx"] is None
from rlm_jupyter import PdfPages, load
print(PdfPages("scan.pdf")[1].size, type(load("scan.pdf")).__name__, load("photos/")["photos/a.png"][1:4])
"""


def test_the_extra_images_brings_all_that_images_and_pages_of_a_pdf_take() -> None:
    """As the page of images has it; where nothing of the extra for files is installed."""
    put("scan.pdf", scanned(2))
    put("photos/a.png", png())
    root = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", ONLY_IMAGES, str(root)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["(1176, 1568) PdfPages b'PNG'"]


@pytest.mark.parametrize("points", [(595.3, 396.7), (612.0, 407.9), (333.3, 841.9), (0.7, 3.0)])
def test_a_page_is_as_large_as_it_is_said_to_be(points: tuple[float, float]) -> None:
    document, stream = PdfWriter(), io.BytesIO()
    document.add_blank_page(*points)
    document.write(stream)
    pages = PdfPages(stream.getvalue())
    assert pages[0].size == pages.size
    assert max(pages.size) == 1_568


@pytest.mark.parametrize("given", ["dossier", "dossier/", "./dossier/"])
def test_a_folder_is_called_the_same_in_all_that_is_said_of_it(given: str) -> None:
    put("dossier/a.txt", "text")
    put("dossier/.hidden", "text")
    put("dossier/b.bin", b"\x00\xff\x01" * 90)
    notes: list[str] = []
    load(given, note=notes.append)
    assert len(notes) == 2
    assert {note.partition(":")[0] for note in notes} == {"dossier"}


def test_nothing_outside_of_the_folders_that_were_named_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    (inside / "link.txt").symlink_to(outside / "a.txt")
    (tmp_path / "way").symlink_to(inside)
    for path in ("in", "in/*.txt", "way", str(inside), "in/**/*.txt"):
        notes: list[str] = []
        found: Any = load(path, note=notes.append, within=[inside])
        assert [*found.values()] == ["in"]
        assert any("outside of the folders that may be read" in note for note in notes)
    assert load("way/a.txt", within=[inside]) == "in"
    for path in ("out", "out/a.txt", "in/link.txt", "in/../out/a.txt", "*/a.txt", "in/*/../../out/*", "none", "-", "~"):
        with pytest.raises(ConfigurationError, match="outside of the folders that may be read"):
            load(path, within=[inside])
    with pytest.raises(ConfigurationError, match=r"\(none\)"):
        load("in", within=[])
    for one in ("in", Path("in")):  # one folder, and not its letters
        assert load("in/a.txt", within=one) == "in"
        with pytest.raises(ConfigurationError, match=re.escape(f"outside of the folders that may be read ({inside})")):
            load(outside / "a.txt", within=one)
    for no_folder in ("", [""], 5, [5], b"in", {"in": 1}):
        with pytest.raises(ConfigurationError, match="within takes a folder, or a list of folders, not"):
            load("in/a.txt", within=no_folder)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load("in/none", within=[inside])
