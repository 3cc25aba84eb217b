"""A recorded run again without a model, and other ways on from it; and its notebook in anybody's Jupyter."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.record.export import WholeRun
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.diff import difference
from rlm_jupyter.types.errors import ConfigurationError, ModelUnavailableError
from rlm_jupyter.types.values import CellRun
from tests.runs.test_restore import outputs, plain
from tests.runs.test_resume import CELLS, CHILD, CONTEXT, Counting, block, whole
from tests.runs.test_resume import in_folder as in_folder

HARD = [
    # batches, one of which fails in part; the same prompt twice; async, threads, and children that answer and that fail
    block("r = llm_query_batched(['same', 'bad', 'same'])", "print([str(x) for x in r])", "print(llm_query('same'))"),
    block("import asyncio", "print(await asyncio.gather(*(allm_query(f'a{i}') for i in range(5))))"),
    block(
        "from concurrent.futures import ThreadPoolExecutor",
        "with ThreadPoolExecutor(5) as pool: print(list(pool.map(llm_query, [f't{i}' for i in range(5)])))",
    ),
    block(
        "try: llm_query('bad')",
        "except SubcallError as error: print('refused:', error)",
        "print(rlm_query('child of mine'))",
    ),
    block("print(await arlm_query_batched(['one', 'two']))", "%llm_query what of this?"),
    block("1/0"),
    block("import matplotlib", "FINAL({'n': len(context), 'x': r[0]})"),
]


class Failing(Counting):
    def _sub(self, prompt: str) -> str:
        if prompt == "bad":
            raise ModelUnavailableError("nobody home")
        super()._sub(prompt)
        return f"<{prompt} {self.asked.count(prompt)}>"


async def hard() -> Result:
    limits = Limits(max_depth=2)
    return await RLM(Failing(HARD), sub_model=Failing(CHILD), limits=limits).acompletion("What?", CONTEXT)


async def test_a_replay_gives_the_same_without_a_model_and_writes_nothing() -> None:
    result = await hard()
    assert result.value == {"n": 20_000, "x": "<same 1>"}
    assert result.path is not None
    before = _state()
    replayed = await RLM.areplay(result.path)
    assert [str(one) for one in replayed.differences] == []
    assert (replayed.same, replayed.cells, replayed.subcalls) == (True, 7, 19)
    assert _state() == before


@pytest.mark.parametrize("reexecute", [True, False])
async def test_the_blocks_after_an_exit_are_skipped_again(reexecute: bool) -> None:
    replies = [block("print(1)", "exit()") + "\n" + block("FINAL('no')"), block("FINAL(len(context))")]
    result = await RLM(Counting(replies)).acompletion("What?", CONTEXT)
    assert [cell.status for cell in result.trajectory.iterations[0].cells] == ["ok", "skipped"]
    assert result.path is not None
    if reexecute:
        replayed = await RLM.areplay(result.path)
        assert (replayed.same, replayed.cells) == (True, 2)
        return
    forked = await RLM.afork(result.path, 1, model=Counting(replies), reexecute=False)
    assert [cell.status for cell in forked.trajectory.iterations[0].cells] == ["ok", "skipped"]
    assert forked.answer == result.answer


async def test_the_saved_notebook_alone_gives_the_same_under_run_all(in_folder: Path) -> None:
    result = await hard()
    path = result.save("elsewhere.ipynb")
    shutil.rmtree("rlm_runs")
    document = nbformat.read(path, as_version=4)
    expected = outputs(document)
    for cell in document.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    await NotebookClient(document, timeout=60, resources={"metadata": {"path": str(in_folder)}}).async_execute()
    assert outputs(document) == expected
    finals = [plain(o) for cell in document.cells for o in cell.get("outputs", []) if o.get("metadata", {}).get("rlm")]
    assert [final["text/plain"] for final in finals] == [result.answer]


async def test_a_replay_says_what_differs_and_where(in_folder: Path) -> None:
    cells = [
        block("import os", "print('one')", "print(os.path.exists('now'))"),
        block("print(llm_query('fixed'))"),
        block("FINAL('later' if os.path.exists('now') else 'before')"),
    ]
    result = await whole(cells)
    assert result.path is not None
    assert (await RLM.areplay(result.path)).same
    Path("now").touch()
    replayed = await RLM.areplay(result.path)
    assert [(one.iteration, one.block) for one in replayed.differences] == [(1, 0), (3, None)]
    assert str(replayed).splitlines()[:6] == [
        "--- iteration 1, cell 1 (recorded)",
        "+++ iteration 1, cell 1 (now)",
        "@@ -1,2 +1,2 @@",
        " one",
        "-False",
        "+True",
    ]
    assert "-before" in str(replayed)
    assert "+later" in str(replayed)


async def test_runs_that_did_not_answer_are_replayed_as_far_as_they_went() -> None:
    stopped = await whole(limits=Limits(max_iterations=2))
    assert stopped.path is not None
    assert (await RLM.areplay(stopped.path)).same
    declared = await whole(
        [block("print(1)"), block("import os", "if os.path.exists('now'): FINAL(2)"), block("print(3)")] * 2,
        limits=Limits(max_iterations=3),
    )
    assert declared.path is not None
    assert (await RLM.areplay(declared.path)).same
    Path("now").touch()
    replayed = await RLM.areplay(declared.path)
    assert [one.text for one in replayed.differences] == ["The cell declares an answer, which it had not."]


async def test_sub_calls_that_a_limit_or_a_wrong_name_refused_are_refused_again_and_cost_nothing() -> None:
    lines = [
        "print(*map(str, llm_query_batched(['one', 'two'], model='scripted/nobody')))",
        "said = []",
        "for i in range(150):",
        "    try: said.append(llm_query(f'p{i}'))",
        "    except SubcallError as error: said.append(str(error))",
        "print(*said)",
    ]
    limits = Limits(max_subcalls=3, max_iterations=1)
    result = await RLM(Counting([block(*lines), "none"]), limits=limits).acompletion("What?", CONTEXT)
    shown = result.trajectory.iterations[0].shown
    assert "<p2> 1 sub-call was asked for, and none of 3 is left." in shown
    assert [sum(call.refused is refused for call in result.trajectory.subcalls) for refused in (False, True)] == [
        3,
        100,
    ]
    assert result.path is not None
    assert (await RLM.areplay(result.path)).differences == ()
    assert SavedRun.load(result.path).spent().subcalls == 3


def test_it_works_in_a_script() -> None:
    import asyncio

    result = asyncio.run(whole())
    assert result.path is not None
    assert RLM.replay(result.path).same


def _run(text: str, status: Any = "ok", **more: Any) -> CellRun:
    return CellRun(status, ({"output_type": "stream", "name": "stdout", "text": text, **more},))


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("<object object at 0x7f0011223344>", "<object object at 0x7fffabcdef01>", True),
        (
            "CPU times: user 1.2 ms, sys: 0 ns, total: 1.2 ms\nWall time: 3.4 ms",
            "CPU times: user 2 s, sys: 8 µs, total: 2 s\nWall time: 2.1 s",
            True,
        ),
        (
            "12.3 µs ± 4 ns per loop (mean ± std. dev. of 7 runs, 100,000 loops each)",
            "1.3 ms ± 0.4 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
            True,
        ),
        ("at 2025-01-02 10:11:12.123456", "at 2026-02-03 01:02:03", True),
        ("File /tmp/ipykernel_12/345.py, In [3]", "File /tmp/ipykernel_9/1.py, In [4]", True),
        ("done in 4 s: 17 rows", "done in 5 s: 17 rows", True),
        ("done in 4 s: 17 rows", "done in 4 s: 18 rows", False),
        ("0x12 apples", "0x13 apples", False),
        ("1,204 tokens", "1,205 tokens", False),
        ("a\nb", "a", False),
    ],
)
def test_what_differs_for_no_reason_of_the_codes_is_no_difference(before: str, after: str, same: bool) -> None:
    assert (difference(_run(before), _run(after)) == "") is same


def test_pieces_of_a_stream_frames_and_statuses() -> None:
    one = CellRun("ok", tuple({"output_type": "stream", "name": "stdout", "text": text} for text in ("a", "b\n")))
    assert difference(one, _run("ab\n")) == ""
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'x'"}
    assert (
        difference(
            CellRun("error", ({**error, "traceback": ["a"]},)), CellRun("error", ({**error, "traceback": ["b"]},))
        )
        == ""
    )
    assert "(died)" in difference(_run("a"), _run("a", "died"))
    assert "… 2,001 lines in all" in difference(_run("x\n" * 2_000), _run("x\n" * 2_000 + "y"))


async def test_a_fork_goes_another_way_from_an_iteration_and_pays_only_for_that(in_folder: Path) -> None:
    limits = Limits(max_depth=2)
    cells = [block("x = 1"), block("print(rlm_query('part'))", "print(llm_query('q'))"), block("x += 1", "FINAL(x)")]
    first = await RLM(Counting(cells), sub_model=Counting(CHILD), limits=limits).acompletion("What?", CONTEXT)
    assert first.path is not None
    before = _state()
    other = Counting([*cells[:2], block("x += 10"), block("FINAL(x)")], name="scripted/other")
    (first.path.with_suffix(".rlm") / "objects" / "mine").mkdir(parents=True)  # somebody's own
    fork = await RLM.afork(first.path, 2, model=other, sub_model=Counting(CHILD), max_iterations=7)
    assert (fork.answer, other.roots, first.answer) == ("11", 2, "2")
    assert {path: text for path, text in _state().items() if path in before} == before
    started = fork.trajectory.started
    assert (started.forked_from, started.forked_at) == (first.trajectory.run_id, 2)
    assert (started.model, started.limits["max_iterations"]) == ("scripted/other", 7)
    assert fork.path is not None
    metadata = nbformat.read(fork.path, as_version=4).metadata.rlm
    assert metadata.forked_from == {"run_id": first.trajectory.run_id, "iteration": 2}
    assert [i.shown for i in fork.trajectory.iterations[:2]] == [i.shown for i in first.trajectory.iterations[:2]]
    # the ancestor's bill is the ancestor's
    assert fork.usage == fork.trajectory.usage
    assert [i.reply.usage.total_tokens > 0 for i in fork.trajectory.iterations] == [False, False, True, True]
    # it is a run like any other: it can be replayed, its children are with it
    assert (await RLM.areplay(fork.path)).same
    child = next(call.child for call in fork.trajectory.subcalls if call.child)
    assert [Trajectory.load(path).run_id for path in fork.path.with_suffix(".rlm").glob("children/*.rlm")] == [child]
    with pytest.raises(ConfigurationError, match="Iteration 3 gave the answer: fork it at=0 to 2"):
        await RLM.afork(first.path, 3)
    again = await RLM.afork(first.path, 0, model=Counting(cells), sub_model=Counting(CHILD))
    assert (again.answer, len(again.trajectory.iterations)) == ("2", 3)


async def test_a_fork_has_the_whole_prompts_of_what_it_takes_over() -> None:
    model = Counting([block("print(llm_query('p' * 5_000)[:9])"), block("print(1)"), block("FINAL('first')")])
    result = await RLM(model).acompletion("How long?", "text " * 3_000)
    assert result.path is not None
    fork = await RLM.afork(result.path, 1, model=Counting([block("1/0"), block("FINAL('second')")]))
    assert (fork.answer, model.asked) == ("second", ["p" * 5_000])
    assert fork.path is not None
    assert [call.prompt for call in WholeRun.gather(fork.path).trajectory.subcalls] == ["p" * 5_000]


async def test_a_cell_that_a_person_edited_is_taken_as_it_is_now(in_folder: Path) -> None:
    result = await whole()
    assert result.path is not None
    with pytest.raises(ConfigurationError, match="No cell was edited"):
        await RLM.afork(result.path, edit=True)
    document = nbformat.read(result.path, as_version=4)
    [edited] = [cell for cell in document.cells if "x.append" in cell.source]
    first = next(cell for cell in document.cells if cell.metadata.get("rlm", {}).get("role") == "code")
    # a copy is a cell of their own, and says nothing of the run's
    document.cells.append(nbformat.from_dict(first | {"id": "a-copy", "source": "of their own"}))
    # and so is one that was turned into text
    text = {"cell_type": "markdown", "id": first.id, "metadata": first.metadata, "source": "It was code."}
    document.cells[document.cells.index(first)] = nbformat.from_dict(text)
    edited.source = edited.source.replace(
        "x.append(llm_query('c'))", "x.append(llm_query('c')); x.append(llm_query('new'))"
    )
    nbformat.write(document, result.path)
    model = Counting(CELLS)
    with pytest.raises(ConfigurationError, match=r"Iteration 2 is the first that was edited: at=2"):
        await RLM.afork(result.path, 1, edit=True, model=model)
    fork = await RLM.afork(result.path, edit=True, model=model)
    assert fork.answer == '[[1, "<c>", "<new>"], ["<a>", "<b>"], 20000]'
    # what the cell had asked before is not asked again; it is on the fork's record, at no cost
    assert (model.asked, model.roots) == (["new"], 2)
    assert sorted(call.prompt_head for call in fork.trajectory.subcalls) == ["a", "b", "c", "new"]
    assert "x.append(llm_query('new'))" in fork.trajectory.iterations[1].reply.text
    assert "x.append(llm_query('new'))" in model.requests[-1][-4].content
    assert "new" not in Trajectory.load(result.path.with_suffix(".rlm")).iterations[1].reply.text.split("x.append")[0]
    assert fork.path is not None
    assert (await RLM.areplay(fork.path)).same


def _state() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def cli(*args: str, stdin: Any = subprocess.DEVNULL, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlm_jupyter.frontends.cli.main", *args]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=60, env={**os.environ, **env})


def _asked(typed: str, *args: str) -> subprocess.CompletedProcess[str]:
    master, slave = pty.openpty()
    os.write(master, f"{typed}\n".encode())
    try:
        return cli(*args, stdin=slave, TERM="dumb")
    finally:
        os.close(slave)
        os.close(master)


@pytest.mark.slow
def test_on_the_command_line(in_folder: Path) -> None:
    replies = [
        block("open('traces', 'a').write('x')", "print(len(context))"),
        block("print('two')"),
        block("FINAL('end')"),
    ]
    Path("s.json").write_text(json.dumps(replies))
    Path("t.txt").write_text("a text")
    first = cli(
        "run",
        "What?",
        "-c",
        "t.txt",
        "-m",
        "scripted/s.json",
        "--max-iterations",
        "1",
        "--save",
        "run.ipynb",
        "-q",
        "--sandbox",
        "none",
    )
    assert first.returncode in (0, 1), first.stderr
    limited = cli("resume", "run.ipynb", "--yes")
    assert (limited.returncode, limited.stderr.count("\n")) == (2, 1)
    assert "Raise it to go on: --max-iterations N" in limited.stderr
    Path("s.json").write_text(json.dumps(replies[1:]))
    refused = cli("resume", "run.ipynb", "--max-iterations", "5")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert (
        "1 cell of run would be executed again, with your rights, as there is no sandbox, and nobody can be asked here"
        in refused.stderr
    )
    assert Path("traces").read_text() == "x"
    # a person is asked
    said_no = _asked("n", "resume", "run.ipynb", "--max-iterations", "5", "-q")
    assert (said_no.returncode, said_no.stdout) == (2, "")
    done = _asked("y", "resume", "run.ipynb", "--max-iterations", "5", "-q")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert "1 cell of run will be executed again, with your rights" in done.stderr
    assert Path("traces").read_text() == "xx"
    ended = cli("resume", "run.ipynb", "--yes")
    assert (ended.returncode, "has its answer" in ended.stderr) == (2, True)
    same = cli("replay", "run.ipynb", "--yes")
    assert (same.returncode, same.stdout) == (0, "")
    assert "3 cells executed, 0 sub-calls answered from the record, no model asked: the same came out." in same.stderr
    Path("s.json").write_text(json.dumps([block("FINAL('another')")]))
    fork = cli("fork", "run.ipynb", "--at", "2", "-y", "--json", "--save", "fork.ipynb")
    assert fork.returncode == 0, fork.stderr
    assert json.loads(fork.stdout)["answer"] == "another"
    document = Path("run.ipynb").read_text().replace("print('two')", "print('three')")
    Path("run.ipynb").write_text(document)
    edited = cli("fork", "run.ipynb", "--edit", "--no-reexec", "-q")
    assert (edited.returncode, edited.stdout) == (0, "another\n")


def test_a_replay_that_differs_fails_on_the_command_line(in_folder: Path) -> None:
    Path("s.json").write_text(
        json.dumps([block("import os", "print(int(os.path.exists('one more')))"), block("FINAL('end')")])
    )
    assert (
        cli("run", "What?", "-m", "scripted/s.json", "--save", "run.ipynb", "-q", "--sandbox", "none").returncode == 0
    )
    Path("one more").touch()
    differs = cli("replay", "run.ipynb", "--yes")
    assert differs.returncode == 1
    assert differs.stderr.splitlines()[:2] == [
        "  iteration 1, cell 1: other outputs",
        "  iteration 2, cell 1: the same outputs",
    ]
    assert re.search(r"^-0\n\+1$", differs.stdout, re.MULTILINE)
    assert "1 difference." in differs.stderr
