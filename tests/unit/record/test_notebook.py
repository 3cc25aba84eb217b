import json
import re
from dataclasses import replace
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings

from rlm_jupyter.record import notebook
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.encoding import LARGE
from rlm_jupyter.record.notebook import read
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.record.notice import LAST_CALL, UNREAD
from rlm_jupyter.run.context import pack
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import CellFinished, Record, ReplyReceived
from rlm_jupyter.types.values import ContextInfo
from tests.support.examples import some
from tests.support.sample_run import FIRST, SECOND, cell, ended, reply, runs, sample, started, stream, subcall


def lay_out(records: list[Record]) -> bytes:
    layout = Layout()
    for record in records:
        layout.add(record)
    return b"".join(joined([layout]))


def written(path, records, **kwargs) -> dict[str, Any]:
    writer = NotebookWriter(path, **kwargs)
    for record in records:
        writer.update(record)
    writer.write()
    return json.loads(path.read_bytes())


def text_of(cell) -> str:
    return "".join(cell["source"])


@settings(max_examples=some(150), deadline=None)
@given(runs)
def test_any_run_is_the_same_after_notebook_and_back(tmp_path_factory, records) -> None:
    path = tmp_path_factory.getbasetemp() / "any.ipynb"
    path.write_bytes(lay_out(records))
    assert read(path) == records


@settings(max_examples=some(60), deadline=None)
@given(runs)
def test_any_run_is_a_valid_notebook_in_utf8(records) -> None:
    content = json.loads(lay_out(records).decode("utf-8"))
    nbformat.validate(content)
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids)


def test_every_prefix_of_a_run_is_a_valid_notebook_and_reads_back(tmp_path) -> None:
    records, layout, path = sample(), Layout(), tmp_path / "run.ipynb"
    for n, record in enumerate(records, 1):
        layout.add(record)
        path.write_bytes(b"".join(joined([layout])))
        nbformat.validate(json.loads(path.read_bytes()))
        assert read(path) == records[:n]


def test_the_cells_are_what_a_person_expects(tmp_path) -> None:
    content = written(tmp_path / "run.ipynb", sample())
    seen = [(c["metadata"]["rlm"]["role"], c["cell_type"], text_of(c)) for c in content["cells"]]
    assert seen[1:] == [
        ("answer", "markdown", text_of(content["cells"][1])),
        ("restore", "code", "%load_ext rlm_jupyter\n%rlm_restore 20260102-030405-who"),
        ("boundary", "markdown", "*The model's cells, run in a kernel of their own:*"),
        ("prose", "markdown", "I look at how it begins."),
        ("code", "code", "print(context[:20])"),
        ("subcalls", "markdown", text_of(content["cells"][6])),
        ("rejected", "markdown", "> Resampled: the reply repeats the reply before it."),
        ("prose", "markdown", "Now the\ntwo halves."),
        ("code", "code", "x = 1 / 0"),
        ("prose", "markdown", "and"),
        ("code", "code", "FINAL(x)"),
        ("notice", "markdown", f"> {UNREAD} (28 characters, kept in the record.)"),
        ("notice", "markdown", "> *To the model:* Two lines  \n> of a notice."),
        ("prose", "markdown", "It was Ada."),
        ("notice", "markdown", f"> {LAST_CALL}"),
        ("boundary", "markdown", "*End of the run: answered.*"),
    ]
    head = text_of(content["cells"][0])
    for fact in ("Who wrote it?", "scripted/root", "scripted/sub", "`str`, 1,000 characters"):
        assert fact in head
    assert "Ada wrote it." in seen[1][2]
    assert "$0.0310" in seen[1][2]
    first, failed, skipped = (content["cells"][i] for i in (5, 9, 11))
    assert first["outputs"][0]["text"] == ["A line\n", "and another\n"]
    assert first["execution_count"] == 1
    assert failed["metadata"]["tags"] == ["raises-exception"]
    assert skipped["outputs"] == []
    assert "skip-execution" in skipped["metadata"]["tags"]


def test_a_childs_notebook_shows_what_it_was_asked(tmp_path) -> None:
    info = ContextInfo("str", "30 characters", beginning="Which colours are in ```this```?")
    shown = text_of(written(tmp_path / "child.ipynb", [started(depth=1, context=info)])["cells"][0])
    assert shown.endswith("The context begins:\n\n````text\nWhich colours are in ```this```?\n````")
    assert "begins" not in text_of(written(tmp_path / "root.ipynb", [started(context=info)])["cells"][0])


def test_a_cell_says_which_subcalls_it_made(tmp_path) -> None:
    content = written(tmp_path / "run.ipynb", sample())
    records = content["cells"][5]["metadata"]["rlm"]["records"]
    subcalls = [record for record in records if record["record"] == "SubcallSettled"]
    assert [(s["ordinal"], s["text"], s["model"]) for s in subcalls] == [(1, "Ada.", "sub"), (0, "no answer", "sub")]


def test_the_final_facts_stand_at_the_notebook(tmp_path) -> None:
    ours = written(tmp_path / "run.ipynb", sample())["metadata"]["rlm"]
    assert (ours["schema"], ours["run_id"], ours["stop_reason"]) == (1, "20260102-030405-who", "answered")
    assert [record["record"] for record in ours["records"]] == ["RunStarted", "RunEnded"]


def test_a_cell_made_of_prose_gets_a_place_of_its_own(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    records = [started(), reply(1, "FINAL(42)"), cell(1, 0, "FINAL('42')"), ended(answer="42")]
    content = written(path, records)
    assert [text_of(c) for c in content["cells"][4:6]] == ["FINAL(42)", "FINAL('42')"]
    assert content["cells"][5]["metadata"]["rlm"]["made"] is True
    assert read(path) == records


def test_an_indented_block_with_windows_line_ends_is_shown_as_code_and_kept_as_received(tmp_path) -> None:
    text = "1. Look:\r\n   ```repl\r\n   if x:\r\n       print(x)\r\n   ```\r\nDone."
    path = tmp_path / "run.ipynb"
    records = [started(), reply(1, text)]
    code = written(path, records)["cells"][4]
    assert text_of(code) == "if x:\n    print(x)"
    assert read(path) == records


def test_a_record_that_differs_from_its_cell_keeps_what_differs(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    records = [started(), reply(1, FIRST), cell(1, 0, "other()"), cell(1, 0, "again()", (stream("2"),))]
    assert [text_of(c) for c in written(path, records)["cells"][4:]] == ["print(context[:20])", "again()"]
    assert read(path) == records


def test_a_run_that_goes_on_after_its_end_has_neither_answer_nor_end_until_it_ends_again(tmp_path) -> None:
    records = [*sample(), reply(3, FIRST)]
    content = written(tmp_path / "run.ipynb", records)
    roles = [c["metadata"]["rlm"]["role"] for c in content["cells"]]
    assert ("answer" in roles, roles.count("boundary")) == (False, 1)
    assert read(tmp_path / "run.ipynb") == records
    again = written(tmp_path / "again.ipynb", [*records, ended(answer="It was Bo.")])["cells"]
    assert "It was Bo." in text_of(again[1])
    assert "Ada wrote it." not in text_of(again[1])
    assert text_of(again[-1]) == "*End of the run: answered.*"


def test_a_lone_surrogate_is_visible_and_reversible(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    source = "print('\ud800', '\\ud800')"
    records = [
        started(prompt="\udfff?"),
        reply(1, f"```repl\n{source}\n```"),
        cell(1, 0, source, (stream("\ud83d\ude00 \\u005c\n"),)),
    ]
    content = written(path, records)
    assert text_of(content["cells"][3]) == "print('\\ud800', '\\u005cud800')"
    assert read(path) == records
    nbformat.write(nbformat.read(path, 4), path)
    assert read(path) == records


def test_what_jupyter_saves_again_still_reads(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    written(path, sample())
    nbformat.write(nbformat.read(path, 4), path)
    assert read(path) == sample()


def test_cells_that_people_add_copy_or_edit(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    content = written(path, sample())
    content["cells"].insert(0, nbformat.v4.new_markdown_cell("My own"))
    content["cells"].append(dict(content["cells"][6], id="copied"))
    path.write_text(json.dumps(content))
    assert read(path) == sample()
    content["cells"][6]["source"] = ["print(context[:99])"]
    path.write_text(json.dumps(content))
    edited: list[Any] = read(path)
    assert edited[1].text == FIRST.replace("20", "99")
    assert edited[4].source == "print(context[:99])"


def test_a_large_output_is_kept_apart_and_comes_back(tmp_path) -> None:
    path, objects = tmp_path / "run.ipynb", Objects.of_run(tmp_path / "run.rlm")
    whole = stream("0123456789" * (LARGE // 10) + "end")
    records = [started(), reply(1, FIRST), cell(1, 0, "print(context[:20])", (stream("a"), whole))]
    content = written(path, records, objects=objects)
    assert path.stat().st_size < 100_000
    nbformat.validate(content)
    assert read(path) == records
    [kept] = list(objects.folder.iterdir())
    assert f"run.rlm/objects/{kept.name}" in "".join(content["cells"][4]["outputs"][1]["text"])
    content["cells"][4]["outputs"][1] = stream("executed again")
    (tmp_path / "other.ipynb").write_text(json.dumps(content))
    [*_, last] = read(tmp_path / "other.ipynb", objects)
    assert isinstance(last, CellFinished)
    assert last.outputs == (stream("a"), stream("executed again"))
    kept.unlink()
    [*_, last] = read(path)
    assert isinstance(last, CellFinished)
    shortened = last.outputs
    assert shortened[0] == stream("a")
    assert shortened[1]["text"].startswith("0123456789")
    assert kept.name in shortened[1]["text"]


def test_an_answer_too_large_for_the_notebook_is_never_cut_silently(tmp_path) -> None:
    path, objects = tmp_path / "run.ipynb", Objects.of_run(tmp_path / "run.rlm")
    records = [started(), ended(answer="y" * (LARGE + 1), value=None)]
    written(path, records, objects=objects)
    assert path.stat().st_size < 100_000
    assert read(path) == records
    [kept] = list(objects.folder.iterdir())
    kept.unlink()
    with pytest.raises(RecordError, match=kept.name):
        read(path)


@pytest.mark.parametrize("context", ["Zeile \ud800\n", b"\x00\xff", {"a": [1, 2]}])
def test_a_small_context_stands_in_the_notebook(tmp_path, context) -> None:
    path, packed = tmp_path / "run.ipynb", pack(context)
    content = written(path, [started(context=packed.info)], context=packed)
    nbformat.validate(content)
    assert notebook.read_context(path) == packed


def test_a_large_context_does_not(tmp_path) -> None:
    path, packed = tmp_path / "run.ipynb", pack("x" * 70_000)
    written(path, [started(context=packed.info)], context=packed)
    assert notebook.read_context(path) is None
    assert path.stat().st_size < 10_000


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"no json", "not a notebook"),
        (b"[]", "not a notebook"),
        (b'{"metadata": {}, "cells": []}', "not the notebook of a run"),
        (b'{"metadata": {"rlm": {"schema": 9, "version": "7.0"}}, "cells": []}', "7.0.*schema 9.*Upgrade"),
        (b'{"metadata": {"rlm": {"schema": 1, "records": [{"at": 0, "record": "Later"}]}}, "cells": []}', "Later"),
        (b'{"metadata": {"rlm": {"schema": 1, "records": [{"record": "RunStarted"}]}}, "cells": []}', "damaged"),
    ],
)
def test_what_is_not_ours_is_refused_in_a_line(tmp_path, content, match) -> None:
    path = tmp_path / "run.ipynb"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=match) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_the_reply_of_the_sample_is_cut_where_it_plays_the_kernel(tmp_path) -> None:
    content = written(tmp_path / "run.ipynb", sample())
    assert "Output:" not in "".join(text_of(c) for c in content["cells"])
    cut = read(tmp_path / "run.ipynb")[7]
    assert isinstance(cut, ReplyReceived)
    assert cut.text == SECOND


def test_sub_calls_can_be_read_below_the_cell_that_asked_and_stand_in_no_reply(tmp_path) -> None:
    path = tmp_path / "run.ipynb"
    asks = "Ask.\n```repl\nprint(llm_query_batched(['one', 'two']))\n```"
    calls = [subcall(1, 0, n, text=f"*reply* <b>{n}</b>" + "x" * 2_000, prompt_head=f"prompt {n}") for n in (1, 0)]
    many = [subcall(2, 0, n, prompt_head=f"prompt {n}") for n in range(300)]
    records = [started(), reply(1, asks), *calls, cell(1, 0, "print(llm_query_batched(['one', 'two']))")]
    records += [reply(2, asks), *many, cell(2, 0, "print(llm_query_batched(['one', 'two']))")]
    content = written(path, records)
    nbformat.validate(nbformat.from_dict(content))
    kinds = [c["metadata"]["rlm"]["role"] for c in content["cells"][3:]]
    assert kinds == ["prose", "code", "subcalls"] * 2
    shown, long = (text_of(content["cells"][place]) for place in (5, 8))
    assert shown.startswith("<details><summary>2 sub-calls")
    # set off from what is around it wherever it is read: a frame of ours would need a style sheet
    assert shown.count("<blockquote>") == 3
    assert shown.index("</summary><blockquote>") < shown.index("prompt 0")
    assert shown.index("prompt 0") < shown.index("prompt 1")  # in the order in which they were asked
    assert shown.count("x" * 2_000) == 2
    assert "<b>" not in shown
    assert "*" not in shown
    assert long.count("<strong>Prompt</strong>") == 300
    assert read(path) == records


def test_what_was_asked_and_answered_is_whole_and_a_long_text_has_a_fold_of_its_own(tmp_path) -> None:
    objects = Objects(tmp_path / "objects")
    prompt, text = "p" * 50_000 + " END OF IT", "r" * 50_000 + " END OF THE REPLY"
    kept = objects.put(prompt.encode())
    asked = subcall(1, 0, 0, prompt_head=prompt[:1_000], prompt_chars=len(prompt), prompt_sha256=kept, text=text)
    records = [started(), reply(1, FIRST), asked, subcall(1, 0, 1, prompt_head="short", prompt_chars=5)]
    for name, of in {"read": records, "going on": [*records[:2], replace(asked, prompt=prompt), *records[3:]]}.items():
        content = written(tmp_path / f"{name}.ipynb", of, objects=objects)
        [shown] = [text_of(c) for c in content["cells"] if c["metadata"]["rlm"]["role"] == "subcalls"]
        assert prompt in shown
        assert text in shown
        assert "<details><summary><strong>Prompt</strong>, 50,010 characters</summary><pre>" in shown
        assert "<p><strong>Prompt</strong></p><pre>short</pre>" in shown
        assert shown.count("<details>") == shown.count("</details>") == 5
        assert "more characters" not in shown


def test_a_thousand_long_sub_calls_leave_a_notebook_that_opens_and_says_what_shows_the_rest(tmp_path) -> None:
    objects = Objects(tmp_path / "objects")
    prompt = "<*>" * 33_000
    kept = objects.put(prompt.encode())
    many = [
        subcall(i, 0, n, prompt_head=prompt[:1_000], prompt_chars=len(prompt), prompt_sha256=kept, text="r" * 5_000)
        for i in range(1, 11)
        for n in range(1_000)
    ]
    records = [started(), *(reply(i, FIRST) for i in range(1, 11)), *many]
    content = written(tmp_path / "run.ipynb", records, objects=objects)
    lists = [text_of(c) for c in content["cells"] if c["metadata"]["rlm"]["role"] == "subcalls"]
    assert len(lists) == 10
    assert all(len(shown) < 3_000_000 for shown in lists)
    assert sum(map(len, lists)) < 16_000_000
    assert "98,000 more characters: jupyter rlm export 20260102-030405-who --to html shows them)" in lists[0]
    assert re.search(
        r"<p>\d{3} further ones: jupyter rlm export 20260102-030405-who --to html shows them.</p>", lists[0]
    )
    assert "900 further ones" in lists[-1]
