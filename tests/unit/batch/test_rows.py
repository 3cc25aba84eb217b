"""The rows of a batch: files and frames as people have them, and what can't be read, said in one line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from rlm_jupyter.batch.items import RowQuestion
from rlm_jupyter.batch.rows import BadRow, read_rows
from rlm_jupyter.types.errors import ConfigurationError


def csv_file(folder: Path, text: str, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(items: object) -> str:
    with pytest.raises(ConfigurationError) as error:
        RowQuestion("{text}", None, "id").items(read_rows(items))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_index_that_pandas_writes_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "text": ["one", None]})
    frame.to_csv(tmp_path / "items.csv")
    assert read_rows(tmp_path / "items.csv") == [{"id": "a", "text": "one"}, {"id": "b", "text": None}]
    pd.read_csv(tmp_path / "items.csv").to_csv(tmp_path / "again.csv")
    assert read_rows(tmp_path / "again.csv")[0] == {"Unnamed: 0": "0", "id": "a", "text": "one"}


def test_columns_without_a_name_may_be_many_and_rows_short_or_long(tmp_path: Path) -> None:
    rows = read_rows(csv_file(tmp_path, "\nid,text,,\na,one,,\n\nb\nc,1,2,3,4\n"))
    assert rows[:2] == [{"id": "a", "text": "one"}, {"id": "b", "text": None}]
    assert isinstance(rows[2], BadRow)
    assert rows[2].why == "line 6 of items.csv has more values than there are columns"


def test_where_no_row_can_be_read_the_first_one_says_why(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "id\ta,text\na,one,more\nb,two,more\n")
    assert refused(path) == "No item can be read: line 2 of items.csv has more values than there are columns."
    path = csv_file(tmp_path, "no JSON\n[1]\n", "items.jsonl")
    assert refused(path).startswith("No item can be read: line 1 of items.jsonl is no JSON (Expecting value")
    assert refused(csv_file(tmp_path, ",\n1,one\n")) == "No row has a column 'text'; there is no column with a name."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('id,text\na,one\nb,"two\nc,three\nd,four\n', "a quote in the row of line 3 is not closed."),
        ('id,text\na,"one\nmore"\nb,"two\nc,three\n', "a quote in the row of line 4 is not closed."),
        ('id,"text\na,one\n', "a quote in the row of line 1 is not closed."),
        ('id,text\na,one\n"', "a quote in the row of line 3 is not closed."),
        (
            'id,text\na,one\nb,"two\nc,"three"\nd,four\n',
            "in the row of line 3 a quoted value goes on after its closing quote: a quote is not closed, or one inside "
            "a value is not doubled.",
        ),
    ],
)
def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path: Path, text: str, said: str) -> None:
    path = csv_file(tmp_path, text)
    assert refused(path) == f"{path} can't be read: {said}"


def test_quotes_that_are_closed_or_stand_inside_a_value_are_read(tmp_path: Path) -> None:
    path = csv_file(tmp_path, 'id\ttext\n"a"\t"one ""and"" more,\nin two lines"\nb\t5" wide', "items.tsv")
    assert [row["text"] for row in read_rows(path)] == ['one "and" more,\nin two lines', '5" wide']


ROWS = [{"id": "a", "text": "schön, günstig"}, {"id": "b", "text": "größer"}]
COMMAS, SEMICOLONS = 'id,text\na,"schön, günstig"\nb,größer\n', "id;text\na;schön, günstig\nb;größer\n"
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        ("items.csv", SEMICOLONS.encode(), ""),
        ("items.csv", f"\ufeffsep=;\r\n{SEMICOLONS}".encode(), "left out above the table's header: sep=;."),
        ("items.csv", f"Reviews\n{SEMICOLONS}".encode(), "left out above the table's header: Reviews."),
        ("items.csv", SEMICOLONS.encode("cp1252"), "not UTF-8: read as CP1252, which is a guess."),
        ("items.csv", COMMAS.encode("utf-16"), ""),
        ("items.csv", COMMAS.encode("utf-16-le"), "not UTF-8: read as UTF-16-LE, which is a guess."),
        ("items.csv.gz", gzip.compress(COMMAS.encode(), mtime=0), ""),
        ("items.tsv.xz", lzma.compress(SEMICOLONS.replace(";", "\t").encode()), ""),
        ("items.jsonl", LINES.encode("cp1252"), "not UTF-8: read as CP1252, which is a guess."),
        ("items.jsonl.bz2", bz2.compress(LINES.encode()), ""),
    ],
)
def test_separators_encodings_and_compressions_are_found(
    name: str, content: bytes, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read_rows(path) == ROWS
    assert capsys.readouterr().err == (f"{path}: {note}\n" if note else "")


def test_plain_letters_in_utf16_without_a_mark_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_bytes("id,text\na,one\n".encode("utf-16-le"))
    assert read_rows(tmp_path / "items.csv") == [{"id": "a", "text": "one"}]


def test_lines_are_counted_from_the_first_one_also_below_a_title(tmp_path: Path) -> None:
    rows = read_rows(csv_file(tmp_path, "sep=;\nid;text\na;one\nb;two;more\n"))
    assert getattr(rows[1], "why", "") == "line 4 of items.csv has more values than there are columns"
    path = csv_file(tmp_path, 'sep=;\nid;text\na;one\nb;"two\n')
    assert refused(path) == f"{path} can't be read: a quote in the row of line 4 is not closed."
    path = csv_file(tmp_path, 'sep=;\nid;"text\na;one\n')
    assert refused(path) == f"{path} can't be read: a quote in the row of line 2 is not closed."


def test_a_sheet_holds_items_and_several_do_not(tmp_path: Path) -> None:
    path = tmp_path / "items.xlsx"
    day = pd.Timestamp("2024-01-02")
    frame = pd.DataFrame({"id": ["007", "NA"], "n": [17, None], "day": [day, None]})
    frame.to_excel(path, index=False)
    rows = read_rows(path)
    assert rows == [{"id": "007", "n": 17, "day": day}, {"id": "NA", "n": None, "day": None}]
    assert str(rows[0]["n"]) == "17"
    with pd.ExcelWriter(path) as writer:
        frame.to_excel(writer, sheet_name="May")
        frame.to_excel(writer, sheet_name="June")
    assert refused(path) == (
        f"{path} has several filled sheets (May, June): save the one that holds the items as a file, or give a frame, "
        f"as load('{path}')['May']."
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("items.csv", b"\x89PNG\r\n\x1a\n\0\0", "{} can't be read: binary, not text: "),
        ("items.csv.gz", b"id,text\n", "{} can't be read: Not a gzipped file"),
        ("items.csv.gz", gzip.compress(b"id,text\n" * 99, mtime=0)[:-12], "{} can't be read: it is damaged ("),
        ("items.xlsx", b"id,text\n", "{} can't be read: no Excel workbook that can be read: "),
        ("items.ods", b"", "{} is no file of items: its name ends in .jsonl, "),
        ("items.parquet.gz", b"", "{} is no file of items: its name ends in .jsonl, "),
    ],
)
def test_a_file_that_holds_no_items_is_refused(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path).startswith(said.format(path))


@pytest.mark.parametrize("nothing", ["", "  ", None, float("nan"), pd.NaT])
def test_an_empty_cell_is_called_the_same_wherever_it_stands(nothing: object, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "text": pd.Series(["one", nothing], dtype=object)})
    given: list[object] = [frame, tmp_path / "items.xlsx", tmp_path / "items.csv"]
    frame.to_excel(tmp_path / "items.xlsx", index=False)
    frame.to_csv(tmp_path / "items.csv", index=False)
    if nothing is not pd.NaT:
        frame.to_parquet(tmp_path / "items.parquet")
        frame.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
        given += [tmp_path / "items.parquet", tmp_path / "items.jsonl", frame.to_dict("records")]
    for question in (
        RowQuestion("Is it?", "text", "id"),
        RowQuestion("{text}", None, "id"),
        RowQuestion("Is {text} of {id} good?", None, "id"),
        RowQuestion("A", "{text}", "id"),
        RowQuestion("A", "a review: {text}", "id"),
    ):
        for items in given:
            assert [item.error for item in question.items(read_rows(items))] == [
                "",
                "nothing stands in its column 'text'",
            ]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "id,text,text\na,one,two\n")
    assert refused(path) == f"{path} has 2 columns 'text': give each a name of its own."
    frame = pd.DataFrame([["a", "one", "two"]], columns=["id", "text", "text"])
    assert refused(frame) == "The frame has 2 columns 'text': give each a name of its own."


def test_what_is_no_frame_is_refused() -> None:
    said = "The items of a batch are dicts, texts, a frame or the path of a file, not a {}: {}."
    frame = "to_frame() makes a frame of it"
    assert refused(pd.Series(["one"])) == said.format("pandas Series", frame)
    assert refused(pl.Series(["one"])) == said.format("polars Series", frame)
    assert refused(pd.DataFrame({"a": [1]}).groupby("a")) == said.format("pandas DataFrameGroupBy", "it is no frame")


class Table(pd.DataFrame):
    """A frame of somebody's own kind."""


def test_a_lazy_frame_is_collected_and_a_kind_of_frame_is_one(tmp_path: Path) -> None:
    rows = [{"id": "a", "text": "one"}]
    assert read_rows(pl.DataFrame(rows).lazy()) == read_rows(Table(rows)) == rows
    lazy = pl.DataFrame(rows).lazy().select("none")
    assert refused(lazy).startswith("The items, a polars LazyFrame, can't be collected: ")
    assert "can't be collected: " in refused(pl.scan_csv(tmp_path / "none.csv"))
