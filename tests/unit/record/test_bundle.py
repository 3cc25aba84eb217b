"""A run as one file: all of it is inside, whatever became of the run, and it can be run again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.frontends.cli.commands import export as exporting
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.catalog import find, list_runs
from rlm_jupyter.record.export import WholeRun, bundle, to_html, to_jsonl, to_notebook
from rlm_jupyter.record.export.costs import costs, total
from rlm_jupyter.record.export.write import send
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.notebook import is_run, read, read_context
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import pack, unpack
from rlm_jupyter.types.errors import ConfigurationError, ModelError, RecordError, RLMError
from rlm_jupyter.types.events import Record, RunEnded
from rlm_jupyter.types.values import Usage
from tests.runs.test_cli import cli
from tests.support.sample_run import cell, ended, reply, sample, started, stream, subcall

KEY = "sk-" + "ant-api03-" + "Zx9_kQ41" * 9
LINE = f"Ticket 7: lost data, key {KEY}\n"


def block(source: str) -> str:
    return f"I run this.\n```repl\n{source}\n```"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def recorded(replies: list[str] | None = None, context: object = LINE * 2_000) -> Result:
    """A real run with a large context, a large output, sub-calls, and a child that asks in turn."""
    child = ScriptedModel(
        [block("print(llm_query('inner ' + context[:9]))"), block("FINAL('child has read ' + context)")],
        name="scripted/child",
        sub=lambda prompt: f"answered: {prompt[:12]}",
    )
    cells = [
        "print(len(context)); print('x' * 1_200_000)",
        "print(llm_query_batched([f'piece {n} ' + context[n * 40 : n * 40 + 400] for n in range(3)]))",
        "print(rlm_query('the part'))",
        "FINAL({'lost': 7})",
    ]
    root = ScriptedModel(replies or [block(cell) for cell in cells])
    limits = Limits(max_depth=2, max_iterations=20)
    return await RLM(root, sub_model=child, limits=limits).acompletion("What was lost?", context)


async def test_everything_is_inside_of_the_one_file() -> None:
    result = await recorded()
    assert result.path is not None
    whole = WholeRun.gather(result.path)
    Path("elsewhere").mkdir()
    alone = Path("elsewhere/alone.ipynb")
    alone.write_bytes(to_notebook(whole))
    shutil.rmtree("rlm_runs")
    nbformat.validate(nbformat.read(alone, as_version=4))
    again = WholeRun.gather(alone)
    assert again.trajectory.records == whole.trajectory.records == result.trajectory.records
    assert again.context is not None
    assert unpack(again.context) == LINE * 2_000
    assert "x" * 1_200_000 in again.trajectory.iterations[0].cells[0].outputs[0]["text"]
    (child,) = again.children
    assert child.trajectory.answer == "child has read the part"
    assert child.trajectory.run_id == result.trajectory.subcalls[-1].child
    assert child.context is not None
    assert unpack(child.context) == "the part"
    assert to_notebook(again) == alone.read_bytes()


async def test_who_has_only_the_file_runs_it_again() -> None:
    result = await recorded()
    assert result.path is not None
    Path("elsewhere").mkdir()
    Path("elsewhere/alone.ipynb").write_bytes(to_notebook(WholeRun.gather(result.path)))
    shutil.rmtree("rlm_runs")
    document = nbformat.read("elsewhere/alone.ipynb", as_version=4)
    before = [cell.outputs for cell in document.cells if cell.cell_type == "code" and cell.metadata.rlm.role == "code"]
    await NotebookClient(document, timeout=60, resources={"metadata": {"path": "elsewhere"}}).async_execute()
    after = [cell.outputs for cell in document.cells if cell.cell_type == "code" and cell.metadata.rlm.role == "code"]
    assert [output[0].text for output in after[:3]] == [output[0].text for output in before[:3]]
    assert "child has read the part" in after[2][0].text


async def test_a_run_that_was_killed_is_exported_from_its_journal() -> None:
    with pytest.raises(ModelError):
        await recorded([block("print(rlm_query('the part'))")])  # then its model has nothing to say
    (run,) = list_runs()
    journal = run.files.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b"RunEnded" in lines[-1]
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # torn off
    run.files.notebook.unlink()
    done = cli("export", "--output", "killed.ipynb")
    assert done.code == 0
    whole = WholeRun.gather("killed.ipynb")
    assert whole.trajectory.ended is None
    assert [child.trajectory.answer for child in whole.children] == ["child has read the part"]
    assert "child has read the part" in to_html(whole)


def live(name: str) -> tuple[RunFiles, Journal]:
    files = RunFiles.create("q", Path("rlm_runs") / name)
    journal = Journal.open(files.journal, files.objects)
    for record in [started(run_id=f"{name}-abc123"), *sample()[1:4]]:
        journal.append(record)
    return files, journal


def test_a_run_that_goes_on_is_exported_with_the_children_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    files, journal = live("open")
    beside, _ = files.child("part"), files.child("just made")
    with journal, Journal.open(beside.journal, beside.objects) as below:
        below.append(started(run_id="below", parent="open-abc123", depth=1))
        below.append(reply(1, "I begin."))
        whole = WholeRun.gather("open-abc123")
        assert [child.trajectory.run_id for child in whole.children] == ["below"]
        page = to_html(whole)
        assert "not ended" in page
        assert "Run at depth 1" in page
        assert export(capsys, "open").startswith("Written: open-export.ipynb\nNothing to redact")
    assert "can be read, and not be run again" in export(capsys, "open", "--output", "x.ipynb")
    assert is_run("open-export.ipynb")


def test_only_what_is_below_a_run_is_its_own() -> None:
    def run(run_id: str, parent: str | None) -> WholeRun:
        return WholeRun(Trajectory([started(run_id=run_id, parent=parent)]))

    from rlm_jupyter.record.export.bundle import _descendants

    found = [run("b", "a"), run("c", "b"), run("other", "elsewhere"), run("loop", "loop"), run("b", "a"), run("a", "c")]
    (b,) = _descendants("a", found)
    assert [one.trajectory.run_id for one in b] == ["b", "c", "a"]


def test_large_things_are_compressed_and_the_same_run_gives_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = pack("z" * 500_000)
    noisy: list[Any] = [
        started(run_id="child", parent="20260102-030405-who", context=below.info),
        reply(1, "\ud800 $escaped \\u005c " + "y" * 200_000),
    ]
    child = WholeRun(Trajectory(noisy), below)
    run = WholeRun(Trajectory(sample()), pack("\ud800" + "c" * 100), (child,))
    content = to_notebook(run)
    assert len(content) < 60_000
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert content == to_notebook(run)
    path = tmp_path / "run.ipynb"
    path.write_bytes(content)
    assert tuple(read(path)) == run.trajectory.records
    again = WholeRun.gather(path)
    assert again.children[0].trajectory.records == child.trajectory.records
    assert again.children[0].context == child.context
    inside = read_context(path)
    assert inside is not None
    assert unpack(inside) == "\ud800" + "c" * 100


@pytest.mark.parametrize("damage", [{"gzip": "!"}, {"gzip": "AAAA"}, [{"record": "Nothing"}], [], None])
def test_damage_is_said_in_a_line(tmp_path: Path, damage: object) -> None:
    run = WholeRun(
        Trajectory(sample()), None, (WholeRun(Trajectory([started(run_id="c", parent="20260102-030405-who")])),)
    )
    content = json.loads(to_notebook(run))
    content["metadata"]["rlm"]["children"][0]["records"] = damage
    (tmp_path / "run.ipynb").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=r"run.ipynb: metadata.rlm.children is damaged"):
        WholeRun.gather(tmp_path / "run.ipynb")


async def test_the_lines_have_the_children_where_the_reference_has_them() -> None:
    result = await recorded()
    assert result.path is not None
    lines = [json.loads(line) for line in to_jsonl(WholeRun.gather(result.path)).splitlines()]
    assert [line["type"] for line in lines] == ["metadata", *["iteration"] * 4]
    (call,) = lines[3]["code_blocks"][0]["result"]["rlm_calls"]
    below = call["metadata"]
    assert below["run_metadata"]["root_model"] == "scripted/child"
    assert [iteration["iteration"] for iteration in below["iterations"]] == [1, 2]
    assert below["iterations"][1]["final_answer"] == "child has read the part"
    assert below["iterations"][0]["code_blocks"][0]["result"]["rlm_calls"][0]["prompt"] == "inner the part"
    assert "metadata" not in lines[2]["code_blocks"][0]["result"]["rlm_calls"][0]


def test_costs_are_told_by_model_and_depth_and_nothing_is_counted_twice() -> None:
    below: list[Any] = [
        started(run_id="c", depth=1),
        reply(1, "x", usage=Usage(50, 5, 30, 0, 2), model="low"),
        subcall(1, 0, 0),
    ]
    child = WholeRun(Trajectory(below))
    records: list[Any] = [
        started(),
        reply(1, "x", rejected="again"),
        reply(1, "x"),
        subcall(1, 0, 0),
        subcall(1, 0, 1, child="c", kind="rlm", usage=Usage(70, 7), cost=0.02),
        subcall(1, 0, 2, failed=True, usage=Usage(), cost=0.0),
        subcall(1, 0, 3, child="gone", kind="rlm", model="", cost=None),
        ended(usage=Usage(320, 40), cost=0.5),
    ]
    run = WholeRun(Trajectory(records), None, (child,))
    lines = costs(run)
    assert [(line.depth, line.model, line.requests, line.usage.input_tokens) for line in lines] == [
        (0, "root", 2, 200),
        (1, "(a child run that is not here)", 1, 20),
        (1, "low", 1, 50),
        (1, "sub", 1, 20),
        (2, "sub", 1, 20),
        (None, "(stopped on the way)", 0, 10),
    ]
    assert (lines[2].usage.cached_tokens, lines[2].usage.reasoning_tokens) == (30, 2)
    assert lines[1].cost is None
    everything = total(run, lines)
    assert (everything.requests, everything.usage.input_tokens, everything.cost) == (6, 320, None)
    assert costs(replace(run, trajectory=Trajectory(records[:-1]))) == lines[:-1]


async def test_whole_prompts_of_sub_calls_are_kept_once_and_can_be_read_in_each_form() -> None:
    long = "head " + "x" * 30_000 + f" the key {KEY} END OF THE PROMPT"
    asks = f"p = 'head ' + 'x' * 30_000 + ' the key {KEY} END OF ' + 'THE PROMPT'\nprint(llm_query_batched([p, p + '!', p]))"
    result = await recorded([block(asks), block("FINAL('seen')")])
    assert result.path is not None
    files = RunFiles(Path(result.path))
    # neither the record in memory nor the journal carries them
    assert {call.prompt for call in result.trajectory.subcalls} == {None}
    assert files.journal.stat().st_size < 40_000
    # there they can be read, folded: as the code that asked has them, and once for each call
    assert files.notebook.read_text().count("END OF THE PROMPT") == 3
    assert len([1 for path in files.objects.folder.iterdir() if b"END OF" in path.read_bytes()]) == 2

    whole = WholeRun.gather(result.path)
    assert {call.prompt for call in whole.trajectory.subcalls} == {long, long + "!"}
    assert to_html(whole).count("END OF THE PROMPT") >= 3
    assert to_jsonl(whole).count("END OF THE PROMPT") >= 3
    await asyncio.to_thread(send, files, "ipynb", "sent.ipynb")
    sent = Path("sent.ipynb").read_text()
    assert sent.count("END OF THE PROMPT") >= 3
    assert KEY not in sent
    read = Trajectory.load("sent.ipynb").subcalls
    assert [call.prompt_sha256 for call in read] == [
        hashlib.sha256((c.prompt or "").encode()).hexdigest() for c in read
    ]


async def test_an_export_of_very_many_prompts_carries_their_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_MOST_PROMPT_CHARS", 12_000)
    result = await recorded([block("llm_query_batched([f'{n}' + 'y' * 5_000 for n in range(4)])"), block("FINAL(1)")])
    assert result.path is not None
    calls = WholeRun.gather(result.path).trajectory.subcalls
    assert sorted(len(call.prompt or call.prompt_head) for call in calls) == [1_000, 1_000, 5_001, 5_001]


async def test_a_page_needs_nothing_and_shows_everything() -> None:
    result = await recorded()
    assert result.path is not None
    page = to_html(WholeRun.gather(result.path))
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert not re.search(r"@import|url\(", page)
    assert "default-src 'none'" in page
    for text in ("What was lost?", "{&#39;lost&#39;: 7}", "scripted/child", "child has read the part", "llm_query"):
        assert text in page, text
    assert re.search(r'<th scope="row">child</th><td>1</td><td>\d', page) or "scripted/child" in page
    assert page.count("<details") == page.count("</details>") >= 8
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page
    assert len(page) < 400_000, "of an output of a million characters there is only the head"


def test_a_childs_cells_are_shown_whole_on_a_page_with_what_they_put_out() -> None:
    child: list[Record] = [
        started(run_id="c1", depth=1, parent="r1"),
        reply(1, "I **look** at `it_all` in\n# part 1\n```repl\nfor x in y:\n    print(x)\n```"),
        cell(1, 0, "for x in y:\n    print(x)", (stream("a line\n<b>another</b>\n"),)),
    ]
    asked = subcall(1, 0, 0, kind="rlm", child="c1")
    looks = reply(1, "The **root** looks.\n" + block("rlm_query('x')"))
    root: list[Record] = [started(run_id="r1"), looks, asked, cell(1, 0, "1")]
    page = to_html(WholeRun(Trajectory(root), children=(WholeRun(Trajectory(child)),)))
    calls = page[page.index("<h2>Calls</h2>") : page.index("<h2>Cells</h2>")]
    assert '<pre class="output ">a line\n&lt;b&gt;another&lt;/b&gt;</pre>' in calls
    assert "<h4>Code</h4><pre>for x in y:\n    print(x)</pre>" in calls
    # the root's own stand below, and are not there twice
    assert "<h4>Code</h4><pre>1</pre>" not in calls
    assert "<span>I look at it_all in part 1</span>" in calls
    assert "<span>The root looks. I run this.</span>" in calls


def export(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the command says, without another process; errors are raised."""
    assert exporting.run(parsed(["export", *args])) == 0
    return capsys.readouterr().err


def test_the_command_writes_each_form_and_says_what_it_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/home/ada.l")
    files = RunFiles.create("q", Path("rlm_runs/mine"))
    with Journal.open(files.journal, files.objects) as journal:
        for record in [
            started(run_id="mine-abc123", prompt=f"Use {KEY} of /home/ada.l/x"),
            *sample()[1:-1],
            ended(answer=f"It is {KEY}."),
        ]:
            journal.append(record)
    files.objects.put_context(pack(LINE))
    before = {path: path.read_bytes() for path in Path("rlm_runs").rglob("*") if path.is_file()}
    for form, name in (("ipynb", "mine-export.ipynb"), ("html", "mine.html"), ("jsonl", "mine.jsonl")):
        said = export(capsys, "mine", "--to", form)
        assert said.startswith(f"Written: {name}\nRemoved: 1 key and 1 home folder or user name, in ")
        assert re.search(r", in \d+ places \(", said)
        assert said.count("\n") == 2 + (form == "ipynb")
        text = Path(name).read_text()
        assert KEY not in text
        assert "/home/ada.l" not in text
        assert "[key 1]" in text
    said = export(capsys, "mine", "--no-redact", "-o", "kept.html")
    assert said == "Written: kept.html\nNothing was removed: keys and paths stand there as they were.\n"
    assert KEY in Path("kept.html").read_text()
    assert cli("export", "mine", "-o", "-", "--to", "jsonl").out == Path("mine.jsonl").read_text()
    assert {path: path.read_bytes() for path in Path("rlm_runs").rglob("*") if path.is_file()} == before
    RunFiles(Path("rlm_runs/mine.ipynb").absolute()).objects.put_context(inside := pack(LINE))
    with Path("rlm_runs/mine.rlm/journal.jsonl").open("r+") as file:
        text = file.read().replace("ab" * 32, inside.info.sha256, 1)
        file.seek(0)
        file.write(text)
    export(capsys, "mine", "-o", "with.ipynb")
    assert KEY not in Path("with.ipynb").read_text()
    ours = Trajectory.load("mine-export.ipynb")
    assert isinstance(ours.records[-1], RunEnded)
    assert find("mine-export").notebook.name == "mine-export.ipynb"


def test_a_mistake_is_said_in_a_line_and_costs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.ipynb").write_text("{}")
    live("open")[1].close()
    Path("rlm_runs/open.ipynb").write_bytes(to_notebook(WholeRun.gather("open")))
    other, journal = live("other")
    journal.close()
    other.notebook.write_bytes(to_notebook(WholeRun.gather("other")))
    for args, said in {
        ("nothing",): "There is no run 'nothing'",
        ("open", "-o", "nowhere/x.html"): "There is no folder nowhere",
        ("open", "-o", "mine.ipynb"): "mine.ipynb is not the notebook of a run",
        ("open", "-o", "x.html", "--to", "jsonl"): "x.html is no name for a file of the form jsonl",
        (
            "open",
            "-o",
            "x.pdf",
        ): "No form is a .pdf: name another --output, or --to. A browser prints the page that --to",
        ("open", "-o", "x.MD", "--to", "html"): "No form is a .MD: name another --output, or --to.",
        ("open", "-o", "./rlm_runs/../rlm_runs/open.ipynb"): "is the run itself",
        ("open", "-o", "rlm_runs/other.ipynb"): "is a run that is kept",
    }.items():
        before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        with pytest.raises(RLMError, match=re.escape(said)) as error:
            export(capsys, *args)
        assert "\n" not in str(error.value)
        assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    shutil.rmtree("rlm_runs")
    none = cli("export")
    assert (none.err, none.code) == ("jupyter rlm: There are no runs in rlm_runs: name one.\n", 2)


@pytest.mark.parametrize("saved", [True, False])
def test_a_result_saves_all_of_itself_as_one_file(tmp_path: Path, saved: bool) -> None:
    model = ScriptedModel(["```repl\nFINAL(len(context))\n```"])
    rlm = RLM(model, save=tmp_path / "kept.ipynb" if saved else False)
    result = rlm.completion("How long?", LINE * 2_000)
    for path in ("", 5):
        with pytest.raises(ConfigurationError, match="save takes the path of a notebook"):
            result.save(path)  # type: ignore[arg-type]
    one = result.save(tmp_path / "one")
    again = WholeRun.gather(one)
    assert again.trajectory.records == result.trajectory.records
    assert (again.context is not None) is saved
    mine = tmp_path / "mine.ipynb"
    mine.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    for agreed in (False, True):
        with pytest.raises(ConfigurationError, match="not the notebook of a run, so it is not replaced"):
            result.save(mine, replace=agreed)
    assert result.save(one) == one


def test_an_export_replaces_nothing_that_was_not_given_up() -> None:
    results = [
        RLM(ScriptedModel([f"```repl\nFINAL({n})\n```"]), save=f"rlm_runs/kept{n}.ipynb").completion("How many?")
        for n in (1, 2)
    ]
    before = Path("rlm_runs/kept2.ipynb").read_bytes()
    for other in ("rlm_runs/kept2.ipynb", "link.ipynb"):
        if other == "link.ipynb":
            Path(other).symlink_to("rlm_runs/kept2.ipynb")
        for agreed in (False, True):
            with pytest.raises(ConfigurationError, match="is a run that is kept"):
                results[0].save(other, replace=agreed)
    assert Path("rlm_runs/kept2.ipynb").read_bytes() == before
    one = results[0].save("one.ipynb")
    notes = json.loads(one.read_bytes())
    notes["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "my notes"})
    one.write_text(json.dumps(notes))
    with pytest.raises(ConfigurationError, match=re.escape("Name another path, or pass replace=True.")):
        results[0].save(one)
    assert "my notes" in one.read_text()
    results[0].save(one, replace=True)
    assert "my notes" not in one.read_text()


@pytest.mark.parametrize(
    "args",
    [
        ("export", "kept", "--to", "html", "-o", "report.html"),
        ("export", "kept", "-o", "report.jsonl"),
        ("export", "kept", "-o", "link.html"),
        ("export", "kept", "-o", "nowhere.html"),
    ],
)
def test_a_file_of_the_users_stays_unless_its_replacement_is_asked_for(args: tuple[str, ...]) -> None:
    live("kept")[1].close()
    for name in ("report.html", "report.jsonl", "other.html"):
        Path(name).write_text("mine")
    Path("link.html").symlink_to("other.html")
    Path("nowhere.html").symlink_to("nothing/there.html")
    done = cli(*args)
    assert done.code
    assert "is not replaced. Name another path" in done.err
    assert done.err.count("\n") == 1
    assert {Path(name).read_text() for name in ("report.html", "report.jsonl", "other.html")} == {"mine"}
    if "nowhere.html" not in args:
        assert cli(*args, "--replace").code == 0
        assert "mine" not in Path(args[-1]).read_text()


def test_no_device_and_no_part_of_a_run_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    live("kept")[1].close()
    journal = Path("rlm_runs/kept.rlm/journal.jsonl")
    before = journal.read_bytes()
    os.mkfifo("pipe.html")
    for name, said in {"pipe.html": "not a regular file", str(journal): "is a run that is kept"}.items():
        with pytest.raises(ConfigurationError, match=said):
            export(capsys, "kept", "-o", name, "--replace")
    assert journal.read_bytes() == before
    assert Path("pipe.html").is_fifo()


def test_an_export_that_names_itself_takes_a_free_name(capsys: pytest.CaptureFixture[str]) -> None:
    live("kept")[1].close()
    Path("kept.html").write_text("mine")
    for _ in range(2):  # the second finds the first, which is the same
        assert export(capsys, "kept", "--to", "html").startswith("Written: kept-2.html\n")
    Path("kept-2.html").write_text("edited")
    assert export(capsys, "kept", "--to", "html").startswith("Written: kept-3.html\n")
    assert (Path("kept.html").read_text(), Path("kept-2.html").read_text()) == ("mine", "edited")
