"""Tables and lines of one shape as real files have them: what is said of them holds, and the code runs over all."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_jupyter.prompts.structure import SAMPLED, structure, without_code

Rows = list[Any]


def _read(text: str, whole: str | None = None) -> tuple[str, Rows]:
    """Return what is said of a text, and the rows that the code makes of it, or of another that begins so."""
    said, *more = structure(text)
    assert more in ([], [SAMPLED])
    _, code = without_code([said])
    assert code is not None
    names: dict[str, Any] = {"context": text if whole is None else whole}
    exec(code, names)
    return said.partition(" `")[0], names["rows"]


# --- rows that no sample shows -------------------------------------------------------------------------------------

_TABLE = ["id,v", *(f"{i},{i * 7}" for i in range(1, 20_001))]
_PAIRS = [f"level=INFO n={i}" for i in range(20_000)]
_QUOTED = [f'msg="sent it" n={i}' for i in range(20_000)]
_LABELLED = [f"City: Rome, Count: {i}" for i in range(20_000)]
_MARKED = [f"User: u1 || Count: {i}" for i in range(20_000)]


def _with(lines: list[str], odd: str) -> str:
    """Return a text in which one line is another, at a place that isn't looked at."""
    text = "\n".join([*lines[:6_000], odd, *lines[6_001:]]) + "\n"
    assert structure(text) == structure("\n".join(lines) + "\n")
    return text


@pytest.mark.parametrize(
    ("odd", "row"),
    [
        ("6000,", {"id": 6000, "v": ""}),
        ("6000,NA", {"id": 6000, "v": "NA"}),
        ("6000,3.5", {"id": 6000, "v": "3.5"}),
        ("6000", {"id": 6000, "v": None}),
        ("# resumed", {"id": "# resumed", "v": None}),
        ("id,v", {"id": "id", "v": "v"}),
        ("6000,01234", {"id": 6000, "v": 1234}),
        ("6000,-3", {"id": 6000, "v": -3}),
        ("6000,3,4", {"id": 6000, "v": 3, None: ["4"]}),
    ],
)
def test_a_tables_odd_row_stays_as_it_is(odd: str, row: object) -> None:
    _, rows = _read(_with(_TABLE, odd))
    assert len(rows) == 20_000
    assert rows[5_999] == row
    assert rows[-1] == {"id": 20_000, "v": 140_000}


def test_floats_are_made_of_floats_alone() -> None:
    lines = ["id,w", *(f"{i},{i}.25" for i in range(20_000))]
    for odd in ("", "n/a", "7.5.1", "2,5"):
        _, rows = _read(_with(lines, f'7,"{odd}"'))
        assert (rows[5_999], rows[-1]) == ({"id": 7, "w": odd}, {"id": 19_999, "w": 19_999.25})


@pytest.mark.parametrize(
    ("lines", "odd", "row"),
    [
        (_PAIRS, "level=INFO n=-", {"level": "INFO", "n": "-"}),
        (_PAIRS, "level=INFO", {"level": "INFO"}),
        (_PAIRS, "level=INFO n=007", {"level": "INFO", "n": 7}),
        (_PAIRS, "level=INFO lost n=3", {"level": "INFO", "n": 3}),
        (_PAIRS, "# resumed", None),
        (_PAIRS, " ", None),
        (_QUOTED, 'msg="cut off', {"msg": '"cut'}),
        (_QUOTED, "msg=O'Brien n=3", {"msg": "O'Brien", "n": 3}),
        (_LABELLED, "City: Rome, Italy, Count: 3", {"City": "Rome, Italy", "Count": 3}),
        (_LABELLED, "City: Rome", {"City": "Rome"}),
        (_LABELLED, "# resumed", None),
        (_MARKED, "User: u1 || Count: -", {"User": "u1", "Count": "-"}),
        (_MARKED, "User: u1 || lost", {"User": "u1"}),
        (_MARKED, "# resumed", None),
    ],
)
def test_an_odd_line_stays_as_it_is_or_is_no_row(lines: list[str], odd: str, row: object) -> None:
    _, rows = _read(_with(lines, odd))
    assert len(rows) == 20_000 - (row is None)
    if row is not None:
        assert rows[6_000] == row
    assert 19_999 in rows[-1].values()


# --- small texts ---------------------------------------------------------------------------------------------------

_NUMBERS = [{"id": 1, "v": 2}, {"id": 2, "v": 3}]
_LEVELS = [{"level": "INFO", "ms": 3}, {"level": "WARN", "ms": 4}, {"level": "INFO", "ms": 9}]
READ = {
    "a blank line first": ("\nid,v\n1,2\n2,3\n", "columns id (int), v (int)", _NUMBERS),
    "a line of blanks first": ("  \nid,v\n1,2\n2,3\n", "columns id (int), v (int)", _NUMBERS),
    "a line of blanks": ("id,v\n1,2\n   \n2,3\n  \n", "columns id (int), v (int)", _NUMBERS),
    "texts below a blank line": (
        "\nname,city\nAda,Rome\nHugo,Oslo\n",
        "columns name (text), city (text)",
        [{"name": "Ada", "city": "Rome"}, {"name": "Hugo", "city": "Oslo"}],
    ),
    "blanks around names": ("id ,v \n1,2\n2,3\n", "columns id (int), v (int)", _NUMBERS),
    "a byte order mark before a quotation mark": ('\ufeff"id",v\n1,2\n2,3\n', "columns id (int), v (int)", _NUMBERS),
    "a byte order mark in a line of its own": ("\ufeff\nid,v\n1,2\n2,3\n", "columns id (int)", None),
    "cells of some lines": (
        'id,said\n1,"a\n\nb"\n2,c\n',
        "columns id (int), said (text)",
        [{"id": 1, "said": "a\n\nb"}, {"id": 2, "said": "c"}],
    ),
    "blank lines among pairs": ("level=INFO ms=3\nlevel=WARN ms=4\n\nlevel=INFO ms=9\n\n", "level, ms", _LEVELS),
    "Windows' pairs": ("level=INFO ms=3\r\nlevel=WARN ms=4\r\nlevel=INFO ms=9\r\n", "level, ms", _LEVELS),
    "an apostrophe": ('user=O\'Brien msg="a b"\n' * 3, "user, msg", [{"user": "O'Brien", "msg": "a b"}] * 3),
    "backslashes": ('path=C:\\temp\\x msg="a b"\n' * 3, "path, msg", [{"path": "C:\\temp\\x", "msg": "a b"}] * 3),
    "commas between pairs": ("a=x, n=2\n" * 3, "a, n, separated by ', '", [{"a": "x", "n": 2}] * 3),
    "addresses and numbers": ("10.0.0.1,5\n10.0.0.2,7\n10.0.0.3,9\n", "commas, with no header; its columns are 0 (text)", None),
    "a mark of inches": ('size=5" msg="" n=3\n' * 3, "size, msg, n", [{"size": '5"', "msg": "", "n": 3}] * 3),
    "a separator of lines within": (
        "User: u1 || Said: a\u2028b\n" * 3,
        "User, Said",
        [{"User": "u1", "Said": "a\u2028b"}] * 3,
    ),
    "Windows' labels": ("User: u1 || Said: \r\n" * 3, "User, Said", [{"User": "u1", "Said": ""}] * 3),
    "a log with a separator of lines within": (
        "2031-03-01 10:00:00 INFO a\u2028b\r\n" * 3,
        "begin with a time",
        [["2031-03-01", "10:00:00", "INFO", "a\u2028b"]] * 3,
    ),
    "thousands": (
        'city,people\nRome,"2,748"\nOslo,"717,000"\nBern,"134,500"\n',
        "people (text)",
        [{"city": "Rome", "people": "2,748"}, {"city": "Oslo", "people": "717,000"}, {"city": "Bern", "people": "134,500"}],
    ),
    "thousands among smaller ones": ('city,n\nRome,"2,748"\nOslo,12\n', "n (text)", None),
    "thousands with dots": ("Ort;n\nRom;2.748\nOslo;717.000\nUlm;12\n", "n (text)", None),
    "decimal commas": ("Ort;n\nRom;2,748\nOslo;717,25\nUlm;12\n", "n (number with a decimal comma)", None),
    "phones": ("name,phone\nAda,+4912345678\nIda,+4912345679\n", "phone (text)", None),
    "long numbers": ("n,card\n1,12345678901234567890\n2,12345678901234567891\n", "card (text)", None),
    "a rule below the names": ("a|b\n-|-\n1|2\n3|x\n", "columns a (int), b (text)", [{"a": 1, "b": "2"}, {"a": 3, "b": "x"}]),
    "a rule with colons": ("a|b\n:--|--:\nx|2", "columns a (text), b (int)", [{"a": "x", "b": 2}]),
    "tabs and decimal commas": ("Köln\t1,5\nUlm\t2,5\nBonn\t3,5\n", "tabs, with no header; its columns are 0 (text)", None),
    "semicolons and decimal commas": ("1;2,5\n2;3,5\n3;4,5\n", "semicolons, with no header", [["1", "2,5"], ["2", "3,5"], ["3", "4,5"]]),
    "dates and numbers": ("2031-01-02,5\n2031-01-03,7\n2031-01-04,9\n", "commas, with no header; its columns are 0 (date)", None),
    "signs": ("id,d\n1,+7\n2,-3\n", "columns id (int), d (int)", [{"id": 1, "d": 7}, {"id": 2, "d": -3}]),
    "empty cells": ("id,d\n1,\n2,-3.5\n", "columns id (int), d (float, or empty)", [{"id": 1, "d": ""}, {"id": 2, "d": -3.5}]),
    "decimals": ("1,2.5\n2,3.5\n3,4.5\n", "commas, with no header; its columns are 0 (int), 1 (float)", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said", "rows"), READ.values(), ids=READ)
def test_what_is_said_of_a_small_text_and_read_from_it(text: str, said: str, rows: Rows | None) -> None:
    found, read = _read(text)
    assert said in found
    if rows is not None:
        assert read == rows


# --- headers -------------------------------------------------------------------------------------------------------

_LONG = "how satisfied are you, all in all, with what was done for you, " * 2
NAMED = {
    "an index of pandas": (",name,value\n0,a,3\n1,b,4\n", ["", "name", "value"]),
    "an index of pandas beside texts": (",name,city\n0,Ada,Rome\n1,Ida,Bern\n", ["", "name", "city"]),
    "columns that pandas numbers": (",0,1\n0,3.5,4\n1,4.5,5\n", ["", "0", "1"]),
    "years": ("country,1990,1991\nItaly,3,5\nNorway,4,7\n", ["country", "1990", "1991"]),
    "days": ("state,lat,1/22/20,1/23/20\nx,2.5,0,1\ny,3.5,2,4\n", ["state", "lat", "1/22/20", "1/23/20"]),
    "currency": ("city,Amount ($)\nRome,3\nOslo,4\n", ["city", "Amount ($)"]),
    "degrees": ("city,temp °C\nRome,3\nOslo,4\n", ["city", "temp °C"]),
    "a hash": ("#id,v\n1,3\n2,4\n", ["#id", "v"]),
    "a hash alone": ("#,v\n1,3\n2,4\n", ["#", "v"]),
    "an ampersand": ("R&D,v\n1,3\n2,4\n", ["R&D", "v"]),
    "an apostrophe": ("Customer's age,v\n1,3\n2,4\n", ["Customer's age", "v"]),
    "units in brackets": ("t [s],v\n1,3\n2,4\n", ["t [s]", "v"]),
    "a question": (f'id,"{_LONG}"\n1,3\n2,4\n', ["id", _LONG.strip()]),
    "lines in a name": ('id,"the\nvalue"\n1,3\n2,4\n', ["id", "the value"]),
    "names given twice": ("a,a,b\n1,2,3\n4,5,6\n", ["a", "a_2", "b"]),
    "names given thrice": ("a,a,a,a_2\n1,2,3,4\n4,5,6,7\n", ["a", "a_3", "a_4", "a_2"]),
    "Hindi": ("नाम,उम्र\nअ,3\nब,4\n", ["नाम", "उम्र"]),
    "a last separator": ("id,v,\n1,3,\n2,4,\n", ["id", "v", ""]),
    "lower case above texts": ("name,city\nAda,Rome\nHugo,Oslo\n", ["name", "city"]),
    "upper case above texts": ("KUNDE,GEGEND\nAda,Rom\nHugo,Ulm\n", ["KUNDE", "GEGEND"]),
    "texts with digits": ("Ware,Preis\nLampe,5 EUR\nZelt,70 EUR\n", ["Ware", "Preis"]),
    "common names above texts": ("First name,City\nada,rome\nhugo,oslo\n", ["First name", "City"]),
}


@pytest.mark.parametrize(("text", "names"), NAMED.values(), ids=NAMED)
def test_a_header_is_known(text: str, names: list[str]) -> None:
    said, rows = _read(text)
    assert [list(row) for row in rows] == [names] * 2
    assert "no header" not in said
    assert "with the columns " + ("''" if not names[0] else names[0]) in said
    if "text" not in said:
        assert all(isinstance(value, int | float) for row in rows for value in row.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,Rome,\n2,Oslo,3.5\n3,Bern,4\n", "no header; its columns are 0 (int), 1 (text), 2 (float, or empty)"),
        ("Ada,1815,1852\nHugo,1802,1885\nIda,1820,1899\n", "no header; its columns are 0 (text), 1 (int)"),
        ("Rome,2031-01-02\nOslo,2031-01-03\nRome,2031-01-04\n", "no header; its columns are 0 (text), 1 (date)"),
        ("Ada,Rome\nHugo,Oslo\nIda,Bern\n", "with columns that the first row may name: 0 (text), 1 (text)"),
        ("Rome,NA\nOslo,3\nBern,4\n", "with columns that the first row may name: 0 (text), 1 (text)"),
        ("Rome,few\nOslo,3\nRome,4\n", "with columns that the first row may name: 0 (text), 1 (text)"),
    ],
)
def test_where_no_header_is_plain_all_rows_are_read(text: str, said: str) -> None:
    found, rows = _read(text)
    assert said in found
    assert [",".join(row) for row in rows] == text.split()


def test_a_name_above_texts_that_all_stand_there_twice_is_one() -> None:
    said, rows = _read("Ware,Lager\n" + "Lampe,Rom\nZelt,Ulm\nZelt,Rom\nLampe,Bonn\n" * 3)
    assert "with the columns Ware (text), Lager (text)" in said
    assert rows[0] == {"Ware": "Lampe", "Lager": "Rom"}


def test_a_header_longer_than_a_sample_is_not_denied() -> None:
    names = ",".join(f"measurement_{i:04}" for i in range(1_300))
    text = names + ("\n" + ",".join("3" * 1_300)) * 40
    assert len(names) > 20_000
    said, rows = _read(text)
    assert "header" not in said
    assert rows[0] == names.split(",")


# --- a row that is unlike the others -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        ("Total,,21", "['Total', '', '21']"),
        (",,21", "['', '', '21']"),
        ('"Source: the bank, 2031",,', "['Source: the bank, 2031', '', '']"),
        ("7,Bonn,many", "['7', 'Bonn', 'many']"),
    ],
)
def test_a_last_row_that_is_unlike_the_others_is_shown(last: str, shown: str) -> None:
    said, rows = _read("id,city,n\n" + "".join(f"{i},Rome,{i}\n" for i in range(6)) + last + "\n")
    assert said == (
        "It is a table separated by commas, with the columns id (int), city (text), n (int). "
        f"The last row is unlike the others: {shown}."
    )
    assert rows[5] == {"id": 5, "city": "Rome", "n": 5}
    assert len(rows) == 7


def test_units_below_the_names_are_shown() -> None:
    said, rows = _read("at,temp\ns,°C\n" + "".join(f"{i},{i}.5\n" for i in range(6)))
    assert "at (int), temp (float). The first row below the names is unlike the others: ['s', '°C']." in said
    assert rows[1] == {"at": 0, "temp": 0.5}


@pytest.mark.parametrize("last", ["7,Bonn,", "7,,7", "7,Bonn,-"])
def test_a_last_row_as_there_are_others_is_not_shown(last: str) -> None:
    said, _ = _read("id,city,n\n" + "".join(f"{i},Rome,{i}\n" for i in range(6)) + f"6,,\n8,,-\n{last}\n")
    assert "unlike" not in said


def test_a_last_number_that_is_missing_is_nothing_unlike() -> None:
    said, _ = _read("id,n\n" + "".join(f"{i},{i}\n" for i in range(6)) + "7,n/a\n")
    assert said.endswith("id (int), n (text).")


def test_values_with_blanks_around_them_stay_as_they_are() -> None:
    _, rows = _read("id,n\n1,2 \n2,3\n3,4\n")
    assert rows[:2] == [{"id": 1, "n": "2 "}, {"id": 2, "n": "3"}]


def test_a_row_without_a_name_above_it_is_shown_as_the_last_alone() -> None:
    said, rows = _read("1,Rome\n2,Oslo\n3,Bern\n4,Ulm\n5,Bonn\nall,\n")
    assert said.endswith(
        "no header; its columns are 0 (int), 1 (text). The last row is unlike the others: ['all', '']."
    )
    assert len(rows) == 6


# --- what is no table, and no log ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "3,5\n4,2\n1,7\n",
        "1,234\n5,678\n9,012\n",
        "1,234,567\n5,678,123\n9,012,345\n",
        "Rome    1,234\nOslo    2,345\nBern    3,456\n",
        "Rome 1,234,500\nOslo 2,345,100\nBern 3,456,900\n",
        "(1,2)\n(3,4)\n(5,6)\n",
        "put(a,b,3);\nput(c,d,4);\nput(e,f,5);\n",
        "x=1;\ny=2;\nz=3;\n",
        "1000000001 Ada Lindt, Rome\n1000000002 Hugo Holm, Oslo\n1000000003 Ida Roth, Bern\n",
        "1900000001 Ada Lindt\n1300000002 Hugo Holm\n1700000003 Ida Roth\n",
        "123456 654321\n222222 333333\n133456 654321\n",
        "100101 101010 a\n100102 111111 b\n100101 091010 c\n",
        "10:05 Rome 3\n10:15 Oslo 4\n11:00 Bern 5\n",
        "10:05:00 Rome 3\n10:15:00 Oslo 4\n11:00:00 Bern 5\n",
        "00:03:15 Ada\n00:02:59 Hugo\n00:04:01 Ida\n00:03:58 Max\n",
    ],
)
def test_what_is_no_table_and_no_log_is_called_neither(text: str) -> None:
    assert structure(text) == ()


def test_calls_are_no_table() -> None:
    assert structure("INSERT INTO t VALUES(1,5,'x');\n" * 9) == (
        "It is source code in SQL. `lines = context.splitlines()`",
    )


@pytest.mark.parametrize(
    "text",
    [
        "10:00:01 sent it\n10:00:09 lost it\n10:01:12 sent it\n",
        "310301 100000 sent it\n310301 100001 lost it\n310302 090000 sent it\n",
        "1924190272 sent it\n1924190272 lost it\n1924190275 sent it\n",
        "1924190272.125 sent it\n1924190272.300 lost it\n1924190275.125 sent it\n",
        "10:00:00 INFO sent it\n09:00:00 WARN lost it\n08:00:00 INFO sent it\n",
    ],
)
def test_times_in_order_or_beside_levels_are_a_logs(text: str) -> None:
    (said,) = structure(text)
    assert said.startswith("It is a log")
