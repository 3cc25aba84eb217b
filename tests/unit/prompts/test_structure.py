"""What a text is said to be: right on what real files look like, silent where it isn't plain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import parsing
from rlm_jupyter.prompts import initial
from rlm_jupyter.prompts.structure import PROSE, SAMPLED, structure, without_code
from rlm_jupyter.run.context import pack

ROOT = Path(__file__).parents[3]
CLF = '1.2.3.4 - - [10/Oct/2031:13:55:36 -0700] "GET /x HTTP/1.0" 200 23\n'
JAVA = (
    "package a.b;\nimport java.util.List;\npublic class A {\n    private int x = 3;\n    public int x() {\n    }\n}\n"
)
C = "#include <stdio.h>\n#define X 1\nint main(void) {\n  return 0;\n}\nstatic int foo(int a) {\n}\nvoid bar(void) {\n}\n"
GO = "package main\nfunc main() {\n  x := 3\n}\ntype A struct {\n}\nfunc (a A) f() {\n  y := 4\n}\n"
RUST = "use std::fs;\npub fn main() {\n    let x = 3;\n    let mut y = 4;\n}\nimpl A for B {\n}\nfn f() {\n}\n"

SAID = {
    "quoted commas": (
        'id,name\n1,"Abel, Ada"\n2,"Holm ""H"""\n',
        "separated by commas, with the columns id (int), name (text).",
    ),
    "no header": ("1,Rome,3.5\n2,Paris,4.5\n3,Oslo,1.0\n", "no header; its columns are 0 (int), 1 (text), 2 (float)"),
    "German decimals": (
        "Datum;Ort;Betrag\n2031-01-02;Köln;1.234,50\n2031-01-03;Ulm;12\n",
        "separated by semicolons, with the columns Datum (date), Ort (text), Betrag (number with a decimal comma)",
    ),
    "tabs": ("a\tb\n1\tx\n2\ty\n", "separated by tabs, with the columns a (int), b (text)"),
    "bars": ("a|b\n1|x\n2|y\n", "separated by bars"),
    "lines within cells": ('id,text\n1,"a\nb"\n2,"c"\n', "with the columns id (int), text (text)"),
    "empty cells": ("id,v\n1,\n2,3\n,4\n", "with the columns id (int, or empty), v (int, or empty)"),
    "text alone": ("name,city\nAda,Rome\nHugo,Oslo\n", "with the columns name (text), city (text)"),
    "byte order mark": (
        "\ufeffid,v\n1,2\n2,3\n",
        "the columns id (int), v (int). `import csv, io; "
        'rows = list(csv.DictReader(filter(str.strip, io.StringIO(context.lstrip("\\ufeff"',
    ),
    "Windows' lines": ("id,v\r\n1,2\r\n2,3\r\n", "with the columns id (int), v (int)"),
    "many columns": (",".join(f"c{i}" for i in range(40)) + ("\n" + ",".join("1" * 40)) * 3, "c29 (int) and 10 more"),
    "times": ("at,v\n2031-01-02T03:04:05Z,1\n2031-01-02 03:04,2\n", "at (date), v (int)"),
    "JSON": ('{"a": {"b": [1]}, "c": "x"}', "JSON: an object with the keys a.b (list), c (str)"),
    "JSON list": (
        '\n[{"a": 1, "b": "x"}, {"a": 2}]\n',
        "JSON: a list of 2 objects, with the keys a (int); not in all of them: b (str)",
    ),
    "JSON numbers": ("[1, 2, 3]", "JSON: a list of 3 items (int)."),
    "JSON of parts": (
        '{"page": 1, "rows": [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 5, "b": 2}]}',
        "JSON: an object with the keys page (int), rows (list); rows is a list of 5 objects, with the keys a (int); "
        "not in all of them: b (int).",
    ),
    "JSON by names": (
        json.dumps({f"k.{i}": {"a": i, "b": "x"} for i in range(40)}),
        "JSON: an object with 40 keys, whose values are objects with the keys a (int), b (str).",
    ),
    "JSON by names of other objects": (
        json.dumps({f"k{i}": {f"a{i}": i} for i in range(5)}),
        "JSON: an object with the keys k0.a0 (int), k1.a1 (int), k2.a2 (int), k3.a3 (int), k4.a4 (int).",
    ),
    "JSON of several lists": (
        json.dumps({"a": [{"n": 1}] * 5, "b": [{"m": 1}] * 5}),
        "JSON: an object with the keys a (list), b (list).",
    ),
    "JSON of texts": (
        json.dumps({f"k.{i}": "x" for i in range(40)}),
        "JSON: an object with 40 keys, whose values are of type str.",
    ),
    "JSON lines": (
        '{"a": 1, "u": {"n": "x"}}\n{"a": 2}\n{"b": null}\n',
        "JSON lines: each line is an object, with the keys a (int), u.n (str), b (NoneType), none of which is in all of them",
    ),
    "log": ("2031-03-01 10:00:00 INFO ok\n" * 9, "a log: its lines begin with a time."),
    "log in brackets": ("[2031-03-01T10:00:00] x: heartbeat\n" * 9, "a log: its lines begin with a time."),
    "web log": (CLF * 9, "a log"),
    "syslog": ("Mar  3 12:00:01 host sshd[12]: accepted\n" * 9, "a log"),
    "log with marks": (
        "2031-03-01 10:00:00 INFO  [mail] sent to 3\n2031-03-01 10:00:09 ERROR [web] lost\n" * 9,
        "begin with a time. Split into rows, the first is ['2031-03-01', '10:00:00', 'INFO', '[mail]', 'sent to 3']. "
        '`rows = [line.rstrip().split(None, 4) for line in context.split("\\n") if line.strip()]`',
    ),
    "log without marks": (
        "2031-03-01 10:00:00 sent\n2031-03-01 10:00:09 lost it\n" * 9,
        "`lines = context.splitlines()`",
    ),
    "labelled fields": (
        "User: u1 || Said: a, b: c || Count: 3\nUser: u2 || Said: d || Count: 4\n" * 3,
        "Each line has User, Said, Count, separated by ' || '.",
    ),
    "tracebacks": ("2031-03-01 10:00:00 INFO ok\n" * 20 + "Traceback\n  at x\n" * 3, "though not every one"),
    "key=value": ("level=INFO ms=3\nlevel=WARN ms=4\n" * 3, "key=value for the keys level, ms"),
    "Python": ((ROOT / "rlm_jupyter/run/cells.py").read_text(), "source code in Python. It parses as one module"),
    "TypeScript": ((ROOT / "labextension/src/index.ts").read_text(), "JavaScript or TypeScript"),
    "C": (C, "source code in C"),
    "Java": (JAVA, "source code in Java."),
    "Go": (GO, "source code in Go"),
    "Rust": (RUST, "source code in Rust"),
    "SQL": ("INSERT INTO t VALUES (1, 'x');\n" * 9, "source code in SQL"),
    "Markdown": ("# A\n\ntext\n\n## B\n\nmore\n\n## C\n\nend\n", "3 headings, each a line of its own: # A; ## B; ## C"),
    "chapters": ("\n\n".join(f"CHAPTER {i}\n\nSome words." for i in ["I", "II", "III", "IV"]), "4 chapters"),
    "German": ("Der Hund ist nicht in dem Haus und die Katze auch nicht, wurde mit einer Maus gesagt. " * 5, "German"),
    "French": ("Le chat est dans la maison et les enfants sont avec le chien sur une route du village. " * 5, "French"),
    "Spanish": (
        "El perro de los vecinos no es muy grande y se va con su amigo por las tardes en la casa. " * 5,
        "Spanish",
    ),
    "Dutch": (
        "De man in het huis is niet van plan om met zijn hond naar de stad te gaan voor een brood. " * 5,
        "Dutch",
    ),
    "two tables": (
        "## people\nid,name\n1,Ada\n## sales\nid,total\n1,20\n",
        "It has 2 headings, each a line of its own: ## people; ## sales",
    ),
    "Chinese": ("今天天气很好。" * 50, "Chinese"),
    "Japanese": ("これはペンです。" * 50, "Japanese"),
    "Russian": ("Война и мир. " * 50, "Cyrillic"),
    "prose": ("He came, he saw. \nThen, at night, it rained.\nNobody, it seems, knew.\nOh, well.\n" * 30, PROSE),
    "prose without letters' case": ("这是一个句子。那是另一个句子。" * 20, PROSE),
}


@pytest.mark.parametrize(("text", "said"), SAID.values(), ids=SAID)
def test_what_a_text_is_said_to_be(text: str, said: str) -> None:
    assert said in " ".join(structure(text))


_LOGS = {
    "Python": ("2031-03-01 10:00:00,125 - app.mail - INFO - Sent 3\n2031-03-01 10:00:01,300 - app - ERROR - Lost\n", 7),
    "log4j": (
        "2031-03-01 10:00:00,125 INFO [main] a.b.C: sent\n2031-03-01 10:00:01,300 WARN [w-1] a.b.D: lost it\n",
        5,
    ),
    "Spark": ("31/03/01 10:00:00 INFO a.Sender: sent it\n31/03/01 10:00:01 WARN a.Store: lost it\n", 4),
    "HDFS": ("310301 100000 148 INFO a.Node$Part: sent it\n310301 100001 35 WARN a.Store: lost it\n", 5),
    "Android": ("03-01 10:00:00.811  1702  2395 D Window: opened it\n03-01 10:00:01.819  17  86 W Power: lost it\n", 6),
    "Apache": ("[Sun Mar 02 10:00:00 2031] [notice] sent it\n[Sun Mar 02 10:00:01 2031] [error] lost it\n", 6),
    "twelve hours": ("03/01/2031 10:00:00 AM sent it\n03/01/2031 10:00:01 PM lost it\n", 3),
    "epoch": ("1924190272 INFO sent it\n1924190273 WARN lost it\n", 2),
    "level first": ("INFO 2031-03-01 10:00:00 sent it\nWARN 2031-03-01 10:00:01 lost it\n", 3),
    "containers": ("web_1  | 2031-03-01 10:00:00 sent it\ndb_1   | 2031-03-01 10:00:01 lost it\n", 4),
    "day first": ("01.03.2031 10:00:00 gesendet\n01.03.2031 10:00:01 nicht gesendet\n", None),
    "klog": ("I0301 10:00:00.345678    1 main.go:33] sent\nW0301 10:00:01.345678    1 main.go:55] lost\n", None),
    "a web server": (CLF + CLF.replace("GET /x", 'PUT /\\"a b\\"'), 6),
    "a web server's full line": (
        CLF.rstrip() + ' "-" "Mozilla/5.0 (X11; x86_64) Gecko"\n' + CLF.rstrip() + ' "/" "curl"\n',
        8,
    ),
    "a sentence with quotation marks": (
        '2031-03-01 10:00:00 [warn] 7: open() of "/x" did not work, so no "y" and no "z" is there for us\n' * 2,
        4,
    ),
    "logfmt": ("ts=2031-03-01T10:00:00Z level=info ms=3\nts=2031-03-01T10:00:01Z level=warn lost=1\n", None),
}


@pytest.mark.parametrize(("text", "words"), _LOGS.values(), ids=_LOGS)
def test_logs_are_known_by_their_times_and_split_by_their_marks(text: str, words: int | None) -> None:
    (said,) = structure(text * 9)
    assert said.startswith("It is a log")
    names: dict[str, Any] = {"context": text * 9}
    exec(without_code([said])[1] or "", names)
    if words is None:
        assert names["lines"] == (text * 9).splitlines()
    else:
        assert {len(row) for row in names["rows"]} == {words + 1}


def test_pairs_may_be_quoted() -> None:
    said = structure('msg="sent it" ms=3\nmsg=lost ms=4\nmsg="" ms=5\n')
    names: dict[str, Any] = {"context": 'msg="sent it" ms=3\nmsg=lost ms=4\nmsg="" ms=5\n'}
    exec(without_code(said)[1] or "", names)
    assert [row["msg"] for row in names["rows"]] == ["sent it", "lost", ""]
    assert names["rows"][0]["ms"] == 3


def test_values_of_pairs_may_have_blanks_in_them() -> None:
    seen = "name=Ada de la Cruz city=Rome ms=3\r\nname=Hugo city=New York ms=4\r\n" * 3
    said = structure(seen)
    assert said[0].startswith("Each line has key=value for the keys name, city, ms. ")
    names: dict[str, Any] = {"context": seen + "name=a=b or c=d city=Bath ms=none\r\nnothing\r\n"}
    exec(without_code(said)[1] or "", names)
    assert names["rows"][:2] == [
        {"name": "Ada de la Cruz", "city": "Rome", "ms": 3},
        {"name": "Hugo", "city": "New York", "ms": 4},
    ]
    assert names["rows"][6:] == [{"name": "a=b or c=d", "city": "Bath", "ms": "none"}]


def test_pairs_with_quotes_and_blanks_are_not_taken_apart() -> None:
    assert structure('name="Ada city=Rome" note=so long ms=3\n' * 3) == ()


SILENT = {
    "numbers of ten digits": "1924190272\n1924190273\n1824190279\n",
    "a numbered list": "1. Ada bought 3 kettles\n2. Hugo bought 2 lamps\n3. Ida bought a tent\n",
    "edges": "a -> b\nb -> c\nc -> a\n" * 9,
    "two sentences": "He came. He saw",
    "verses": "Shall I compare thee, to a day\nThou art more lovely, and temperate\nRough winds do shake, the buds\n",
    "names": "Abel, Ada\nHolm, Hugo\nRoth, Ida\nPohl, Max\n",
    "enumerated years": "1931, a good year\n1932, a bad year\n1933, a dull year\n",
    "addresses": "Main St 1, 1010 Wien\nRing 2, 1020 Wien\nGraben 3, 1030 Wien\n",
    "a table with a last line": "id,v\n1,2\n2,3\nTotal of all\n",
    "broken JSON": '{"a": 1, "b": ',
    "mixed lines": '{"a":1}\nnot json\n{"a":2}\n',
    "YAML": "a: 1\nb:\n  - x\n  - y\nc: z\n",
    "INI": "[a]\nx=1\ny=2\n[b]\nz=3\n",
    "HTML": "<html><body>\n<p>Hi, there</p>\n<p>Hi, you</p>\n</body></html>\n",
    "pairs of other keys": "msg=hello world ms=3\nmsg=x y s=4\nmsg=q r ms=9\n",
    "one pair with spaces": "msg=hello world\nmsg=x y\nmsg=q r\n",
    "a Markdown table": "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
    "other labels in a line": "User: u1 || Said: a\nUser: u2 || Label: d\nUser: u3 || Said: e\n",
    "a label twice": "a: 1 | a: 2\n" * 5,
    "a dialogue": "Ada: hello, you\nHugo: hi, there\nAda: so, what\n",
    "numbers": "1\n2\n3\n4\n",
    "wrapped prose": "It was a long and a cold day in the far north of that land\n" * 30,
    "a comment that is no heading": "x = 1\n# first\ny = 2\n# second\n",
    "one line": "hello",
    "nothing": "",
    "blanks": "  \n\n ",
    "surrogates": "\ud800\n\udfff\n" * 9,
    "Python's dicts": "{'id': 1, 'name': 'Ada'}\n{'id': 2, 'name': 'Hugo'}\n{'id': 3, 'name': 'Ida'}\n",
    "calls with names": "User(id=1, name='Ada')\nUser(id=2, name='Hugo')\nUser(id=3, name='Ida')\n",
    "a comment above a table": "# exported\nat,v,w\n" + "2031-01-02T03:04:05,1,\n2031-01-02T03:04:09,1,2\n" * 9,
    "names above times": "DATE TIME TEMP\n" + "2031-01-02 03:04 2.5\n2031-01-02 03:14 2.75\n" * 9,
    "JSON that is cut off": "[\n" + ' {\n  "said": "He came in, and sat down there. She did not."\n },\n' * 20,
    "a chat": "".join(f"10:{i:02} <Ada> So he came in. She did not.\n" for i in range(40)),
    "bars between sentences": "Said: He came in, and sat down there. | She did not.\n" * 20,
    "commits": "0b6589f Have it come in, and sit down there.\n356a192 Let it go out again.\n" * 9,
    "two rows of names": ",2031,,2032,\nCity,In,Out,In,Out\n" + "Rome,1,2,3,4\nOslo,5,6,7,8\n" * 5,
    "files in two languages": "// a.js\n"
    + "const f = (a) => {\n};\nexport default f;\n" * 9
    + "# b.py\ndef f(a):\n    return a\nimport os\n" * 9,
    "deep JSON": "[" * 100_000 + "]" * 100_000,
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_what_isnt_plain_is_not_said(text: str) -> None:
    assert structure(text) == ()


def _rows(text: str, code: str) -> Sequence[Any]:
    names: dict[str, Any] = {"context": text}
    exec(code, names)
    return names.get("rows") or names.get("data") or names["lines"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("\ufeffid;v\n1;2,5\n2;3,5\n", {"id": 1, "v": "2,5"}),
        ("id,code,x,y\n1,007,2.5,\n2,010,3,4\n", {"id": 1, "code": "007", "x": 2.5, "y": ""}),
        ("1,Rome\n2,Oslo\n3,Bern\n", ["1", "Rome"]),
        ('{"a": "\u2028"}\n\n{"a": 2}\n{"a": 3}\n', {"a": "\u2028"}),
        ("level=INFO ms=3\nlevel=WARN ms=4\nlevel=INFO ms=9\n", {"level": "INFO", "ms": 3}),
        ('[{"a": 1}]', {"a": 1}),
        ("a: x | b: 2\n\na: y: z | b: 3\na: q | b: 4\n", {"a": "x", "b": 2}),
        ("10:00:00 INFO a b\n10:00:01 WARN c d\n\n10:00:02 WARN e\n", ["10:00:00", "INFO", "a b"]),
    ],
)
def test_the_code_that_is_shown_gets_at_it(text: str, first: object) -> None:
    (said,) = structure(text)
    _, code = without_code([said])
    assert code is not None
    assert _rows(text, code)[0] == first


def test_a_quotation_mark_that_nothing_closes_makes_no_table() -> None:
    lines = [f"{i}\tRome\t{i * 7}" for i in range(20_000)]
    assert "a table" in structure("\n".join(lines))[0]
    lines[9_000] = '9000\t"Rome\t3'
    assert structure("\n".join(lines)) == ()
    lines[9_000] = '9000\t"Rome"\t3'
    assert "a table" in structure("\n".join(lines))[0]


def test_lines_of_one_shape_may_have_others_among_them() -> None:
    lines = [f"User: u{i} || Count: {i} || Said: a: b || c" * (i != 5) or "and so on" for i in range(40)]
    lines = [line.replace(" || c", "") if i != 9 else line for i, line in enumerate(lines)]
    text = "\n".join(["These are forty lines.", "", *lines])
    [said], code = without_code(structure(text))
    assert said == "Each line has User, Count, Said, separated by ' || ', but for 3 of 41 looked at."
    rows = _rows(text, code or "")
    assert len(rows) == 39
    assert rows[8] == {"User": "u9", "Count": 9, "Said": "a: b || c"}
    assert structure("\n".join([*lines[:10], *["and so on"] * 3])) == ()


_SAID = "Where he had been, and with whom he had come, nobody there could tell.\n"


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"Chapter {i}\n" for i in range(1, 6)) + "".join(f"\nChapter {i}\n\n{_SAID * 9}" for i in range(1, 6)),
        "".join(f"CHAPTER {i}. Of it .......... {i * 9}\n" for i in "IVX")
        + "".join(f"\nCHAPTER {i}.\nOf it\n\n{_SAID * 9}" for i in "IVX"),
        "".join(f"CHAPTER I\n\n{_SAID * 9}\n" for _ in range(5)),
        "Look at this.\n\n    import os\n    def f(a):\n        return a\n\n".join([_SAID * 3] * 9),
        "\n".join(f"{i}. {_SAID}\nSELECT a, b\nFROM t{i}\nWHERE a > 1;\n" for i in range(9)),
        "".join(f"2031-01-{i:02}: {_SAID}" for i in range(10, 29)),
        "".join(f"[00:{i:02}:00] Ada: {_SAID}" for i in range(10, 29)),
    ],
    ids=["contents", "pages", "heads of pages", "examples", "statements", "a diary", "an interview"],
)
def test_of_running_text_nothing_else_is_said(text: str) -> None:
    assert structure(text) == (PROSE,)


def test_statements_in_python_are_python() -> None:
    said = structure('import os\n\nQ = """\nSELECT a, b\nFROM t\n"""\n' + 'P = """\nSELECT c\nFROM t\n"""\n' * 9)
    assert said[0].startswith("It is source code in Python. It parses as one module.")


def test_a_text_in_two_scripts_is_said_to_be_in_both() -> None:
    japanese = "彼は来た。そして彼女は行かなかった。それはとても寒い日だった。\n" * 9
    assert structure(japanese)[0] == "It is written in Japanese."
    assert structure(japanese + _SAID * 9)[0] == "It is written in Japanese, and partly in Latin letters."


def test_a_long_text_is_looked_at_in_its_middle_and_its_end_too() -> None:
    table = "id,v\n" + "".join(f"{i},{i * 7}\n" for i in range(200_000))
    assert "a table" in structure(table)[0]
    half = len(table) // 2
    assert structure(table[:half] + "Here the table is broken off.\nAnd this goes on.\n" + table[half:]) == ()
    assert structure(table + "In all there were many.\n") == ()
    assert structure("x" * 3_000_000) == ()


def test_a_models_first_message_says_it() -> None:
    rows = [{"a": i, "b": "x"} for i in range(50)]
    info = pack("\n".join(map(json.dumps, rows))).info
    assert info.details[0] == "50 lines"
    assert info.details[1].startswith("It is JSON lines")


@pytest.mark.parametrize("text", [text for text, _ in SAID.values()], ids=SAID)
def test_code_is_shown_as_a_block_that_runs_and_only_there(text: str) -> None:
    opening = initial.opening("What?", pack(text).info, max_iterations=7)
    names: dict[str, Any] = {"context": text, "SEARCH": lambda words: searched.append(words)}
    searched: list[str] = []
    _, code = without_code(said := structure(text))
    blocks = parsing.parse(opening).blocks
    assert len(blocks) == (code is not None or PROSE in said)
    for block in blocks:
        exec(block, names)
    assert "`import" not in opening
    assert bool(names.keys() & {"rows", "data", "lines", "tree"}) is (code is not None)
    assert searched == ["What?"] * (PROSE in said)


def test_many_dicts_of_the_same_keys_are_described_as_one() -> None:
    values = [{"serial": f"S{i}", "place": {"room": "A", "site": i}} for i in range(9)]
    keys = "with the keys serial (str), place.room (str), place.site (int)"
    assert pack(values).info.details == ("items: dict", f"Each item is a dict {keys}")
    context = {f"asset{i}": value for i, value in enumerate(values)}
    [said], code = without_code(pack(context).info.details)
    assert said == f"Each value is a dict {keys}."
    assert code is not None
    names: dict[str, Any] = {"context": context}
    exec(code, names)
    assert names["rows"][3] == {"key": "asset3", **values[3]}


def test_keys_that_some_dicts_lack_are_said_to_be_lacking() -> None:
    values = [{"id": i, "status": "open"} | ({"hours": 2} if i % 9 else {}) for i in range(40)]
    keys = "with the keys id (int), status (str); not in all of them: hours (int)"
    assert pack(values).info.details == ("items: dict", f"Each item is a dict {keys}")
    assert f"each line is an object, {keys}" in pack("\n".join(map(json.dumps, values))).info.details[1]
    kinds = [{"type": "a", "x": 1}, {"type": "b", "y": 2}, {"type": "c", "z": 3}] * 3
    assert "type (str); not in all of them: x (int), y (int), z (int)" in structure(json.dumps(kinds))[0]
    mixed = [{"a": 1, "b": 2}, {"c": 3}, {"d": 4, "a": 1}] * 3
    assert "a (int), b (int), c (int), d (int), none of which is in all of them" in structure(json.dumps(mixed))[0]
    assert pack(mixed).info.details == ("items: dict", "keys of the first: 'a', 'b'")


def test_it_is_said_where_only_a_sample_was_looked_at() -> None:
    values = [{"id": i} | ({"hours": 2} if i > 300 else {}) for i in range(5_000)]
    keys = "with the keys id (int); not in all of them: hours (int)"
    assert pack(values).info.details == ("items: dict", f"Each item is a dict {keys}", SAMPLED)
    assert pack(values[:1_000]).info.details == ("items: dict", f"Each item is a dict {keys}")
    said = without_code(pack(dict(enumerate(values))).info.details)[0]
    assert said == [f"Each value is a dict {keys}.", SAMPLED]
    lines = "\n".join(map(json.dumps, values))
    assert structure(lines)[1:] == (SAMPLED,)
    assert len(structure(lines[:20_000].rpartition("\n")[0])) == 1
    assert len(structure(json.dumps(values))) == 1
    assert structure(json.dumps([{"id": i} for i in range(12_001)]))[1:] == (SAMPLED,)


def test_many_values_of_one_kind_and_size_are_described_as_one() -> None:
    stations = {f"station{i:03}": [1.5] * 25 for i in range(57)}
    [said] = pack(stations).info.details
    assert said == "Each value is of type list and has 25 items; keys: 'station000', 'station001', 'station002', …"
    assert pack(dict.fromkeys(range(40), 2)).info.details == ("Each value is of type int; keys: 0, 1, 2, …",)
    for other in (dict.fromkeys(range(9), 2), stations | {"other": [1]}, dict.fromkeys(range(999), 2)):
        assert not pack(other).info.details[0].startswith("Each value")


@pytest.mark.parametrize("values", [[{"a": 1}] * 4, [{"a": 1}] * 9 + [{"b": 1}], [{"a": 1}] * 9 + [3], [{}] * 9])
def test_few_or_other_dicts_are_described_one_by_one(values: list[Any]) -> None:
    assert not [line for line in pack(dict(enumerate(values))).info.details if line.startswith("Each value")]
