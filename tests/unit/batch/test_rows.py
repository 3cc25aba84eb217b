"""The rows of a batch: files and frames as people have them, and what can't be read, said in one line."""

from __future__ import annotations

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
    assert refused(csv_file(tmp_path, ",\n1,one\n")) == "No row has a column 'text': there is no column with a name."


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
