"""Files as context: `-c @PATH` in a notebook, `--context PATH` on the command line, and the page of the docs on them."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import docx
import pandas as pd
import pptx
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import rlm_jupyter
from rlm_jupyter.frontends.magics.context import context_of
from rlm_jupyter.frontends.magics.tab_completion import matches
from rlm_jupyter.run.files.load import load
from tests.runs.test_cli import cli, script
from tests.runs.test_cli import here as here
from tests.runs.test_magics import execute, text_of
from tests.runs.test_magics import run as run_cell
from tests.runs.test_magics import shell as shell
from tests.unit.run.test_archives import encrypted, zipped

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
FINAL = "I look.\n```repl\nFINAL(context)\n```"


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    for folder in ("reports/deep", "a b", "minutes", "last year"):
        Path(folder).mkdir(parents=True)
    letter = docx.Document()
    letter.add_paragraph("Dear all")
    for path in ("reports/letter.docx", "minutes/may.docx", "last year/may.docx"):
        letter.save(path)
    Path("reports/deep/note.txt").write_text("a note")
    Path("a b/x.csv").write_text("id\n1\n")
    Path("secret.zip").write_bytes(encrypted(zipped({"a.txt": "text"})))


REPORTS = {"reports/letter.docx": "Dear all", "reports/deep/note.txt": "a note"}


def test_the_public_name_is_what_the_command_line_loads_with() -> None:
    assert rlm_jupyter.load is load
    assert rlm_jupyter.load("reports/") == rlm_jupyter.load(Path("reports")) == REPORTS
    done = cli("run", "What?", "-c", "reports/", "-m", script(FINAL), "-q")
    assert (done.code, json.loads(done.out)) == (0, REPORTS)
    for path in ("gone.docx", "secret.zip"):
        with pytest.raises(rlm_jupyter.types.errors.ConfigurationError) as caught:
            rlm_jupyter.load(path)
        done = cli("run", "What?", "-c", path, "-m", script(FINAL))
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert str(caught.value) in done.err


def test_a_cell_reads_files_from_where_the_notebook_works() -> None:
    model = f"-m scripted/{Path(script(FINAL, FINAL).removeprefix('scripted/')).resolve()}"
    cells = execute(
        f"%%rlm {model} -c @reports/\nWhat?",
        "rlm_result.value",
        f'%rlm {model} -c @"a b/*.csv" -c @reports/deep What?',
        "rlm_result.answer",
        f"%cd -q reports\n%rlm {model} -c @letter.docx What?",
        "rlm_result.value",
        f"%rlm {model} -c book -c @deep/ What?",
        "rlm_result.value",
        f"%rlm {model} --here -c @letter.docx What?",
        "rlm_result.value",
    )
    values = [cell.outputs[0]["data"]["text/plain"] for cell in cells[1::2]]
    assert [ast.literal_eval(value) for value in values] == [
        REPORTS,
        "{'a b/x.csv':    id\n0   1, 'reports/deep/note.txt': 'a note'}",
        "Dear all",
        {"book": "some text", "deep/": {"deep/note.txt": "a note"}},
        "Dear all",
    ]
    assert "context: read from reports: dict, 2 keys." in text_of(cells[0])


def test_what_is_wrong_with_a_path_is_one_line_before_anything_is_asked() -> None:
    says = {
        "@gone/": "gone: there is no such file.",
        '@"a b/*.pdf"': "No file matches 'a b/*.pdf'.",
        "@secret.zip": "secret.zip: no file in this zip archive can be read: left out a.txt: encrypted.",
        "@": "-c @ names no file: a path stands behind the @, as in -c @reports/.",
        "@-": "-c @- names no file: a path stands behind the @, as in -c @reports/.",
        "''": "-c names nothing here: the name of a variable, or @ and a path, stands behind it.",
        "reports": "-c takes names of variables, not 'reports'",
        "reports/letter.docx": "not 'reports/letter.docx': a file is named by -c @reports/letter.docx.",
    }
    Path("unasked.json").write_text("[]")  # a model that can't answer: to ask it would be an error of its own
    cells = execute(*[f"%rlm -m scripted/unasked.json -c {path} What?" for path in says], "'rlm_result' in globals()")
    del says["reports"]
    *wrong, last = [cell for cell in cells if "-c reports What" not in cell.source]
    for cell, line in zip(wrong, says.values(), strict=True):
        assert line in text_of(cell)
        assert "Traceback" not in text_of(cell)
        assert len(text_of(cell).strip().splitlines()) == 1, text_of(cell)
    assert last.outputs[0]["data"]["text/plain"] == "False"
    assert not Path("rlm_runs").exists()


def test_paths_and_names_beside_each_other(shell: InteractiveShell) -> None:
    shell.user_ns |= {"one": 1, "two": Path("reports/deep/note.txt")}
    Path("c,d.txt").write_text("with a comma")
    assert context_of(shell, ["one,two", "@c,d.txt"]) == {"one": 1, "two": "a note", "c,d.txt": "with a comma"}
    assert context_of(shell, ["@c,d.txt"]) == "with a comma"
    assert context_of(shell, []) is None
    assert context_of(shell, ["one,"]) == 1
    shown, error = run_cell(shell, f"%rlm -m {script(FINAL)} --estimate -c @'c,d.txt' What?")
    assert error is None, shown


def test_paths_are_completed_behind_the_at() -> None:
    Path("rep[1].txt").touch()
    assert matches("%rlm -c @rep", []) == ("@rep", ["@rep[1].txt", "@reports/"])
    assert matches("%%rlm --context @rep[1]", []) == ("@rep[1]", ["@rep[1].txt"])
    assert matches("%rlm -c @a", []) == ("@a", [])  # the one folder has a blank in it
    assert matches("%rlm -c rep", []) == ("rep", [])
    assert matches("%rlm --context=@rep[1]", []) == ("@rep[1]", ["@rep[1].txt"])


def test_variables_that_can_be_a_context_are_completed(shell: Any) -> None:
    shell.run_cell("import re as report_of\nreports, report, other = ['a'], 'text', 1\ndef reported(): ...")

    def completed(line: str) -> list[str]:
        return sorted(one.text for one in shell.Completer.completions(line, len(line)) if one.text.startswith("repo"))

    with provisionalcompleter():
        assert completed("%rlm -c rep") == ["report", "reports"]
        assert completed("%%rlm --context=rep") == ["report", "reports"]
        assert completed("%rlm -c other,rep") == ["report", "reports"]
        assert "reported" in completed("rep")  # elsewhere all there is


# --- the docs -------------------------------------------------------------------------------------------------


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)[number]


@pytest.mark.slow
def test_the_first_examples_of_the_docs_run() -> None:
    model = script(FINAL)
    names: dict[str, Any] = {}
    exec(compile(block("python").replace("ollama/qwen3:8b", model), "example", "exec", dont_inherit=True), names)
    assert names["result"].value == {"minutes/may.docx": "Dear all"}
    both = {"minutes/may.docx": "Dear all", "last year/may.docx": "Dear all"}
    command = shlex.split(block("bash").replace("ollama/qwen3:8b", model))
    assert json.loads(cli(*command[2:], "-q").out) == both
    cell = "%%rlm" + PAGE.partition("\n%%rlm")[2].partition("```")[0]
    _, shown = execute(cell.replace("ollama/qwen3:8b", model), "rlm_result.value")
    assert ast.literal_eval(shown.outputs[0]["data"]["text/plain"]) == both


def test_what_comes_of_files_is_as_the_docs_say() -> None:
    offer = docx.Document()
    offer.add_heading("Offer", 1)
    offer.add_paragraph("Dear all,")
    table = offer.add_table(2, 2)
    for place, text in enumerate(("city", "price", "Lima", "7")):
        table.cell(place // 2, place % 2).text = text
    offer.save("offer.docx")
    talk = pptx.Presentation()
    for title, text in (("Prices", "They fall."), ("Questions", "")):
        slide = talk.slides.add_slide(talk.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text_frame.text = title, text
    talk.slides[0].notes_slide.notes_text_frame.text = "Smile."
    talk.save("talk.pptx")
    with pd.ExcelWriter("orders.xlsx") as book:
        pd.DataFrame({"id": [1, 2], "city": ["Lima", "Oslo"]}).to_excel(book, sheet_name="open", index=False)
        pd.DataFrame({"id": [3]}).to_excel(book, sheet_name="sent", index=False)
    Path("page.html").write_text("<title>News</title><p>It <em>rains</em> in <a href='oslo.html'>Oslo</a>.")
    Path("all.zip").write_bytes(zipped({"a.txt": "first", "b/c.json": "[1, 2]"}))
    lines = [line.split("  # ") for line in block("python", 1).splitlines() if "  # " in line]
    assert len(lines) == 5
    for expression, value in lines:
        assert eval(expression, {"load": load}) == ast.literal_eval(value), expression


def test_the_kinds_in_the_table_are_all_there_are() -> None:
    from rlm_jupyter.run.files.formats import _READERS

    named = set(re.findall(r"\b[a-z]+\b", " ".join(re.findall(r"^\| ([^|]+) \|", PAGE, re.M))))
    assert {suffix.removeprefix(".") for suffix in _READERS} - named == {
        "tab",
        "ndjson",
        "htm",
        "xhtml",
        "jpeg",
        "tiff",
    }
